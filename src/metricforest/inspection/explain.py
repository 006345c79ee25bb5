"""Why two rows are near or far: shares of a distance by tree, by depth and by feature.

A distance is a mean over trees, and what a tree adds to it comes from one node: the one that separates
the two rows (distance.py). So it has a depth, that of its node, and it is shared among the features j of
the node's plane by how far each moves the two rows apart across the plane::

    P(a) - P(b) = sum of w_j (a_j - b_j)         share of j: |w_j (a_j - b_j)| / their sum

Shares are never negative: a feature that draws the two rows together across the plane counts as one
that moves them, by as much. Rows are prepared, float32; nobody checks them again here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core import (
    CANNOT,
    LEAF,
    PAIRS_PER_TASK,
    TRIPLET,
    Forest,
    distance_at,
    in_parallel,
    interruptible,
    kernel,
    leaves_of,
    pair_distance,
    read_only_view,
    row_ranges,
    separating_node,
)
from ..supervision.constraints import Constraints
from ..warn import warn

WEIGHED = 4_096  # pairs labelled different that importances are made of, at most
WEIGH_BLOCK = 256  # of them per task; fixed, so that sums do not depend on the number of threads


class NearPair(NamedTuple):
    """A labelled pair beside the one that is explained."""

    rows: tuple[int, int]  # of `fit`; the first is the one compared with a, the second with b
    same: bool  # how it was labelled
    distance: float  # between its own two rows
    gap: float  # mean of the distances from a to the first row and from b to the second


@dataclass(frozen=True)
class PairExplanation:
    """What a distance between two rows is made of; from `HierarchyForest.explain_pair`.

    Attributes
    ----------
    distance : float
        The same number as `pair_distance`.
    spread : float
        Standard deviation of the distance from tree to tree; nan with a single tree.
    standard_error : float
        The spread divided by the root of the number of trees: how far the distance may be from
        that of endlessly many trees grown in the same way.
    n_trees : int
    n_separating : int
        Trees that separate the two rows. In the others they share a leaf and have distance 0.
    by_depth : ndarray of shape (n_levels,)
        Share of the distance from nodes at depth 0 (the root), 1, ... The shares sum to 1; where
        the distance is 0 there is nothing to share and all of them are 0.
    by_feature : ndarray of shape (n_features,)
        Share of the distance that comes from each feature, in the same way.
    difference : ndarray of shape (n_features,)
        a - b, in the units of the features that `fit` was given.
    feature_names : list of str
    nearest_pairs : list of NearPair
        The labelled pairs nearest to this one, nearest first.
    """

    distance: float
    spread: float
    standard_error: float
    n_trees: int
    n_separating: int
    by_depth: np.ndarray
    by_feature: np.ndarray
    difference: np.ndarray
    feature_names: list[str]
    nearest_pairs: list[NearPair]

    def summary(self, n_features: int = 5, n_levels: int = 4) -> str:
        """The explanation in a few lines of text.

        Parameters
        ----------
        n_features, n_levels : int
            Features and levels to name; the first ones of each.
        """
        error = "" if np.isnan(self.standard_error) else f" ± {self.standard_error:.3f}"
        count = f"{self.n_separating} of {self.n_trees}"
        lines = [f"distance {self.distance:.3f}{error}; {count} trees separate the two rows"]
        if self.n_separating:
            lines.append("by feature")
            order = np.argsort(-self.by_feature, kind="stable")[:n_features]
            width = max(len(self.feature_names[j]) for j in order)
            for j in order[self.by_feature[order] > 0.0]:
                name, apart = self.feature_names[j], self.difference[j]
                lines.append(f"  {name:<{width}}  {self.by_feature[j]:4.0%}   a - b = {apart:+.4g}")
            rest = 1.0 - self.by_feature[order].sum()
            if rest > 0.005:
                lines.append(f"  {'others':<{width}}  {rest:4.0%}")
            lines.append("by depth")
            for depth, share in enumerate(self.by_depth[:n_levels]):
                lines.append(f"  {'root' if depth == 0 else f'level {depth}':<8} {share:4.0%}")
            rest = self.by_depth[n_levels:].sum()
            if rest > 0.005:
                lines.append(f"  {'deeper':<8} {rest:4.0%}")
        if self.nearest_pairs:
            lines.append("nearest labelled pairs")
            for near in self.nearest_pairs:
                lines.append(
                    f"  rows {near.rows[0]} and {near.rows[1]}: labelled "
                    f"{'same' if near.same else 'different'}, {near.distance:.3f} apart, "
                    f"{near.gap:.3f} from this pair"
                )
        return "\n".join(lines)

    @property
    def n_parting(self) -> int:
        """The name of `n_separating` before."""
        warn("n_parting is now called n_separating", FutureWarning)
        return self.n_separating

    def to_dict(self) -> dict[str, Any]:
        """The same as plain numbers, texts and lists, ready for JSON."""
        return {
            "distance": self.distance,
            "spread": None if np.isnan(self.spread) else self.spread,
            "standard_error": None if np.isnan(self.standard_error) else self.standard_error,
            "n_trees": self.n_trees,
            "n_separating": self.n_separating,
            "n_parting": self.n_separating,  # its name before
            "by_depth": self.by_depth.tolist(),
            "by_feature": dict(zip(self.feature_names, self.by_feature.tolist(), strict=True)),
            "difference": dict(zip(self.feature_names, self.difference.tolist(), strict=True)),
            "nearest_pairs": [
                {**near._asdict(), "rows": list(near.rows)} for near in self.nearest_pairs
            ],
        }


@interruptible
def shares(
    forest: Forest, a: np.ndarray, b: np.ndarray, alpha: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """H of every tree; the distance by depth and by feature, summed over trees; how many trees separate."""
    T = forest.n_trees
    node, part = np.empty(T, np.int32), np.empty(T)
    heights_of_pair(forest, read_only_view(a), read_only_view(b), alpha, node, part)
    parts = node != LEAF
    node = node[parts]

    depth = np.zeros(len(node), np.int64)
    up = forest.parent[node]
    while (up != LEAF).any():
        depth += up != LEAF
        up = np.where(up != LEAF, forest.parent[up], LEAF)
    by_depth = np.bincount(depth, part[parts])

    row = forest.split[node]
    features = np.cumsum(forest.gaps[row], axis=1, dtype=np.int64)
    moved = np.abs(forest.weights[row, :-1] * (a.astype(np.float64) - b)[features])
    moved *= (part[parts] / moved.sum(axis=1))[:, None]
    by_feature = np.bincount(features.ravel(), moved.ravel(), len(a))
    return part, by_depth, by_feature, int(parts.sum())


def is_grown_on(forest: Forest, rows: np.ndarray) -> bool:
    """Whether these are the rows the forest was grown on: each falls where its first tree has it."""
    if len(rows) != forest.n_points:
        return False
    leaf = np.empty(len(rows), np.int32)
    leaves_of(forest, 0, read_only_view(rows), leaf)
    place = np.empty(len(rows), np.int32)
    place[forest.order[0]] = np.arange(len(rows), dtype=np.int32)
    return bool(((forest.start[leaf] <= place) & (place < forest.stop[leaf])).all())


def different_rows(
    table: Constraints, n_rows: int, seed: int, most: int = WEIGHED
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of pairs labelled different: cannot-links, and anchor and farther row of triplets.

    At most `most`, evenly from the table. Where nothing was labelled different: random rows.
    """
    i, j, k = table.members.T
    a = np.concatenate([i[table.kind == CANNOT], i[table.kind == TRIPLET]])
    b = np.concatenate([j[table.kind == CANNOT], k[table.kind == TRIPLET]])
    if len(a) == 0:
        a, b = np.random.default_rng(seed).integers(n_rows, size=(2, most))
        return a, b
    chosen = np.linspace(0, len(a) - 1, min(most, len(a))).astype(np.int64)
    return a[chosen], b[chosen]


@interruptible
def importances(
    forest: Forest, A: np.ndarray, B: np.ndarray, alpha: float, n_threads: int
) -> np.ndarray:
    """Share of each feature in the distances of rows of A to the same rows of B; zeros if all are 0."""
    A, B = read_only_view(A), read_only_view(B)
    n, d = A.shape
    starts = range(0, n, WEIGH_BLOCK)
    out = np.zeros((len(starts), d))
    calls = (
        (add_shares, forest, A, B, alpha, low, min(low + WEIGH_BLOCK, n), out[block])
        for block, low in enumerate(starts)
    )
    in_parallel(n_threads, calls)
    by_feature = out.sum(axis=0)
    total = by_feature.sum()
    return by_feature / total if total > 0.0 else by_feature


@interruptible
def spread(
    forest: Forest, A: np.ndarray, B: np.ndarray, alpha: float, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """D of each row of A to the same row of B, and its standard deviation from tree to tree.

    Trees are taken one after the other: nothing has T x n numbers. nan where there is one tree.
    """
    A, B = read_only_view(A), read_only_view(B)
    mean, deviation = np.empty(len(A)), np.empty(len(A))
    calls = (
        (moments, forest, A, B, alpha, low, high, mean, deviation)
        for low, high in row_ranges(len(A), n_threads, PAIRS_PER_TASK)
    )
    in_parallel(n_threads, calls)
    return mean, deviation


@interruptible
def nearest_pairs(
    forest: Forest,
    rows: np.ndarray,
    table: Constraints,
    a: np.ndarray,
    b: np.ndarray,
    n: int,
    alpha: float,
    n_threads: int,
) -> list[NearPair]:
    """The n labelled pairs whose ends lie nearest to a and b, whichever way round."""
    pairs, labels = table.pairs()
    if n == 0 or len(pairs) == 0:
        return []
    labelled, place = np.unique(pairs, return_inverse=True)
    place = place.reshape(-1, 2)
    ends = rows[labelled]

    def distance_from(x: np.ndarray) -> np.ndarray:
        repeated = np.repeat(x[None], len(ends), axis=0)
        return pair_distance(forest, repeated, ends, alpha, False, n_threads)[place]

    to_a, to_b = distance_from(a), distance_from(b)
    straight, crossed = to_a[:, 0] + to_b[:, 1], to_a[:, 1] + to_b[:, 0]
    gap = np.minimum(straight, crossed) / 2
    order = np.argsort(gap, kind="stable")[:n]
    chosen = np.where((crossed < straight)[order, None], pairs[order, ::-1], pairs[order])
    own = pair_distance(forest, rows[chosen[:, 0]], rows[chosen[:, 1]], alpha, False, n_threads)
    return [
        NearPair((int(u), int(v)), bool(labels[i] == 1), float(far), float(gap[i]))
        for (u, v), i, far in zip(chosen, order, own, strict=True)
    ]


# ------------------------------------------------------------------------------------------ kernels


@kernel
def heights_of_pair(forest, a, b, alpha, node, part):
    """The separating node and H of every tree."""
    for t in range(forest.root.size - 1):
        node[t], pa, pb = separating_node(forest, t, a, b)
        part[t] = distance_at(forest, node[t], pa, pb, alpha, False)


@kernel
def moments(forest, A, B, alpha, low, high, mean, deviation):
    """Mean, summed as in `distance.py`, and standard deviation of H over trees (Welford's method)."""
    T = forest.root.size - 1
    for i in range(low, high):
        total = running = squares = 0.0
        for t in range(T):
            node, pa, pb = separating_node(forest, t, A[i], B[i])
            part = distance_at(forest, node, pa, pb, alpha, False)
            total += part
            off = part - running
            running += off / (t + 1)
            squares += off * (part - running)
        mean[i] = total / T
        deviation[i] = np.sqrt(squares / (T - 1)) if T > 1 else np.nan


@kernel
def add_shares(forest, A, B, alpha, low, high, out):
    """Add to out[j] the part of feature j in all these distances."""
    d_k = forest.gaps.shape[1]
    for i in range(low, high):
        a, b = A[i], B[i]
        for t in range(forest.root.size - 1):
            node, pa, pb = separating_node(forest, t, a, b)
            if node == LEAF:
                continue
            part = distance_at(forest, node, pa, pb, alpha, False)
            row = forest.split[node]
            for turn in range(2):  # first the sum of all, then everyone's part of it
                f = 0
                if turn == 0:
                    total = 0.0
                for k in range(d_k):
                    f += np.int64(forest.gaps[row, k])
                    apart = np.float64(a[f]) - np.float64(b[f])
                    moved = abs(np.float64(forest.weights[row, k]) * apart)
                    if turn == 0:
                        total += moved
                    else:
                        out[f] += part * moved / total
