"""Precision, recall and F1 on published record-matching sets, beside simple peers.

    python benchmarks/matching.py FOLDER [--sets Beer ...] [--pairs all 450 150 50] [--seeds 5] [--peers]

FOLDER holds a folder for each set, with left.csv and right.csv (a column id) and labelled pairs train.csv,
valid.csv, test.csv (left, right, answer). Methods learn from training pairs only: all of them, or a
draw with as many same as different ones where there are so many; PairModel knows the share of matches among
all training pairs then. Each is scored on the test pairs at its own threshold; F1 at the threshold that is
best on the validation pairs stands beside it. Mean and range over the seeds, in per cent.

With --peers: `boosted trees`, scikit-learn's on [|a - b|, (a + b) / 2] of the rows as TablePreparation has
them; `logistic`, what recordlinkage's documentation recommends, a logistic regression on the Jaro-Winkler
similarity of every column; `TableMetric`, both tables put into one.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from metricforest import PairModel, TableMetric, TablePreparation

Scores = tuple[np.ndarray, np.ndarray, float]  # of validation pairs, of test pairs, the threshold


class Matching:
    """Two tables and labelled pairs of their rows."""

    def __init__(self, folder: Path):
        self.left, self.right, self.train, self.valid, self.test = (
            pd.read_csv(folder / f"{name}.csv", dtype=str)
            for name in ("left", "right", "train", "valid", "test")
        )

    def draw(self, n: int | None, seed: int) -> pd.DataFrame | None:
        """All training pairs, or n of them, half the same where there are so many."""
        if n is None:
            return self.train
        if n >= len(self.train):
            return None
        rng = np.random.default_rng(seed)
        is_same = same(self.train)
        n_same = min(n // 2, int(is_same.sum()))
        parts = [rng.choice(np.flatnonzero(is_same), n_same, replace=False),
                 rng.choice(np.flatnonzero(~is_same), n - n_same, replace=False)]  # fmt: skip
        return self.train.iloc[np.concatenate(parts)]

    def united(self) -> pd.DataFrame:
        return pd.concat([self.left, self.right], ignore_index=True)


def same(pairs: pd.DataFrame) -> np.ndarray:
    return (pairs["answer"] == "same").to_numpy()


def pair_model(data: Matching, pairs: pd.DataFrame, seed: int) -> Scores:
    drawn = len(pairs) < len(data.train)
    rate = float(same(data.train).mean()) if drawn else None
    model = PairModel("id", match_rate=rate, random_state=seed)
    model.fit(data.left, data.right, pairs=pairs)
    return model.probability(data.valid), model.probability(data.test), model.threshold_


def table_metric(data: Matching, pairs: pd.DataFrame, seed: int) -> Scores:
    table = data.united()
    model = TableMetric(id="id", random_state=seed).fit(table, pairs=pairs)
    rows = table.set_index("id", drop=False)
    valid, test = (
        -model.pair_distance(rows.loc[p["left"]], rows.loc[p["right"]])
        for p in (data.valid, data.test)
    )
    return valid, test, -getattr(model, "threshold_", 0.0)


def boosted_trees(data: Matching, pairs: pd.DataFrame, seed: int) -> Scores:
    table = data.united()
    rows = TablePreparation(kinds={"id": "drop"}).fit(table).transform(table)
    place = {name: i for i, name in enumerate(table["id"])}

    def features(of: pd.DataFrame) -> np.ndarray:
        a, b = (rows[[place[name] for name in of[side]]] for side in ("left", "right"))
        return np.hstack([np.abs(a - b), (a + b) / 2])

    return classified(HistGradientBoostingClassifier(random_state=seed), features, data, pairs)


def logistic(data: Matching, pairs: pd.DataFrame, seed: int) -> Scores:
    left, right = (t.fillna("").set_index("id") for t in (data.left, data.right))

    def features(of: pd.DataFrame) -> np.ndarray:
        a, b = left.loc[of["left"]], right.loc[of["right"]]
        scorer = JaroWinkler.normalized_similarity
        return np.column_stack(
            [process.cpdist(a[c].tolist(), b[c].tolist(), scorer=scorer) for c in a]
        )

    return classified(LogisticRegression(max_iter=1_000), features, data, pairs)


def classified(
    model: Any, features: Callable[[pd.DataFrame], np.ndarray], data: Matching, pairs: pd.DataFrame
) -> Scores:
    model.fit(features(pairs), same(pairs))
    valid, test = (model.predict_proba(features(p))[:, 1] for p in (data.valid, data.test))
    return valid, test, 0.5


def rates(score: np.ndarray, truth: np.ndarray, threshold: float) -> tuple[float, float, float]:
    """Precision, recall and F1 in per cent."""
    called = score >= threshold
    hits = float((called & truth).sum())
    precision, recall = hits / max(called.sum(), 1), hits / truth.sum()
    return 100 * precision, 100 * recall, 100 * 2 * hits / (called.sum() + truth.sum())


def best_threshold(score: np.ndarray, truth: np.ndarray) -> float:
    return max(np.unique(score), key=lambda cut: rates(score, truth, cut)[2])


def show(values: list[float]) -> str:
    return f"{np.mean(values):5.1f} ({min(values):.1f} to {max(values):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--pairs", nargs="+", default=["all", "450", "150", "50"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peers", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    methods = {"PairModel": pair_model}
    if given.peers:
        methods |= {"TableMetric": table_metric, "boosted trees": boosted_trees,
                    "logistic": logistic}  # fmt: skip
    sets = given.sets or sorted(path.name for path in given.folder.iterdir() if path.is_dir())
    print(
        f"{'set':15}{'pairs':>6}  {'method':14} {'precision':22} {'recall':22} {'F1':22} F1, by valid"
    )
    for name in sets:
        data = Matching(given.folder / name)
        for n in given.pairs:
            for method, score in methods.items():
                found = []
                for seed in range(given.seeds):
                    pairs = data.draw(None if n == "all" else int(n), seed)
                    if pairs is None:
                        break
                    valid, test, threshold = score(data, pairs, seed)
                    by_valid = rates(test, same(data.test), best_threshold(valid, same(data.valid)))
                    found.append([*rates(test, same(data.test), threshold), by_valid[2]])
                if found:
                    shown = "".join(f"{show(list(part)):23}" for part in zip(*found, strict=True))
                    print(f"{name:15}{n:>6}  {method:14} {shown}", flush=True)


if __name__ == "__main__":
    main()
