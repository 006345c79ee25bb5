"""A learned distance inside faiss: its index finds candidates, the forest ranks them.

faiss takes no metric of your own. But `transform` gives vectors whose Euclidean distance follows the learned
one, and they go into any index. Its candidates are then ranked by the distance itself.

    pip install "metricforest[bench]"
    python examples/faiss_index.py
"""

from __future__ import annotations

import faiss
import numpy as np
from sklearn.datasets import load_digits

from metricforest import HierarchyForest
from metricforest.demo import labelled_pairs

N_NEIGHBORS = 10


def rank(
    metric: HierarchyForest, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """Candidates (row numbers of X, per query) in the order of their soft distance."""
    n, m = candidates.shape
    distance = metric.pair_distance(np.repeat(Q, m, axis=0), X[candidates.ravel()]).reshape(n, m)
    return np.take_along_axis(candidates, np.argsort(distance, axis=1, kind="stable"), axis=1)


def recall(found: np.ndarray, true: np.ndarray) -> float:
    hits = [len(np.intersect1d(a, b)) for a, b in zip(found, true, strict=True)]
    return float(np.mean(hits)) / true.shape[1]


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X, Q = X[:1500], X[1500:]
    pairs, same = labelled_pairs(y[:1500], 3000, seed=0)
    metric = HierarchyForest(100, n_jobs=-1, random_state=0).fit(X, pairs=pairs, pair_labels=same)

    index = faiss.IndexHNSWFlat(metric.n_components_, 32)
    index.add(metric.transform(X))
    vectors = metric.transform(Q)

    soft = metric.kneighbors(Q, N_NEIGHBORS, n_candidates=None, return_distance=False)
    _, found = index.search(vectors, N_NEIGHBORS)
    print(f"faiss alone                         recall {recall(found, soft):.2f} at {N_NEIGHBORS}")
    for n_candidates in (50, 100, 200):
        _, candidates = index.search(vectors, n_candidates)
        ranked = rank(metric, Q, X, candidates)[:, :N_NEIGHBORS]
        print(f"{n_candidates:4} candidates, measured            recall {recall(ranked, soft):.2f}")
    own = metric.kneighbors(Q, N_NEIGHBORS, return_distance=False)
    print(f"metricforest's own search           recall {recall(own, soft):.2f}")


if __name__ == "__main__":
    main()
