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
``stop - start`` and climbing to the parent only widens the range.
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
    features: np.ndarray  # uint16 or uint32 [S, d_k]  K_tl, ascending; padded with (0, weight 0)
    weights: np.ndarray  # float32 [S, d_k + 1]        w_tl, bias last
    order: np.ndarray  # int32 [T, N]        one permutation of the training points per tree

    @property
    def n_trees(self) -> int:
        return len(self.root) - 1

    @property
    def n_points(self) -> int:
        return self.order.shape[1]

    @property
    def n_splits(self) -> int:
        return len(self.features)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


def feature_dtype(n_features: int) -> type:
    """The dtype of `Forest.features`: two bytes while they suffice, since they are half the model."""
    return np.uint16 if n_features <= 1 << 16 else np.uint32


def join(forests: Sequence[Forest]) -> Forest:
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
        features=joined("features"),
        weights=joined("weights"),
        order=joined("order"),
    )


def read_only(arrays: Any) -> Any:
    """A NamedTuple of the same arrays that nobody can write to.

    Compiled code has a type for arrays that can be written to and one for those that cannot, as in
    a file: with one type only, it is compiled once.
    """
    views = []
    for array in arrays:
        view = np.asarray(array).view()
        view.flags.writeable = False
        views.append(view)
    return type(arrays)(*views)


def check(forest: Forest, n_features: int) -> None:
    """Raise ValueError unless every invariant that the compiled code relies on holds."""
    f = forest
    T, M, S, N = f.n_trees, len(f.left), f.n_splits, f.n_points

    def demand(holds: bool | np.bool_ | np.ndarray, what: str) -> None:
        if not np.all(holds):
            raise ValueError(f"not a valid forest: {what}")

    for name in ("left", "right", "parent", "start", "stop", "split"):
        array = getattr(f, name)
        demand(array.shape == (M,) and array.dtype == np.int32, f"{name} is not int32 [{M}]")
    demand(f.root.dtype == np.int32 and f.order.dtype == np.int32, "root or order is not int32")
    demand(f.order.ndim == 2 and len(f.order) == T >= 1 <= N, f"order is not [{T}, N]")
    demand(f.features.dtype in (np.uint16, np.uint32), "features are not uint16 or uint32")
    demand(f.weights.dtype == np.float32, "weights are not float32")
    demand(f.features.ndim == 2 and f.features.shape[1] >= 1, "features are not [S, d_k]")
    demand(f.weights.shape == (S, f.features.shape[1] + 1), "weights are not [S, d_k + 1]")
    demand(f.root[0] == 0 and f.root[-1] == M and np.all(np.diff(f.root) >= 1), "root is off")

    node = np.arange(M)
    inner = f.left != LEAF
    tree_of = np.repeat(np.arange(T), np.diff(f.root))
    demand((f.right != LEAF) == inner, "a node has one child")
    demand(np.sort(f.split[inner]) == np.arange(S), "split rows and inner nodes do not match")
    demand(f.split[~inner] == LEAF, "a leaf has a split")
    demand(f.left[inner] == node[inner] + 1, "a left child does not follow its parent")
    demand(f.right[inner] > f.left[inner], "a right child does not follow its sibling")
    demand(f.right[inner] < f.root[tree_of[inner] + 1], "a child lies outside its tree")
    is_root = np.isin(node, f.root[:-1])
    demand((f.parent == LEAF) == is_root, "parent is off at a root")
    demand(f.start[is_root] == 0, "a root does not start at 0")
    demand(f.stop[is_root] == N, f"a root does not hold all {N} points")
    demand(np.bincount(f.right[inner], minlength=M) <= 1, "a node has two parents")
    for child in (f.left, f.right):
        demand(f.parent[child[inner]] == node[inner], "a child's parent is off")
    demand(f.start[f.left[inner]] == f.start[inner], "a left child does not start with its parent")
    demand(f.stop[f.left[inner]] == f.start[f.right[inner]], "two siblings leave a gap")
    demand(f.stop[f.right[inner]] == f.stop[inner], "a right child does not stop with its parent")
    demand(f.stop > f.start, "a node is empty")
    demand(f.features < n_features, f"a feature is not below {n_features}")
    demand(np.isfinite(f.weights), "a weight is not finite")
    for row in f.order:
        demand(np.bincount(row.clip(0, N - 1), minlength=N) == 1, "order is not a permutation")
        demand((row >= 0) & (row < N), "order is not a permutation")
