"""The flat arrays: joining trees and the invariants that `check_forest` guards."""

import pickle

import numpy as np
import pytest

from metricforest import HierarchyForest
from metricforest.core.forest import (
    LEAF,
    Forest,
    check_forest,
    gap_dtype,
    join_forests,
    widened,
    with_heights,
)


def one_split(shift: int = 0) -> Forest:
    """A tree of one split over three points."""
    forest = Forest(
        root=np.array([0, 3], np.int32),
        left=np.array([1, LEAF, LEAF], np.int32),
        right=np.array([2, LEAF, LEAF], np.int32),
        parent=np.array([LEAF, 0, 0], np.int32),
        start=np.array([0, 0, 2], np.int32),
        stop=np.array([3, 2, 3], np.int32),
        split=np.array([0, LEAF, LEAF], np.int32),
        gaps=np.array([[0, 1]], np.uint8),
        weights=np.array([[1.0, 2.0, -1.0]], np.float32),
        order=np.roll(np.array([[0, 1, 2]], np.int32), shift),
    )
    return with_heights(forest)


def stump() -> Forest:
    """A tree that is one leaf over three points."""
    leaf = np.array([LEAF], np.int32)
    forest = Forest(
        root=np.array([0, 1], np.int32),
        left=leaf,
        right=leaf,
        parent=leaf,
        start=np.array([0], np.int32),
        stop=np.array([3], np.int32),
        split=leaf,
        gaps=np.empty((0, 2), np.uint8),
        weights=np.empty((0, 3), np.float32),
        order=np.array([[0, 1, 2]], np.int32),
    )
    return with_heights(forest)


def test_joined_trees_keep_their_links():
    forest = join_forests([one_split(), stump(), one_split(1)])
    check_forest(forest, 2)
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
    for left, right in zip(
        join_forests([join_forests([a, b]), c]),
        join_forests([a, join_forests([b, c])]),
        strict=True,
    ):
        np.testing.assert_array_equal(left, right)


def test_heights_are_shares_of_all_rows_unless_learned(small_forest):
    for forest in (one_split(), small_forest.forest_):
        size = forest.stop - forest.start
        assert (forest.height == np.where(forest.left == LEAF, 0, size / forest.n_points)).all()
        assert with_heights(forest) is forest


def test_widened_splits_project_the_same(small_forest):
    wide = widened(small_forest.forest_, 5, 5)
    check_forest(wide, 5)
    assert wide.gaps.shape[1] == 5
    X = np.random.default_rng(0).normal(size=(20, 5))
    want = small_forest.pairwise_distances(X)
    narrow, small_forest.forest_ = small_forest.forest_, wide
    try:
        np.testing.assert_array_equal(small_forest.pairwise_distances(X), want)
    finally:
        small_forest.forest_ = narrow


def test_nbytes_counts_every_array():
    forest = one_split()
    assert forest.nbytes == 4 * (2 + 3 * 6 + 3) + 2 * 1 + 3 * 4 + 3 * 8


def test_pickled_forest_is_the_same(small_forest):
    again = pickle.loads(pickle.dumps(small_forest.forest_))
    check_forest(again, 5)
    for mine, theirs in zip(small_forest.forest_, again, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("left", lambda a: a.astype(np.int64), "left is not int32"),
        ("order", lambda a: a.astype(np.int64), "root or order is not int32"),
        ("gaps", lambda a: a.astype(np.int32), "gaps are not uint8"),
        ("gaps", lambda a: a + np.uint16(1), "a feature is not below 2"),
        ("weights", lambda a: a.astype(float), "weights are not float32"),
        ("weights", lambda a: a[:, :2], r"weights are not \[S, d_k \+ 1\]"),
        ("gaps", lambda a: a[:, :0], "d_k = 0 is not from 1 to 2"),
        ("weights", lambda a: None, "something is not an array"),
        ("order", lambda a: a[0, 0, ...], "an array has no length"),
        ("order", lambda a: a[0], r"order is not \[1, N\]"),
        ("stop", lambda a: np.array([3, 2, 2], np.int32)[[0, 0, 0]], "two siblings leave a gap"),
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
        ("height", lambda a: a[:0], r"height is not float64 \[3\]"),
        ("height", lambda a: a - 1.0, "a height is negative"),
        ("height", lambda a: np.array([np.inf, 0, 0]), "a height is negative or not finite"),
        ("height", lambda a: a + 1.0, "a leaf has a height"),
    ],
)
def test_check_names_what_is_off(name, change, match):
    forest = one_split()
    check_forest(forest, 2)
    with pytest.raises(ValueError, match=match):
        check_forest(forest._replace(**{name: change(getattr(forest, name))}), 2)


def seven_nodes(left, right, start, stop) -> Forest:
    """One tree of three splits over four points, with a parent for every child."""
    parent = np.full(7, LEAF, np.int32)
    for node in range(7):
        if left[node] != LEAF:
            parent[[left[node], right[node]]] = node
    split = np.full(7, LEAF, np.int32)
    split[np.array(left) != LEAF] = np.arange(3)
    links = [np.array(a, np.int32) for a in (left, right, parent, start, stop)]
    features, weights = np.zeros((3, 1), np.uint16), np.ones((3, 2), np.float32)
    forest = Forest(
        np.array([0, 7], np.int32),
        *links,
        split,
        features,
        weights,
        np.arange(4, dtype=np.int32)[None],
    )
    return with_heights(forest)


def test_check_wants_the_left_subtree_before_the_right_one():
    """Node 3 is right of the root, 4 is right of 1: linked correctly, but 1's subtree is 1 2 4 5 6."""
    good = seven_nodes(
        [1, 2, LEAF, 4, LEAF, LEAF, LEAF],
        [6, 3, LEAF, 5, LEAF, LEAF, LEAF],
        [0, 0, 0, 1, 1, 2, 3],
        [4, 3, 1, 3, 2, 3, 4],
    )
    check_forest(good, 1)
    with pytest.raises(ValueError, match="a subtree is not one range of nodes"):
        check_forest(
            seven_nodes(
                [1, 2, LEAF, LEAF, 5, LEAF, LEAF],
                [3, 4, LEAF, LEAF, 6, LEAF, LEAF],
                [0, 0, 0, 3, 1, 1, 2],
                [4, 3, 1, 4, 3, 2, 3],
            ),
            1,
        )


def test_check_finds_a_node_that_is_nobodys_child():
    f = one_split()
    leaf = {"left": LEAF, "right": LEAF, "split": LEAF, "parent": 1, "start": 0, "stop": 3}
    orphan = {name: np.append(getattr(f, name), np.int32(value)) for name, value in leaf.items()}
    orphan["height"] = np.append(f.height, 0.0)
    with pytest.raises(ValueError, match="a node is nobody's child"):
        check_forest(f._replace(root=np.array([0, 4], np.int32), **orphan), 2)


def test_check_is_not_fooled_by_numbers_that_wrap_around():
    third = 1_431_655_766
    root = np.cumsum([0, third, third, third], dtype=np.int32)
    f = join_forests([one_split()] * 3)
    root[-1] = 9
    with pytest.raises(ValueError, match="root is off"):
        check_forest(f._replace(root=root), 2)


@pytest.mark.parametrize("size", [1, 4, 1 << 18])
def test_check_sees_every_part_of_a_large_forest(small_forest, monkeypatch, size):
    """Any change of one number of the structure is found, wherever it lies."""
    monkeypatch.setattr("metricforest.core.forest.CHECKED", size)
    forest = small_forest.forest_
    check_forest(forest, 5)
    rng = np.random.default_rng(size)
    for name in ("root", "left", "right", "parent", "start", "stop", "split", "order"):
        for _ in range(8):
            array = getattr(forest, name).copy()
            at = tuple(rng.integers(array.shape))
            array[at] ^= rng.choice(np.append(1 << np.arange(31), -1)).astype(np.int32)
            with pytest.raises(ValueError, match="not a valid forest"):
                check_forest(forest._replace(**{name: array}), 5)
    for at in ((0, 0), (-1, -1)):
        weights = forest.weights.copy()
        weights[at] = np.inf
        with pytest.raises(ValueError, match="a weight is not finite"):
            check_forest(forest._replace(weights=weights), 5)
        gaps = forest.gaps.copy()
        gaps[at] = 5
        with pytest.raises(ValueError, match="a feature is not below 5"):
            check_forest(forest._replace(gaps=gaps), 5)


@pytest.mark.parametrize(
    ("n_features", "d_k", "expected"),
    [
        (3, 1, np.uint8),
        (300, 100, np.uint8),
        (255, 1, np.uint8),
        (256, 1, np.uint16),
        (65_536, 1, np.uint16),
        (65_537, 1, np.uint32),
    ],
)
def test_gaps_take_the_smallest_dtype_that_holds_them(n_features, d_k, expected):
    assert gap_dtype(n_features, d_k) is expected


@pytest.mark.parametrize("used", [[0, 1, 999], [999], [0, 254, 255, 510, 999], [3, 260, 520]])
def test_far_features_are_reached_in_steps(used):
    """746 of 1,000 features per split fit into bytes, yet only a few of them vary."""
    X = np.zeros((40, 1000))
    X[:, used] = np.random.default_rng(0).normal(size=(40, len(used)))
    forest = HierarchyForest(2, max_features=746, random_state=0).fit(X).forest_
    assert forest.gaps.dtype == np.uint8
    check_forest(forest, 1000)
    for features, weights in zip(forest.features, forest.weights, strict=True):
        assert features[weights[:-1] != 0].tolist() == used


@pytest.mark.slow
def test_more_than_65536_features_are_routed_right():
    """The last feature alone tells the two groups apart: a narrower number would wrap around."""
    d = 65_540
    X = np.zeros((8, d))
    X[4:, -1] = 1.0
    forest = HierarchyForest(n_estimators=2, max_features=3, random_state=0).fit(X)
    assert forest.forest_.gaps.dtype == np.uint32
    check_forest(forest.forest_, d)
    D = forest.pairwise_distances(X)
    assert D[0, 1] == 0
    assert D[0, 5] > 0
