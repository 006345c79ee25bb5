"""Checksums of forests, distances, neighbours and files: did a change of the code move a single bit?

    python benchmarks/same_bits.py -o before.json           # in the one checkout
    python benchmarks/same_bits.py --against before.json    # in the other, on the same machine

It uses public names only, so that it runs in any two states of the library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import metricforest
from metricforest import HierarchyForest, MetricSpectralClustering, rivals
from metricforest.demo import judged_pairs

SETS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
RIVALS = ("Euclidean", "DCA", "ITML", "LMNN", "GBLMNN", "BoostMetric", "RandomForestDistance")


def checksum(*arrays: np.ndarray | bytes) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(array if isinstance(array, bytes) else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def of_forest(X: np.ndarray, y: np.ndarray, seed: int, n_jobs: int) -> dict[str, str]:
    pairs, same = judged_pairs(y, 300, seed=seed)
    metric = HierarchyForest(20, n_jobs=n_jobs, random_state=seed)
    metric.fit(X, pairs=pairs, pair_labels=same, triplets=[[0, 1, len(X) - 1]])
    added = metric.add(X[:5] + 0.01)
    with tempfile.TemporaryDirectory() as folder:
        metric.save(Path(folder) / "m.mf")
        again = metricforest.load(Path(folder) / "m.mf")
        file = (Path(folder) / "m.mf").read_bytes()
    Q = X[::7] + 0.001
    return {
        "forest": checksum(*(part for part in metric.forest_ if isinstance(part, np.ndarray))),
        "pair distance": checksum(metric.pair_distance(Q[:-1], Q[1:])),
        "all distances": checksum(metric.pairwise_distances(Q)),
        "neighbours": checksum(*metric.kneighbors(Q, 7)),
        "exact neighbours": checksum(*again.kneighbors(Q, 7, n_candidates=None)),
        "hard neighbours": checksum(*again.kneighbors(Q, 7, hard=True)),
        "radius": checksum(*[a for part in metric.radius_neighbors(Q[:9], 0.4) for a in part]),
        "added": checksum(added),
        "file": checksum(file),
        "suspects": checksum(metric.suspect_pairs().suspicion),
        "suggestions": checksum(metric.suggest_pairs(9)),
        "importances": checksum(metric.feature_importances_),
    }


def all_of_them() -> dict[str, str]:
    found = {}
    for name, load in SETS.items():
        X, y = load(return_X_y=True)
        for seed in (0, 1):
            for n_jobs in (1, 2):
                for what, value in of_forest(X, y, seed, n_jobs).items():
                    found[f"{name}, seed {seed}, {n_jobs} jobs, {what}"] = value
    X, y = load_wine(return_X_y=True)
    for name in RIVALS:
        metric = getattr(rivals, name)()
        if "random_state" in metric.get_params():
            metric.set_params(random_state=0)
        metric.fit(X, y)
        found[f"wine, {name}"] = checksum(metric.pair_distance(X[:-1], X[1:]))
    forest = HierarchyForest(20, random_state=0)
    labels = MetricSpectralClustering(3, metric=forest, random_state=0).fit_predict(X, y)
    found["wine, clusters"] = checksum(np.asarray(labels, np.int64))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = all_of_them()
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not given.against:
        print(f"{len(found)} checksums, together {checksum(json.dumps(found).encode())}")
        return 0
    before = json.loads(given.against.read_text(encoding="utf-8"))
    other = [key for key in before if found.get(key) != before[key]]
    print(f"{len(before) - len(other)} of {len(before)} checksums are the same")
    for key in other:
        print(f"  differs: {key}")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
