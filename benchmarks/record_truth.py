"""Tables whose matches are known, for the benchmarks: their columns, and which pairs of rows are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from metricforest import records
from metricforest.tables.comparison import PairComparison
from metricforest.tables.pair_matches import candidate_pairs


class Truth:
    """One table or two without their ids, and which of their rows are the same."""

    def __init__(self, tables: list[dict[str, np.ndarray]], matches: np.ndarray):
        self.tables = tables
        self.sizes = [len(next(iter(table.values()))) for table in tables]
        if len(tables) == 1:
            matches = np.sort(matches, axis=1)
        self.codes = np.unique(matches @ [self.sizes[-1], 1])  # of pairs, rising

    @classmethod
    def load(cls, name: str) -> Truth:
        """Records of `metricforest.records`."""
        found = records.load(name)
        tables = [
            {column: np.array(values, object) for column, values in table.items()
             if column != found.id}
            for table in found.tables
        ]  # fmt: skip
        return cls(tables, np.array(found.matches(), np.int64))

    @classmethod
    def published(cls, folder: Path) -> Truth:
        """left.csv, right.csv and labelled pairs of them; what has no label counts as no match."""
        sides = [pd.read_csv(folder / f"{side}.csv", dtype=str) for side in ("left", "right")]
        place = [pd.Series(range(len(side)), index=side["id"]) for side in sides]
        pairs = pd.concat(
            [pd.read_csv(folder / f"{n}.csv", dtype=str) for n in ("train", "valid", "test")]
        )
        pairs = pairs[pairs["answer"] == "same"]
        matches = np.column_stack([place[i][pairs[s]] for i, s in enumerate(("left", "right"))])
        tables = [
            {column: np.array(side[column].fillna(""), object) for column in side if column != "id"}
            for side in sides
        ]
        return cls(tables, matches)

    @property
    def n_matches(self) -> int:
        return len(self.codes)

    def same(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Whether rows ``a[i]`` and ``b[i]`` are the same."""
        if len(self.tables) == 1:
            a, b = np.minimum(a, b), np.maximum(a, b)
        return np.isin(np.asarray(a) * self.sizes[-1] + b, self.codes)

    def near(self) -> np.ndarray:
        """Pairs that look alike: the 3 nearest of each row."""
        if not hasattr(self, "_near"):
            self._near = candidate_pairs(PairComparison().fit(*self.tables), 3)
        return self._near

    def judged(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(pairs, same): half matches, a quarter that look alike and are none, a quarter any two rows."""
        near = self.near()[rng.permutation(len(self.near()))]
        is_same = self.same(*near.T)
        anyone = np.column_stack([rng.integers(self.sizes[side], size=n) for side in (0, -1)])
        strange = ~self.same(*anyone.T)
        if len(self.tables) == 1:
            strange &= anyone[:, 0] != anyone[:, 1]
        matches = near[is_same][: n // 2]
        strangers = near[~is_same][: n // 4]
        rest = anyone[strange][: n - len(matches) - len(strangers)]
        pairs = np.concatenate([matches, strangers, rest])
        return pairs, self.same(*pairs.T)
