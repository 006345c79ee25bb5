"""Figures of LMNN, GBLMNN and BoostMetric beside published or expected ones, each with its spread.

    METRICFOREST_DATA=folder python benchmarks/anchors.py [--only toy boost lmnn gblmnn] [--n-jobs 2]

Spread is the standard deviation over seeds, splits or folds. BoostMetric: 3 nearest neighbours, 70 %
of the rows to learn from and 30 % to judge, 20 random splits. LMNN and GBLMNN: 5 nearest neighbours,
5 stratified folds, every metric on the same folds. Data sets that are not here are left out.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from metricforest.rivals import GBLMNN, LMNN, BoostMetric

USPS_COMPONENTS = 30  # dimensions of both maps on USPS: a tree costs as many times more


def load(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    builtin: dict[str, Any] = {"iris": load_iris, "wine": load_wine}
    if name in builtin:
        return builtin[name](return_X_y=True)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("METRICFOREST_DATA", beside)) / f"{name}.npz"
    if not path.is_file():
        print(f"{name}: {path.name} is not here (METRICFOREST_DATA names its folder)")
        return None
    with np.load(path) as data:
        return data["X"].astype(np.float64), data["y"].astype(np.int64)


def show(what: str, values: list[float], expected: str, started: float) -> None:
    mean, spread = 100 * np.mean(values), 100 * np.std(values)
    took = time.process_time() - started
    print(f"{what:<58}{mean:7.2f} ±{spread:5.2f}   {expected:<22}{took:7.0f} s", flush=True)


def accuracy(Z: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, k: int) -> float:
    return float(KNeighborsClassifier(k).fit(Z[train], y[train]).score(Z[test], y[test]))


def toy(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two concentric rings in the first two of ten dimensions, the rest noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + y + 0.1 * rng.normal(size=n)
    ring = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return np.column_stack([ring, 0.1 * rng.normal(size=(n, 8))]), y


def boost_toy() -> None:
    for corrective in (True, False):
        started, values = time.process_time(), []
        for seed in range(10):
            metric = BoostMetric(corrective=corrective, standardize=False).fit(*toy(seed))
            M = metric.components_.T @ metric.components_
            values.append(np.linalg.eigvalsh(M / M.trace())[::-1])
        kind = "corrective" if corrective else "stage-wise"
        for place, expected in enumerate((".54", ".41", ".007", "0")):
            share = [float(v[place]) for v in values]
            what = f"BoostMetric {kind}, toy, eigenvalue {place + 1} (% of trace)"
            show(what, share, f"published {expected}", started)


def boost_errors() -> None:
    published = {"balance": 10.11, "wine": 3.08, "iris": 3.18}
    for name, expected in published.items():
        data = load(name)
        if data is None:
            continue
        X, y = data
        for corrective in (True, False):
            started, errors = time.process_time(), []
            for seed in range(20):
                train, test = train_test_split(np.arange(len(X)), test_size=0.3, random_state=seed)
                metric = BoostMetric(corrective=corrective).fit(X[train], y[train])
                errors.append(1 - accuracy(metric.transform(X), y, train, test, 3))
            kind = "corrective" if corrective else "stage-wise"
            what = f"BoostMetric {kind}, {name}, 3-NN error %"
            show(what, errors, f"published {expected}", started)


def folds(X: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))


def lmnn_and_euclidean() -> None:
    for name in ("segmentation", "ionosphere"):
        data = load(name)
        if data is None:
            continue
        X, y = data
        for kind in ("Euclidean", "LMNN"):
            started, scores = time.process_time(), []
            for train, test in folds(X, y):
                if kind == "LMNN":
                    Z = LMNN().fit(X[train], y[train]).transform(X)
                else:
                    Z = StandardScaler().fit(X[train]).transform(X)
                scores.append(accuracy(Z, y, train, test, 5))
            expected = "above Euclidean" if kind == "LMNN" else ""
            show(f"{kind}, {name}, 5-NN accuracy %", scores, expected, started)


def gblmnn_and_lmnn(n_jobs: int) -> None:
    for name, n_components in (("segmentation", None), ("usps", USPS_COMPONENTS)):
        data = load(name)
        if data is None:
            continue
        X, y = data
        gblmnn = GBLMNN(n_components=n_components, n_jobs=n_jobs, random_state=0)
        gained: list[float] = []
        for metric in (LMNN(n_components=n_components, n_jobs=n_jobs), gblmnn):
            started, scores = time.process_time(), []
            for train, test in folds(X, y):
                Z = metric.fit(X[train], y[train]).transform(X)
                scores.append(accuracy(Z, y, train, test, 5))
            kind = type(metric).__name__
            expected = "no worse than LMNN" if metric is gblmnn else ""
            show(f"{kind}, {name}, 5-NN accuracy %", scores, expected, started)
            gained = [s - g for s, g in zip(scores, gained, strict=True)] if gained else scores
        show(f"GBLMNN - LMNN, {name}, fold by fold", gained, "at least 0", time.process_time())


def main() -> None:
    parts = {
        "toy": boost_toy,
        "boost": boost_errors,
        "lmnn": lmnn_and_euclidean,
        "gblmnn": gblmnn_and_lmnn,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--n-jobs", type=int, default=2)
    arguments = parser.parse_args()
    for name in arguments.only:
        if name == "gblmnn":
            gblmnn_and_lmnn(arguments.n_jobs)
        else:
            parts[name]()


if __name__ == "__main__":
    main()
