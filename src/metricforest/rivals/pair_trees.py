"""Metrics whose trees ask for the features ``[|a - b|, (a + b) / 2]`` of a pair: how they measure.

To measure, the pairs of a block go down a tree together: every node sends its list of pairs on in two
lists, which in a search is two to three times as fast as pair by pair. Blocks are small enough for the
cache, and memory does not grow with the answer.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from ..core import in_parallel, kernel
from ..storage.sklearn_trees import LEAF, Trees, check
from ..storage.values import check_array
from .paired import PairMetric

LARGEST = 1e15  # far outliers are cut there before they become float32
BLOCK = 16_384  # pairs measured at once, at most
BLOCK_HEIGHT = 32  # first rows of a block of a matrix, at most
BLOCK_NUMBERS = 1_250_000  # numbers in the second rows of a block, at most


class Votes(NamedTuple):
    """What measuring needs of T trees, M nodes in all."""

    root: np.ndarray  # int64 [T]
    left: np.ndarray  # int32 [M]      LEAF at a leaf
    right: np.ndarray  # int32 [M]
    feature: np.ndarray  # int32 [M]
    cut: np.ndarray  # float32 [M]     a pair goes left if its feature is at most this
    share: np.ndarray  # float64 [M]   of cannot-links
    depth: int  # of the deepest tree


class PairTrees(PairMetric):
    """Base of metrics that measure by trees over the features of a pair.

    A subclass says in `_flat` what its trees are, and may make more of their mean in `_measure`. The
    parameter `n_jobs` is the subclass's.
    """

    n_jobs: int | None
    bounded = True
    _votes: Votes

    @abstractmethod
    def _flat(self) -> Votes:
        """The nodes of what was learned."""

    def _measure(self, A: Any, B: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return vote(self._votes, A, B, first, second)

    def _index(self, rows: np.ndarray) -> None:
        self._keep(as_float32(rows))

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        check_array(self._rows, "_rows", np.float32, (None, self.n_features_in_))

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_votes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "n_features_in_"):
            self._votes = self._flat()

    def _prepare(self, X: np.ndarray) -> np.ndarray:
        return as_float32((X - self.mean_) / self.scale_)

    def _pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        distance = np.empty(len(A))
        length = most_rows(A)

        def measure(low: int) -> None:
            part = slice(low, low + length)
            ends = np.arange(len(distance[part]), dtype=np.uint16)
            distance[part] = self._measure(columns(A[part]), columns(B[part]), ends, ends)

        self._in_parallel(measure, [(low,) for low in range(0, len(A), length)])
        return distance

    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        distance = np.empty((len(A), len(B)))
        height = max(1, min(len(A), BLOCK_HEIGHT))
        width = max(1, min(BLOCK // height, most_rows(B)))

        def measure(top: int, low: int) -> None:
            block = distance[top : top + height, low : low + width]
            first, second = np.indices(block.shape, np.uint16).reshape(2, -1)
            a, b = columns(A[top : top + height]), columns(B[low : low + width])
            block[:] = self._measure(a, b, first, second).reshape(block.shape)

        corners = [
            (top, low) for low in range(0, len(B), width) for top in range(0, len(A), height)
        ]
        self._in_parallel(measure, corners)
        return distance

    def _in_parallel(self, measure: Any, blocks: list[tuple[int, ...]]) -> None:
        n_jobs: Any = self.n_jobs
        in_parallel(effective_n_jobs(n_jobs), [(measure, *block) for block in blocks])


def votes_of(trees: Trees) -> Votes:
    """Trees over the features of pairs, one after the other, as `vote` goes down them."""
    root = trees.root[:-1]
    start = np.repeat(root, np.diff(trees.root))
    leaf = trees.left == LEAF
    # Features are float32: the largest float32 that is not above a threshold cuts them as it does.
    with np.errstate(over="ignore"):
        cut = trees.threshold.astype(np.float32)
    cut = np.where(cut > trees.threshold, np.nextafter(cut, np.float32(-np.inf)), cut)
    return Votes(
        root,
        np.where(leaf, LEAF, start + trees.left).astype(np.int32),
        np.where(leaf, LEAF, start + trees.right).astype(np.int32),
        np.array(trees.feature),
        cut,
        # a classifier's last class, a regressor's mean
        np.ascontiguousarray(trees.value[:, 0, -1]),
        int(check(trees).max()),
    )


@kernel
def vote(trees, A, B, first, second):
    """Mean share of cannot-links in the leaves of pairs p: columns first[p] of A, second[p] of B."""
    n, d = first.size, len(A)
    distance = np.zeros(n)
    here, there = np.empty(n, np.uint32), np.empty(n, np.uint32)
    stack = np.empty((trees.depth + 2, 4), np.int64)
    for root in trees.root:
        for p in range(n):
            here[p] = p
        # A node, where the list of its pairs begins and ends, and whether it is `there`. The two
        # lists that a node makes share its place, in the other array: one from the front, one from
        # the back.
        stack[0] = root, 0, n, 0
        top = 0
        while top >= 0:
            node, low, high, side = stack[top]
            top -= 1
            given, made = (there, here) if side else (here, there)
            if trees.left[node] == LEAF:
                for k in range(low, high):
                    distance[given[k]] += trees.share[node]
                continue
            front, back = low, high - 1
            j, cut = trees.feature[node], trees.cut[node]
            if j < d:
                a, b = A[j], B[j]
                for k in range(low, high):
                    p = given[k]
                    left = np.int64(abs(a[first[p]] - b[second[p]]) <= cut)
                    made[front] = made[back] = p
                    front += left
                    back -= 1 - left
            else:
                a, b = A[j - d], B[j - d]
                for k in range(low, high):
                    p = given[k]
                    left = np.int64((a[first[p]] + b[second[p]]) * np.float32(0.5) <= cut)
                    made[front] = made[back] = p
                    front += left
                    back -= 1 - left
            if front < high:
                top += 1
                stack[top] = np.int64(trees.right[node]), front, high, 1 - side
            if front > low:
                top += 1
                stack[top] = np.int64(trees.left[node]), low, front, 1 - side
    for p in range(n):
        distance[p] /= trees.root.size
    return distance


def most_rows(rows: np.ndarray) -> int:
    """How many of such rows a block may have."""
    return max(1, min(BLOCK, BLOCK_NUMBERS // rows.shape[1]))


def columns(rows: np.ndarray) -> np.ndarray:
    """The rows' features one after the other, as `vote` reads them."""
    return np.ascontiguousarray(rows.T)


def as_float32(rows: np.ndarray) -> np.ndarray:
    return np.clip(rows, -LARGEST, LARGEST).astype(np.float32)


def pair_features(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """[|a - b|, (a + b) / 2] row by row, float32 [m, 2d]."""
    return np.concatenate([np.abs(A - B), (A + B) * np.float32(0.5)], axis=1)


def both_kinds(
    metric: PairTrees, must: np.ndarray, cannot: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """All pairs, and which of them are cannot-links: 0 or 1."""
    if not (len(must) and len(cannot)):
        raise ValueError(
            f"{type(metric).__name__} learns to distinguish must-links from cannot-links and needs "
            f"both kinds: got {len(must)} must-links and {len(cannot)} cannot-links"
        )
    return np.concatenate([must, cannot]), np.repeat([0, 1], [len(must), len(cannot)])


def features_of(rows: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Features of pairs of rows (float32), made block by block."""
    features = np.empty((len(pairs), 2 * rows.shape[1]), np.float32)
    for low in range(0, len(pairs), BLOCK):
        i, j = pairs[low : low + BLOCK].T
        features[low : low + BLOCK] = pair_features(rows[i], rows[j])
    return features
