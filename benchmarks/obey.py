"""Clusters from labelled pairs beside what people use instead: V-measure and adjusted Rand index.

    python benchmarks/obey.py                      # scikit-learn's sets, and the paper's where they are
    python benchmarks/obey.py --draws 5 --jobs 2 -o results.jsonl

Pairs are drawn at random. Peers see standardised rows: k-means and average linkage without the pairs;
PCKMeans, MPCKMeans and COP-KMeans with them, if active-semi-supervised-clustering and metric-learn are
installed (`pip install active-semi-supervised-clustering metric-learn`; a peer that takes over 20 s is left
out). "graph cut" is the paper's clustering (``obey=False``) on the same forest. At most 1,000 rows of a set.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score, v_measure_score
from sklearn.preprocessing import StandardScaler

from metricforest import HierarchyForest, MetricSpectralClustering, datasets

SMALL = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
PAPER = ("sonar", "ionosphere", "balance", "segmentation", "magic", "usps")
PAIRS = (50, 100, 300, 1_000, 3_000)
MOST_ROWS = 1_000
OURS, CUT = "obeying", "graph cut"
TREES = 150
PATIENCE = 20  # seconds


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """At most `MOST_ROWS` rows and their classes as numbers."""
    if name in SMALL:
        X, y = SMALL[name](return_X_y=True)
    else:
        data = datasets.load(name)
        X, y = data.X, data.y
    chosen = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
    return X[chosen], np.unique(y[chosen], return_inverse=True)[1]


def peers() -> dict[str, Any]:
    try:
        from active_semi_clustering.semi_supervised.pairwise_constraints import (
            COPKMeans,
            MPCKMeans,
            PCKMeans,
        )
    except ImportError:
        return {}
    return {"PCKMeans": PCKMeans, "MPCKMeans": MPCKMeans, "COP-KMeans": COPKMeans}


def out_of_time(*_: Any) -> None:
    raise TimeoutError


def one(name: str, n_pairs: int, draw: int) -> list[dict[str, Any]]:
    """Scores of everybody on one draw of pairs."""
    warnings.simplefilter("ignore")
    X, y = rows_of(name)
    n, k = len(y), int(y.max()) + 1
    if n_pairs > n * (n - 1) // 12:
        return []
    rng = np.random.default_rng((draw, n_pairs))
    every = rng.choice(n * (n - 1) // 2, n_pairs, replace=False)
    first = (n - 2 - np.floor(np.sqrt(-8.0 * every + 4 * n * (n - 1) - 7) / 2 - 0.5)).astype(int)
    second = every + first + 1 - n * (n - 1) // 2 + (n - first) * (n - first - 1) // 2
    pairs = np.column_stack([first, second])
    labels = np.where(y[first] == y[second], 1, -1)
    forest = HierarchyForest(TREES, alpha=4, random_state=draw)
    forest.fit(X, pairs=pairs, pair_labels=labels)
    obeying = MetricSpectralClustering(k, FrozenEstimator(forest), random_state=draw)
    obeying.fit(X, pairs=pairs, pair_labels=labels)
    cut = MetricSpectralClustering(k, FrozenEstimator(forest), obey=False, random_state=draw)
    scaled = StandardScaler().fit_transform(X)
    found = {
        OURS: obeying.labels_,
        CUT: cut.fit_predict(X),
        "k-means": KMeans(k, n_init=10, random_state=draw).fit_predict(scaled),
        "average linkage": AgglomerativeClustering(k, linkage="average").fit_predict(scaled),
    }
    links = {sign: [tuple(pair) for pair in pairs[labels == sign].tolist()] for sign in (1, -1)}
    signal.signal(signal.SIGALRM, out_of_time)
    for peer, kind in peers().items():
        np.random.seed(draw)  # noqa: NPY002  the peers draw from NumPy's global generator
        signal.alarm(PATIENCE)
        try:
            model = kind(k)
            model.fit(scaled, ml=links[1], cl=links[-1])
            found[peer] = model.labels_
        except Exception:  # peers raise many kinds: no clustering found, empty clusters, time
            continue
        finally:
            signal.alarm(0)
            np.seterr(all="warn")
    line = {"set": name, "pairs": n_pairs, "draw": draw, "broken": len(obeying.broken_pairs_)}
    return [
        {**line, "method": method, "v": v_measure_score(y, z), "ari": adjusted_rand_score(y, z)}
        for method, z in found.items()
    ]


def table(lines: list[dict[str, Any]]) -> str:
    """Mean over draws by set and number of pairs, and in how many cells ours is best or near."""
    methods = list(dict.fromkeys(line["method"] for line in lines))
    shown = [f"{'V-measure / ARI':<22}" + "".join(f"{method:>17}" for method in methods)]
    won = cells = 0
    for name, n_pairs in dict.fromkeys((line["set"], line["pairs"]) for line in lines):
        mean = {}
        for method in methods:
            own = [
                (line["v"], line["ari"])
                for line in lines
                if (line["set"], line["pairs"], line["method"]) == (name, n_pairs, method)
            ]
            mean[method] = np.mean(own, axis=0) if own else np.full(2, np.nan)
        best = np.nanmax([mean[m][0] for m in methods if m != OURS])
        cells += 1
        won += bool(mean[OURS][0] >= best - 0.01)
        shown.append(
            f"{name:<15}{n_pairs:>6} "
            + "".join(f"{mean[m][0]:>11.3f} {mean[m][1]:.2f} " for m in methods)
        )
    broken = sum(line["broken"] for line in lines if line["method"] == OURS)
    shown.append(f"obeying is best or within .01 in {won} of {cells} rows; {broken} pairs broken")
    return "\n".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=[*SMALL, *PAPER])
    parser.add_argument("--pairs", nargs="+", type=int, default=PAIRS)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    units = list(itertools.product(given.sets, given.pairs, range(given.draws)))
    found = Parallel(n_jobs=given.jobs, return_as="generator_unordered")(
        delayed(one)(*unit) for unit in units
    )
    lines = []
    for scores in found:
        lines += scores
        if given.out:
            with given.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in scores)
    order = {unit: place for place, unit in enumerate(units)}
    print(table(sorted(lines, key=lambda a: order[a["set"], a["pairs"], a["draw"]])))


if __name__ == "__main__":
    main()
