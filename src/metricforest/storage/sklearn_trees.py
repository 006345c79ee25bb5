"""Fitted scikit-learn trees as flat arrays and back: what a file can hold instead of a pickle.

A metric that keeps scikit-learn trees stores ``pack(trees)`` and gets them back by ``unpack(packed,
like)``, where `like` is the unfitted estimator that its `fit` would make. Only what predicting needs
is kept. Compiled code of scikit-learn follows the numbers of children and features unchecked, so
`unpack` proves them before a tree is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, Tree  # there is no public way to make a fitted tree

from ..core import kernel

LEAF = -1
NODE_FIELDS = {  # field of Trees: field of a node of scikit-learn
    "left": "left_child",
    "right": "right_child",
    "feature": "feature",
    "threshold": "threshold",
    "impurity": "impurity",
    "n_samples": "n_node_samples",
    "weight": "weighted_n_node_samples",
    "missing_left": "missing_go_to_left",
}


class Trees(NamedTuple):
    """T trees, M nodes in all, K outputs."""

    n_features: int
    classes: tuple[np.ndarray, ...] | None  # labels of each output; None for a regression
    root: np.ndarray  # int64 [T + 1]        nodes of tree t are root[t]:root[t + 1], its root first
    left: np.ndarray  # int32 [M]            counted from the root of the tree, LEAF at a leaf
    right: np.ndarray  # int32 [M]
    feature: np.ndarray  # int32 [M]
    threshold: np.ndarray  # float64 [M]
    impurity: np.ndarray  # float64 [M]
    n_samples: np.ndarray  # int64 [M]
    weight: np.ndarray  # float64 [M]
    missing_left: np.ndarray  # uint8 [M]
    value: np.ndarray  # float64 [M, K, most classes of an output, 1 for a regression]


DTYPES = {
    "root": np.int64,
    "left": np.int32,
    "right": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "impurity": np.float64,
    "n_samples": np.int64,
    "weight": np.float64,
    "missing_left": np.uint8,
    "value": np.float64,
}


def pack(fitted: Any) -> Trees:
    """A fitted forest, or fitted trees of one kind and shape, as arrays."""
    unknown = sorted(set(NODE_DTYPE.names) - set(NODE_FIELDS.values()))
    if unknown:
        raise TypeError(f"trees of this scikit-learn cannot be stored: nodes also have {unknown}")
    trees = list(fitted) if isinstance(fitted, Sequence) else list(fitted.estimators_)
    owner = trees[0] if isinstance(fitted, Sequence) else fitted
    classes = None
    if is_classifier(owner):
        labels: Any = owner.classes_
        classes = tuple(labels) if isinstance(labels, list) else (labels,)
    states = [tree.tree_.__getstate__() for tree in trees]
    counts = [state["node_count"] for state in states]
    arrays = {
        name: np.concatenate(
            [state["nodes"][field][:n] for state, n in zip(states, counts, strict=True)]
        )
        for name, field in NODE_FIELDS.items()
    }
    arrays["root"] = np.cumsum([0, *counts])
    arrays["value"] = np.concatenate([s["values"][:n] for s, n in zip(states, counts, strict=True)])
    packed = Trees(
        int(owner.n_features_in_),
        classes,
        **{name: array.astype(DTYPES[name], copy=False) for name, array in arrays.items()},
    )
    check(packed)
    return packed


def check(packed: Trees) -> np.ndarray:
    """Depth of every tree; a ValueError unless scikit-learn's compiled code can trust the arrays."""

    def demand(holds: object, what: str) -> None:
        if not holds:
            raise ValueError(f"not valid trees: {what}")

    p = packed
    for name, dtype in DTYPES.items():
        array: Any = getattr(p, name)
        demand(isinstance(array, np.ndarray) and array.dtype == dtype, f"{name} is not {dtype}")
    demand(type(p.n_features) is int and p.n_features >= 1, f"{p.n_features!r} features")
    M = p.left.size
    for name in NODE_FIELDS:
        demand(getattr(p, name).shape == (M,), f"{name} is not [{M}]")
    demand(p.root.ndim == 1 and p.root.size >= 2, "there is no tree")
    demand(p.root[0] == 0 and p.root[-1] == M and (p.root[1:] > p.root[:-1]).all(), "root is off")
    demand(
        p.value.ndim == 3 and len(p.value) == M and p.value.size >= M, f"value is not [{M}, K, n]"
    )
    if p.classes is None:
        demand(p.value.shape[2] == 1, "a regression has classes")
    else:
        demand(
            isinstance(p.classes, tuple)
            and len(p.classes) == p.value.shape[1]
            and all(isinstance(c, np.ndarray) and c.ndim == 1 for c in p.classes)
            and max(map(len, p.classes)) == p.value.shape[2]
            and min(map(len, p.classes)) >= 1,
            "classes do not fit value",
        )
    for name in ("impurity", "weight", "value"):
        demand(np.isfinite(getattr(p, name)).all(), f"{name} holds NaN or infinity")
    demand(not np.isnan(p.threshold).any(), "a threshold is NaN")
    depth = np.full(M, -1, np.int32)
    deepest = np.zeros(p.root.size - 1, np.int64)
    wrong = follow(p.root, p.left, p.right, p.feature, p.n_features, depth, deepest)
    demand(wrong < 0, f"the children, the parent or the feature of node {wrong} are off")
    return deepest


@kernel
def follow(root, left, right, feature, n_features, depth, deepest):
    """The first node that is not where it should be, -1 if there is none; fills depths from -1."""
    for t in range(root.size - 1):
        base = root[t]
        m = root[t + 1] - base
        depth[base] = 0
        for node in range(m):
            i = base + node
            if depth[i] < 0:
                return i
            deepest[t] = max(deepest[t], depth[i])
            l, r = left[i], right[i]
            if l == LEAF and r == LEAF:
                continue
            inside = node < l and l < m and node < r and r < m and l != r
            if not inside or feature[i] < 0 or feature[i] >= n_features:
                return i
            if depth[base + l] >= 0 or depth[base + r] >= 0:
                return i
            depth[base + l] = depth[base + r] = depth[i] + 1
    return -1


def unpack(packed: Trees, like: Any) -> Any:
    """A fitted copy of a forest `like`, or a list of fitted copies of a tree `like`.

    A forest is one of RandomForest* and ExtraTrees*, a tree one of DecisionTree* and ExtraTree*.

    Raises ValueError where the arrays are not trees, or not those of such an estimator.
    """
    deepest = check(packed)
    if is_classifier(like) != (packed.classes is not None):
        raise ValueError(f"not trees of a {type(like).__name__}: classes are {packed.classes!r}")
    if isinstance(like, (DecisionTreeClassifier, DecisionTreeRegressor)):
        return [
            fitted_tree(packed, t, int(deepest[t]), like, packed.classes)
            for t in range(len(deepest))
        ]
    forest: Any = clone(like)
    set_outputs(forest, packed, packed.classes)
    settings = {name: getattr(like, name) for name in like.estimator_params}
    forest.estimator_ = clone(like.estimator)
    one: Any = clone(like.estimator)
    one.set_params(**settings)
    codes = packed.classes and tuple(np.arange(len(c), dtype=np.float64) for c in packed.classes)
    forest.estimators_ = [
        fitted_tree(packed, t, int(deepest[t]), one, codes) for t in range(len(deepest))
    ]
    return forest


def set_outputs(estimator: Any, packed: Trees, classes: tuple[np.ndarray, ...] | None) -> None:
    """The fitted attributes that forests and trees share."""
    estimator.n_features_in_ = packed.n_features
    estimator.n_outputs_ = packed.value.shape[1]
    if classes is not None:
        counts = [len(c) for c in classes]
        alone = len(classes) == 1
        estimator.classes_ = classes[0] if alone else list(classes)
        estimator.n_classes_ = counts[0] if alone else counts


def fitted_tree(
    packed: Trees, t: int, depth: int, like: Any, classes: tuple[np.ndarray, ...] | None
) -> DecisionTreeClassifier | DecisionTreeRegressor:
    """Tree t as a fitted copy of `like`."""
    low, high = packed.root[t], packed.root[t + 1]
    nodes: Any = np.zeros(high - low, NODE_DTYPE)
    for name, field in NODE_FIELDS.items():
        nodes[field] = getattr(packed, name)[low:high]
    K = packed.value.shape[1]
    counts = [1] * K if classes is None else [len(c) for c in classes]
    tree = Tree(packed.n_features, np.array(counts, np.intp), K)
    tree.__setstate__(
        {
            "max_depth": depth,
            "node_count": len(nodes),
            "nodes": nodes,
            "values": np.ascontiguousarray(packed.value[low:high]),
        }
    )
    fitted: Any = clone(like)
    set_outputs(fitted, packed, classes)
    fitted.tree_ = tree
    return fitted
