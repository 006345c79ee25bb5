"""Checksums of forests, distances, neighbours, files and experiments: did a change move a single bit?

    python benchmarks/same_bits.py -o before.json           # in the one checkout
    python benchmarks/same_bits.py --against before.json    # in the other, on the same machine
    python benchmarks/same_bits.py --against before.json --only others    # one part

It uses public names only, so that it runs in any two states of the library, and the functions `answer` and
`score` of the experiments with small settings, on the balance scale and scikit-learn's digits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from threadpoolctl import threadpool_limits

import metricforest
from metricforest import (
    HierarchyForest,
    MetricKNeighborsClassifier,
    MetricNeighborsTransformer,
    MetricSpectralClustering,
    TableMetric,
    cross_val_pair_score,
    datasets,
    rivals,
)

try:
    from metricforest.demo import labelled_pairs
except ImportError:  # an older state of the library
    from metricforest.demo import judged_pairs as labelled_pairs
from metricforest.experiments import protocol
from metricforest.experiments.catalogue import EXPERIMENTS
from metricforest.experiments.protocol import Unit

paper = getattr(HierarchyForest, "paper", HierarchyForest)  # once they were the defaults
SETS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
RIVALS = ("Euclidean", "DCA", "ITML", "LMNN", "GBLMNN", "BoostMetric", "RandomForestDistance")
FROM_PAIRS = ("DCA", "ITML", "RandomForestDistance")
FEW = {"random_state": 0, "n_estimators": 15}  # of parameters, where a metric has them
N_ROWS = 300  # of a set that rivals learn from
SMALL = {  # settings of the experiments
    **{"trees": 12, "constraints_per_class": 100, "folds": 2, "repeats": 1, "draws": 1},
    **{"gblmnn_trees": 5, "itml_gammas": (1.0, 10.0)},
    **{"pair_queries": 2, "clock_repeats": 1, "judged_pairs": 200, "dataset": "balance"},
    **{"neighbours_usps": (5,), "kmeans_starts": 2, "retrieved": (5, 10), "constraints": 3_000},
    **{"lmnn_rows": 400, "gblmnn_components": 5, "rfd_queries": 50},
}
OWN = {  # where an experiment reads one of them otherwise
    "classification": {"gblmnn_components": {}, "rfd_queries": {}},
    "clustering": {"neighbours": (5, 20), "sigmas": (1.0, 10.0), "itml_gammas": (1.0,)},
}
UNITS = {  # what of its data sets an experiment is asked besides the metric
    "neighbours": [(("solver", "lbfgs"),), (("solver", "subgradient"),), (("solver", "lbfgs"), ("pairs", 0))],
    "clustering": [
        (("constraints", 90), ("sampling", "per class")),
        (("constraints", 45), ("sampling", "uniform")),
    ],
    "classification": [(("fold", 0),), (("fold", 1),)],
    "noise": [(("noise", 0),), (("noise", 20),)],
    "ablations": [
        *[(("alpha", 2.0),), (("hard", True),), (("solver", "subgradient"),), (("reg_lambda", 0.1),)],
        *[(("n_estimators", 5),), (("min_node_size", 10),), (("cannot_link_fraction", 1.0),)],
        (("n_constraints", 0),),
    ],
    "retrieval": [(("scaling", "as they are"), ("gamma", 1.0)), (("scaling", "unit"), ("gamma", 1.0))],
}  # fmt: skip


def checksum(*arrays: Any) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(array if isinstance(array, bytes) else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def of_arrays(found: Any) -> str:
    """The checksum of an object made of arrays, sparse matrices, numbers and text, however nested."""
    return checksum(*parts(found))


def parts(found: Any) -> Iterator[Any]:
    if sp.issparse(found):
        yield from parts(
            [found.indptr.astype(np.int64), found.indices.astype(np.int64), found.data]
        )
    elif isinstance(found, np.ndarray) and found.dtype != object:
        yield found
    elif isinstance(found, dict):
        yield from parts([part for item in sorted(found.items()) for part in item])
    elif isinstance(found, list | tuple | np.ndarray):
        for part in found:
            yield from parts(part)
    else:
        yield repr(found.item() if isinstance(found, np.generic) else found).encode()


def file_of(metric: Any) -> tuple[Any, Any]:
    """Which fitted attributes a file keeps, and what `load` makes of it; new parameters change no result."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.mf"
        metric.save(path)
        again = metricforest.load(path)
    kept = {name: value for name, value in vars(again).items() if name.endswith("_")}
    return {name: kept[name] for name in kept if isinstance(kept[name], np.ndarray | float)}, again


def trees(metric: HierarchyForest) -> list[np.ndarray]:
    """The arrays of its trees, but for their heights: once sizes were not kept, and distances show them."""
    parts = metric.forest_._asdict()
    return [
        part for name, part in parts.items() if name != "height" and isinstance(part, np.ndarray)
    ]


def of_forest(X: np.ndarray, y: np.ndarray, seed: int, n_jobs: int) -> dict[str, str]:
    pairs, same = labelled_pairs(y, 300, seed=seed)
    metric = paper(20, n_jobs=n_jobs, random_state=seed)
    metric.fit(X, pairs=pairs, pair_labels=same, triplets=[[0, 1, len(X) - 1]])
    added = metric.add(X[:5] + 0.01)
    file, again = file_of(metric)
    Q = X[::7] + 0.001
    return {
        "forest": checksum(*trees(metric)),
        "pair distance": checksum(metric.pair_distance(Q[:-1], Q[1:])),
        "all distances": checksum(metric.pairwise_distances(Q)),
        "neighbours": checksum(*metric.kneighbors(Q, 7)),
        "exact neighbours": checksum(*again.kneighbors(Q, 7, n_candidates=None)),
        "hard neighbours": checksum(*again.kneighbors(Q, 7, hard=True)),
        "radius": checksum(*[a for part in metric.radius_neighbors(Q[:9], 0.4) for a in part]),
        "added": checksum(added),
        "file": of_arrays(file),
        "suspects": checksum(metric.suspect_pairs().suspicion),
        "suggestions": checksum(metric.suggest_pairs(9)),
        "importances": checksum(metric.feature_importances_),
    }


def forests() -> Iterator[tuple[str, str]]:
    for name, load in SETS.items():
        X, y = load(return_X_y=True)
        for seed in (0, 1):
            for n_jobs in (1, 2):
                for what, value in of_forest(X, y, seed, n_jobs).items():
                    yield f"{name}, seed {seed}, {n_jobs} jobs, {what}", value


def learned(X: np.ndarray, y: np.ndarray, how: str, changes: dict[str, Any]) -> HierarchyForest:
    """A forest of 12 trees, told in one of several ways."""
    metric = paper(**{"n_estimators": 12, "random_state": 3} | changes)
    pairs, same = labelled_pairs(y, 200, seed=3)
    if how == "unsupervised":
        return metric.fit(X)
    if how == "classes":
        return metric.fit(X, np.where(np.arange(len(y)) % 3, y, -1))
    if how == "triplets":
        classes = [np.flatnonzero(y == c) for c in np.unique(y)[:2]]
        near, far = classes[0][:40], classes[1][:20]
        return metric.fit(X, triplets=np.column_stack([near[:20], near[20:], far]))
    metric.fit(X, pairs=pairs, pair_labels=same)
    if how == "warm start":
        metric.set_params(n_estimators=20, warm_start=True)
        metric.fit(X, pairs=pairs, pair_labels=same)
    return metric


WAYS: list[tuple[str, dict[str, Any]]] = [
    *[("unsupervised", {}), ("classes", {}), ("triplets", {}), ("warm start", {})],
    *[("pairs", {"solver": "subgradient"}), ("unsupervised", {"solver": "subgradient"})],
    *[("pairs", {"implied_pairs": True}), ("pairs", {"standardize": False})],
    *[("pairs", {"max_features": None}), ("pairs", {"max_features": "sqrt"})],
    *[("pairs", {"cannot_link_fraction": 1.0}), ("pairs", {"C": 0.1, "reg_lambda": 0.001})],
    *[("pairs", {"min_node_size": 1, "alpha": 4.0}), ("pairs", {"keep_certainties": False})],
    ("classes", {"n_constraints": 50}),
]


def ways_to_learn() -> Iterator[tuple[str, str]]:
    """Every way to tell a forest something, every parameter, and what can be asked of it."""
    for name in ("wine", "digits"):
        X, y = SETS[name](return_X_y=True)
        X, y = X[:500], y[:500]
        Q = X[::5] + 0.001
        for how, changes in WAYS:
            metric = learned(X, y, how, changes)
            told = ", ".join([how, *[f"{key} {value}" for key, value in changes.items()]])
            for what, value in {
                "forest": trees(metric),
                "distances": metric.pair_distance(Q[:-1], Q[1:]),
                "hard distances": metric.pair_distance(Q[:-1], Q[1:], hard=True),
                "all hard distances": metric.pairwise_distances(Q, hard=True),
                "neighbours": metric.kneighbors(Q, 5),
                "own neighbours": metric.kneighbors(None, 5),
                "own exact neighbours": metric.kneighbors(None, 5, n_candidates=None),
                "own hard neighbours": metric.kneighbors(None, 5, n_candidates=None, hard=True),
                "hard radius": metric.radius_neighbors(Q[:9], 0.4, hard=True),
                "graph": metric.kneighbors_graph(None, 5, mode="distance"),
                "vectors": getattr(metric, "hard_vectors", metric.transform)(Q),  # its name before
                "split statistics": metric.split_statistics_,
            }.items():
                yield f"{name}, {told}, {what}", of_arrays(value)


def questions() -> Iterator[tuple[str, str]]:
    """What a learned forest answers about pairs: thresholds, reasons, doubts, questions."""
    for name in ("wine", "breast cancer"):
        X, y = SETS[name](return_X_y=True)
        pairs, same = labelled_pairs(y, 150, seed=5)
        metric = paper(15, random_state=5).fit(X, pairs=pairs, pair_labels=same)
        A, B = X[:-1], X[1:]
        explained = metric.explain_pair(0, len(X) - 1)
        suspects = metric.suspect_pairs(20, cv=3)
        metric.calibrate_threshold(np.stack([A, B], axis=1), y[:-1] == y[1:])
        file, again = file_of(metric)
        metric.remove(metric.ids_[::4])
        for what, value in {
            "threshold": metric.threshold_,
            "same or different": again.predict_pairs(A, B),
            "probabilities": again.predict_pairs_proba(A, B),
            "scores": again.pair_score(A, B),
            "uncertainty": again.uncertainty(A, B),
            "explanation": explained,
            "suspects in folds": suspects,
            "suggestions": again.suggest_pairs(12, random_state=1),
            "after rows are removed": metric.kneighbors(A, 5),
            "exactly, after rows are removed": metric.kneighbors(A, 5, n_candidates=None),
            "file": file,
        }.items():
            yield f"{name}, questions, {what}", of_arrays(value)


def others() -> Iterator[tuple[str, str]]:
    """The rivals: distances, neighbours and files on several sets, by classes or by pairs."""
    X, y = load_wine(return_X_y=True)
    for name in RIVALS:
        metric = rival(name, {"random_state": 0}).fit(X, y)
        yield f"wine, {name}", of_arrays(metric.pair_distance(X[:-1], X[1:]))
    for data in ("iris", "breast cancer", "digits"):
        X, y = SETS[data](return_X_y=True)
        X, y = X[:N_ROWS], y[:N_ROWS]
        if data == "iris":
            X, y = X[:140], y[:140]
        pairs, same = labelled_pairs(y, 200, seed=0)
        Q = X[::5] + 0.001
        for name in RIVALS:
            given: dict[str, Any] = {"pairs": pairs, "pair_labels": same}
            metric = rival(name)
            metric.fit(X, **given) if name in FROM_PAIRS else metric.fit(X, y)
            file, again = file_of(metric)
            for what, value in {
                "distances": metric.pairwise_distances(Q),
                "neighbours": again.kneighbors(Q, 5),
                "own neighbours": metric.kneighbors(None, 5),
                "radius": metric.radius_neighbors(Q[:9], 0.4),
                "file": file,
            }.items():
                yield f"{data}, rivals, {name}, {what}", of_arrays(value)


def rival(name: str, changes: dict[str, int] = FEW) -> Any:
    metric = getattr(rivals, name)()
    return metric.set_params(**{k: v for k, v in changes.items() if k in metric.get_params()})


def wrappers() -> Iterator[tuple[str, str]]:
    """scikit-learn estimators on top of a metric."""
    X, y = load_wine(return_X_y=True)
    forest = paper(20, random_state=0)
    labels = MetricSpectralClustering(3, metric=forest, random_state=0).fit_predict(X, y)
    yield "wine, clusters", checksum(np.asarray(labels, np.int64))
    metrics = {"forest": forest, "Euclidean": rivals.Euclidean(), "ITML": rival("ITML")}
    pairs, same = labelled_pairs(y, 150, seed=0)
    for name, metric in metrics.items():
        classifier = MetricKNeighborsClassifier(metric=metric).fit(X[::2], y[::2])
        clusters = MetricSpectralClustering(3, metric=metric, random_state=0)
        transformer = MetricNeighborsTransformer(metric=metric)
        for what, value in {
            "votes": classifier.predict_proba(X[1::2]),
            "graph": transformer.fit(X, y).transform(X[:50]),
            "clusters from pairs": clusters.fit_predict(X, pairs=pairs, pair_labels=same),
            "held-out pairs": cross_val_pair_score(metric, X, pairs=pairs, pair_labels=same, cv=3),
        }.items():
            yield f"wine, wrappers, {name}, {what}", of_arrays(value)


def tables() -> Iterator[tuple[str, str]]:
    """A table of numbers, words and gaps, matched by ids."""
    X, y = load_wine(return_X_y=True)
    ids = [f"w{i:03}" for i in range(len(X))]
    table: dict[str, Any] = {f"c{j}": X[:, j].tolist() for j in range(6)}
    table["c1"] = [None if i % 11 == 0 else value for i, value in enumerate(table["c1"])]
    table["kind"] = [("red", "white", "rose")[int(v * 3) % 3] for v in X[:, 6]]
    table["id"] = ids
    places, same = labelled_pairs(y, 150, seed=0)
    pairs = [
        [ids[a], ids[b], "same" if s == 1 else "different"]
        for (a, b), s in zip(places, same, strict=True)
    ]
    metric = TableMetric(paper(15), id="id", random_state=0).fit(table, pairs=pairs)
    file, again = file_of(metric)
    few = {name: column[:30] for name, column in table.items()}
    for what, value in {
        "prepared": metric.preparation_.transform(table),
        "threshold": metric.threshold_,
        "held-out distances": metric.held_out_distance_,
        "neighbours": again.kneighbors(few, 5),
        "own neighbours": metric.kneighbors(None, 5),
        "distances": again.pairwise_distances(few),
        "probabilities": again.predict_pairs_proba(few, few),
        "file": file,
    }.items():
        yield f"wine, table, {what}", of_arrays(value)


def experiments() -> Iterator[tuple[str, str]]:
    """Raw answers and scores of small units of every experiment under every metric."""
    for name, experiment in EXPERIMENTS.items():
        settings = protocol.chosen(experiment.SETTINGS, True)
        changes = SMALL | OWN.get(name, {})
        settings |= {key: value for key, value in changes.items() if key in settings}
        metrics = getattr(experiment, "METRICS", protocol.METRICS)
        metrics = [m for m in metrics if m not in getattr(experiment, "SKIPPED", ())]
        for metric in [protocol.HFD] if name in ("neighbours", "ablations") else metrics:
            for more in UNITS[name]:
                dataset = "cifar10" if name == "retrieval" else "balance"
                unit = Unit(name, dataset, metric, 1, more)
                answer = experiment.answer(unit, settings, 1)
                scores = experiment.score(unit, answer.raw, settings)
                yield f"experiments, {unit.key}", of_arrays([answer.raw, scores, answer.notes])


def load_small(name: str, labels: str) -> datasets.Dataset:
    """The balance scale, and scikit-learn's digits as images to retrieve."""
    if name == "balance":
        return datasets.load(name)
    X, y = load_digits(return_X_y=True)
    X = X[:, X[:1_000].std(axis=0) > 0.0]
    return datasets.Dataset(
        name, X[:1_000].astype(np.float32), y[:1_000], tuple("0123456789"), (), "", "", "", "",
        X[1_000:1_100].astype(np.float32), y[1_000:1_100],
    )  # fmt: skip


PARTS: tuple[Callable[[], Iterator[tuple[str, str]]], ...]
PARTS = (forests, ways_to_learn, questions, others, wrappers, tables, experiments)


def all_of_them(only: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    load, protocol.load = protocol.load, load_small
    try:
        for part in PARTS:
            with threadpool_limits(1 if part is not forests else None):
                if only in ("", part.__name__):
                    found.update(part())
    finally:
        protocol.load = load
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", choices=[part.__name__ for part in PARTS])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = all_of_them(given.only)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not given.against:
        print(f"{len(found)} checksums, together {checksum(json.dumps(found).encode())}")
        return 0
    before = json.loads(given.against.read_text(encoding="utf-8"))
    compared = [key for key in before if not given.only or key in found]
    other = [key for key in compared if found.get(key) != before[key]]
    print(f"{len(compared) - len(other)} of {len(compared)} checksums are the same")
    for key in other:
        print(f"  differs: {key}" + " (not there)" * (key not in found))
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
