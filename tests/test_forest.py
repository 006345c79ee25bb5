"""The flat arrays: joining trees and the invariants that `check` guards."""

import pickle

import numpy as np
import pytest

from metricforest import HierarchyForest
from metricforest.forest import LEAF, Forest, check, feature_dtype, join


def one_split(shift: int = 0) -> Forest:
    """A tree of one split over three points."""
    return Forest(
        root=np.array([0, 3], np.int32),
        left=np.array([1, LEAF, LEAF], np.int32),
        right=np.array([2, LEAF, LEAF], np.int32),
        parent=np.array([LEAF, 0, 0], np.int32),
        start=np.array([0, 0, 2], np.int32),
        stop=np.array([3, 2, 3], np.int32),
        split=np.array([0, LEAF, LEAF], np.int32),
        features=np.array([[0, 1]], np.uint16),
        weights=np.array([[1.0, 2.0, -1.0]], np.float32),
        order=np.roll(np.array([[0, 1, 2]], np.int32), shift),
    )


def stump() -> Forest:
    """A tree that is one leaf over three points."""
    leaf = np.array([LEAF], np.int32)
    return Forest(
        root=np.array([0, 1], np.int32),
        left=leaf,
        right=leaf,
        parent=leaf,
        start=np.array([0], np.int32),
        stop=np.array([3], np.int32),
        split=leaf,
        features=np.empty((0, 2), np.uint16),
        weights=np.empty((0, 3), np.float32),
        order=np.array([[0, 1, 2]], np.int32),
    )


def test_joined_trees_keep_their_links():
    forest = join([one_split(), stump(), one_split(1)])
    check(forest, 2)
    assert forest.n_trees == 3
    assert forest.n_points == 3
    assert forest.n_splits == 2
    assert forest.root.tolist() == [0, 3, 4, 7]
    assert forest.left.tolist() == [1, LEAF, LEAF, LEAF, 5, LEAF, LEAF]
    assert forest.parent.tolist() == [LEAF, 0, 0, LEAF, LEAF, 4, 4]
    assert forest.split.tolist() == [0, LEAF, LEAF, LEAF, 1, LEAF, LEAF]
    assert forest.order.tolist() == [[0, 1, 2], [0, 1, 2], [2, 0, 1]]


def test_joining_is_associative():
    a, b, c = one_split(), stump(), one_split(1)
    for left, right in zip(join([join([a, b]), c]), join([a, join([b, c])]), strict=True):
        np.testing.assert_array_equal(left, right)


def test_nbytes_counts_every_array():
    forest = one_split()
    assert forest.nbytes == 4 * (2 + 3 * 6 + 3) + 2 * 2 + 3 * 4


def test_pickled_forest_is_the_same(small_forest):
    again = pickle.loads(pickle.dumps(small_forest.forest_))
    check(again, 5)
    for mine, theirs in zip(small_forest.forest_, again, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("left", lambda a: a.astype(np.int64), "left is not int32"),
        ("order", lambda a: a.astype(np.int64), "root or order is not int32"),
        ("features", lambda a: a.astype(np.int32), "features are not uint16"),
        ("features", lambda a: a + np.uint16(1), "a feature is not below 2"),
        ("weights", lambda a: a.astype(float), "weights are not float32"),
        ("weights", lambda a: a[:, :2], r"weights are not \[S, d_k \+ 1\]"),
        ("weights", lambda a: a * np.float32("nan"), "a weight is not finite"),
        ("root", lambda a: a + np.int32(1), "root is off"),
        ("right", lambda a: np.full_like(a, LEAF), "a node has one child"),
        ("right", lambda a: np.array([3, LEAF, LEAF], np.int32), "a child lies outside its tree"),
        ("split", lambda a: np.array([LEAF, LEAF, LEAF], np.int32), "do not match"),
        ("split", lambda a: np.array([0, 0, LEAF], np.int32), "a leaf has a split"),
        ("parent", lambda a: np.zeros_like(a), "parent is off at a root"),
        ("start", lambda a: np.array([0, 0, 1], np.int32), "two siblings leave a gap"),
        ("stop", lambda a: np.array([2, 2, 2], np.int32), "a root does not hold all 3 points"),
        ("stop", lambda a: np.array([3, 2, 2], np.int32), "does not stop with its parent"),
        ("order", lambda a: np.array([[0, 1, 1]], np.int32), "order is not a permutation"),
        ("order", lambda a: np.array([[0, 1, 3]], np.int32), "order is not a permutation"),
    ],
)
def test_check_names_what_is_off(name, change, match):
    forest = one_split()
    check(forest, 2)
    with pytest.raises(ValueError, match=match):
        check(forest._replace(**{name: change(getattr(forest, name))}), 2)


@pytest.mark.parametrize(
    ("n_features", "expected"), [(3, np.uint16), (65_536, np.uint16), (65_537, np.uint32)]
)
def test_features_take_the_smallest_dtype_that_holds_them(n_features, expected):
    assert feature_dtype(n_features) is expected


@pytest.mark.slow
def test_more_than_65536_features_are_routed_right():
    """The last feature alone tells the two groups apart: a narrower number would wrap around."""
    d = 65_540
    X = np.zeros((8, d))
    X[4:, -1] = 1.0
    forest = HierarchyForest(n_estimators=2, max_features=None, random_state=0).fit(X)
    assert forest.forest_.features.dtype == np.uint32
    check(forest.forest_, d)
    D = forest.pairwise_distances(X)
    assert D[0, 1] == 0
    assert D[0, 5] > 0
