"""The forest as flat arrays: what a trained Hierarchy Forest *is* (paper section 2).

Nothing here learns or measures. A forest is one `Forest` tuple; kernels take it whole, it pickles,
joins by concatenation and goes to another device array by array.

How one tree lies in memory (tree t, nodes root[t]:root[t + 1], N = 8 training points)::

    order[t]   3 0 5 | 7 1 | 2 6 4        one permutation of the training points
    node 0     [----------------]         start 0, stop 8: the root holds everything
    node 1     [---------]                its left child: start 0, stop 5
    node 2     [-----]                    left of 1
    node 3            [--]                right of 1
    node 4                [-----]         right of 0

A node is stored before its whole left subtree, that before its right subtree, so a subtree is one
contiguous range of nodes and, through `order`, one contiguous range of points: |H_tl| is
``stop - start`` and climbing to the parent only widens the range. `height` is what a node adds to the
distance of two rows that it separates: |H_tl| / N, or what labelled pairs taught (`heights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

LEAF = -1
"""Value of `left`, `right` and `split` at a leaf, and of `parent` at a root."""


class Forest(NamedTuple):
    """T trees, M nodes in all, S of them split; N training points, d features."""

    root: np.ndarray  # int32 [T + 1]        nodes of tree t are root[t]:root[t + 1], its root first
    left: np.ndarray  # int32 [M]            LEAF at a leaf; P(x) <= 0 goes left
    right: np.ndarray  # int32 [M]           LEAF at a leaf; P(x) > 0 goes right
    parent: np.ndarray  # int32 [M]          LEAF at a root
    start: np.ndarray  # int32 [M]           node i of tree t holds order[t, start[i]:stop[i]]
    stop: np.ndarray  # int32 [M]
    split: np.ndarray  # int32 [M]           row of the two arrays below, LEAF at a leaf
    gaps: np.ndarray  # uint8, 16 or 32 [S, d_k]  K_tl, ascending: each feature less the one before
    weights: np.ndarray  # float32 [S, d_k + 1]        w_tl, bias last
    order: np.ndarray  # int32 [T, N]        one permutation of the training points per tree
    height: np.ndarray = np.empty(0)  # float64 [M]  at least 0; 0 at a leaf

    @property
    def n_trees(self) -> int:
        return len(self.root) - 1

    @property
    def n_points(self) -> int:
        return self.order.shape[1]

    @property
    def n_splits(self) -> int:
        return len(self.gaps)

    @property
    def features(self) -> np.ndarray:
        """K_tl as numbers of features, int64 [S, d_k]. One without a weight is not among them."""
        return np.cumsum(self.gaps, axis=1, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


def gap_dtype(n_features: int, d_k: int) -> type:
    """The dtype of `Forest.gaps`: one byte each where d_k ascending features cannot lie farther apart.

    A split with fewer features than d_k has entries to spare: gaps that do not fit are gone in
    steps of weight 0, and what is left over at the end stays on the spot with weight 0.
    """
    if n_features - d_k <= 254:
        return np.uint8
    return np.uint16 if n_features <= 1 << 16 else np.uint32


def sizes(forest: Forest) -> np.ndarray:
    """|H_tl| / N of every split, 0 of a leaf: the paper's heights."""
    share = (forest.stop - forest.start) / forest.n_points
    return np.where(forest.left == LEAF, 0.0, share)


def with_heights(forest: Forest) -> Forest:
    """The forest; one of an earlier file or pickle, which had none, with the heights it meant."""
    return forest._replace(height=sizes(forest)) if len(forest.height) == 0 else forest


def widened(forest: Forest, d_k: int, n_features: int) -> Forest:
    """The same splits with room for d_k features: what is to spare has weight 0."""
    spare = d_k - forest.gaps.shape[1]
    if spare == 0:
        return forest
    gaps = np.pad(forest.gaps.astype(gap_dtype(n_features, d_k)), ((0, 0), (0, spare)))
    weights = np.insert(forest.weights, [forest.gaps.shape[1]] * spare, 0.0, axis=1)
    return forest._replace(gaps=gaps, weights=weights)


def join_forests(forests: Sequence[Forest]) -> Forest:
    """One forest with the trees of all, in the order given. All must share points and d_k."""
    node_shift = np.cumsum([0] + [len(f.left) for f in forests])
    split_shift = np.cumsum([0] + [f.n_splits for f in forests])

    def shifted(name: str, shift: np.ndarray) -> np.ndarray:
        parts = [getattr(f, name) for f in forests]
        return np.concatenate(
            [np.where(p == LEAF, LEAF, p + s) for p, s in zip(parts, shift, strict=False)],
            dtype=np.int32,
        )

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(f, name) for f in forests])

    roots = [f.root[:-1] + s for f, s in zip(forests, node_shift, strict=False)]
    return Forest(
        root=np.concatenate([*roots, node_shift[-1:]], dtype=np.int32),
        left=shifted("left", node_shift),
        right=shifted("right", node_shift),
        parent=shifted("parent", node_shift),
        start=joined("start"),
        stop=joined("stop"),
        split=shifted("split", split_shift),
        gaps=joined("gaps"),
        weights=joined("weights"),
        order=joined("order"),
        height=joined("height"),
    )


def read_only_view(array: np.ndarray) -> np.ndarray:
    """The same array, but nobody can write to it through this view.

    Compiled code has a type for arrays that can be written to and one for those that cannot, as in
    a file or another process: with one type only, it is compiled once.
    """
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def read_only(arrays: Any) -> Any:
    """A NamedTuple of the same arrays, read-only."""
    return type(arrays)(*map(read_only_view, arrays))


HIGHEST = 1e9  # height in a file: sums stay finite
CHECKED = 1 << 18  # numbers that `check_forest` looks at together: its memory is bounded


def check_forest(forest: Forest, n_features: int) -> None:
    """Raise ValueError unless every invariant that the compiled code relies on holds.

    Beside the forest it takes a byte per split, a byte per point and a few megabytes.
    """
    f = forest

    def demand(holds: bool | np.bool_ | np.ndarray, what: str) -> None:
        if not np.all(holds):
            raise ValueError(f"not a valid forest: {what}")

    demand(all(isinstance(array, np.ndarray) for array in f), "something is not an array")
    demand(all(array.ndim >= 1 for array in f), "an array has no length")
    T, M, S = f.n_trees, len(f.left), f.n_splits
    for name in ("left", "right", "parent", "start", "stop", "split"):
        array = getattr(f, name)
        demand(array.shape == (M,) and array.dtype == np.int32, f"{name} is not int32 [{M}]")
    demand(f.root.dtype == np.int32 and f.order.dtype == np.int32, "root or order is not int32")
    demand(f.order.ndim == 2 and f.root.ndim == 1, f"order is not [{T}, N]")
    N = f.n_points
    demand(len(f.order) == T >= 1 <= N, f"order is not [{T}, N]")
    demand(f.gaps.dtype in (np.uint8, np.uint16, np.uint32), "gaps are not uint8, 16 or 32")
    demand(f.weights.dtype == np.float32, "weights are not float32")
    demand(f.gaps.ndim == 2, "gaps are not [S, d_k]")
    d_k = f.gaps.shape[1]
    demand(1 <= d_k <= n_features, f"d_k = {d_k} is not from 1 to {n_features}")
    demand(f.weights.shape == (S, d_k + 1), "weights are not [S, d_k + 1]")
    demand(f.height.shape == (M,) and f.height.dtype == np.float64, f"height is not float64 [{M}]")
    demand(f.root[0] == 0 and f.root[-1] == M, "root is off")
    demand(f.root[1:] > f.root[:-1], "root is off")

    split_seen = np.zeros(S, bool)
    n_inner = 0
    last_stop = 0  # of the leaf before
    for low in range(0, M, CHECKED):
        node = np.arange(low, min(low + CHECKED, M), dtype=np.int32)
        left, right, split, parent, start, stop = (
            array[low : low + CHECKED]
            for array in (f.left, f.right, f.split, f.parent, f.start, f.stop)
        )
        is_root = np.zeros(len(node), bool)
        at_root = f.root[slice(*np.searchsorted(f.root[:-1], (low, low + len(node))))] - low
        is_root[at_root] = True
        demand((parent == LEAF) == is_root, "parent is off at a root")
        demand(start[at_root] == 0, "a root does not start at 0")
        demand(stop[at_root] == N, f"a root does not hold all {N} points")

        is_inner = left != LEAF
        demand((right != LEAF) == is_inner, "a node has one child")
        leaf, inner = np.flatnonzero(~is_inner), np.flatnonzero(is_inner)
        height = f.height[low : low + CHECKED]
        demand((height >= 0.0) & (height <= HIGHEST), "a height is negative or not finite")
        demand(height[leaf] == 0.0, "a leaf has a height")
        demand(split[leaf] == LEAF, "a leaf has a split")
        rows = split[inner]
        demand((rows >= 0) & (rows < S), "split rows and inner nodes do not match")
        split_seen[rows] = True
        n_inner += len(inner)

        n, l, r = node[inner], left[inner], right[inner]
        demand(l == n + 1, "a left child does not follow its parent")
        demand(r > l, "a right child does not follow its sibling")
        tree = np.searchsorted(f.root, n, side="right")
        demand(r < f.root[tree], "a child lies outside its tree")
        demand((f.parent[l] == n) & (f.parent[r] == n), "a child's parent is off")
        demand(f.start[l] == start[inner], "a left child does not start with its parent")
        demand(f.stop[l] == f.start[r], "two siblings leave a gap")
        demand(f.stop[r] == stop[inner], "a right child does not stop with its parent")
        demand(stop > start, "a node is empty")
        # A subtree is one range of nodes if and only if leaves come in the order of their points.
        ends = np.append(last_stop, stop[leaf])
        demand(start[leaf] == ends[:-1] % N, "a subtree is not one range of nodes")
        last_stop = ends[-1]
    demand(2 * n_inner + T == M, "a node is nobody's child")
    demand(n_inner == S and split_seen.all(), "split rows and inner nodes do not match")

    step = max(1, CHECKED // (d_k + 1))
    for low in range(0, S, step):
        last = f.gaps[low : low + step].sum(axis=1, dtype=np.int64)
        demand(last < n_features, f"a feature is not below {n_features}")
        demand(np.isfinite(f.weights[low : low + step]), "a weight is not finite")
    step = max(1, CHECKED // N)
    for low in range(0, T, step):
        seen = np.zeros((len(f.order[low : low + step]), N), bool)
        for first in range(0, N, CHECKED):
            rows = f.order[low : low + step, first : first + CHECKED]
            demand((rows >= 0) & (rows < N), "order is not a permutation")
            np.put_along_axis(seen, rows, True, axis=1)
        demand(seen, "order is not a permutation")
