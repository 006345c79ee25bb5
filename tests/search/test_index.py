"""The arrays of an index: where points lie, and which slot an id has."""

import numpy as np

import naive
from metricforest.core.forest import LEAF
from metricforest.search.changes import add_points, remove_points
from metricforest.search.index import (
    build_index,
    certainty_base,
    levels_of,
    live_ids,
    n_certainties,
    slots_of,
)


def index_of(metric, X):
    return build_index(metric.forest_, metric._prepare(X), 0.5)


def test_the_index_of_a_fresh_forest_holds_its_points_by_leaf(small_forest, small):
    forest, index = small_forest.forest_, index_of(small_forest, small[0])
    for t in range(forest.n_trees):
        np.testing.assert_array_equal(index.order[t, index.place[t]], np.arange(len(small[0])))
        for i, x in enumerate(index.rows):
            leaf = naive.route(forest, t, x)
            assert index.start[leaf] <= index.place[t, i] < index.stop[leaf]
    assert len(index.certain) == 0
    assert not any(array.flags.writeable for array in index)


def test_levels_are_the_longest_paths(small_forest, small):
    forest, index = small_forest.forest_, index_of(small_forest, small[0])
    level = levels_of(forest)
    assert level[0] == 0
    for t in range(forest.n_trees):
        depth = max(len(naive.path(forest, t, x)) - 1 for x in index.rows)
        assert level[t + 1] - level[t] == depth


def test_certainties_of_splits_lie_one_after_the_other(small_forest, small):
    forest, index = small_forest.forest_, index_of(small_forest, small[0])
    base = certainty_base(forest, index.start, index.stop)
    places = [
        base[node] + j
        for node in range(len(forest.left))
        if forest.left[node] != LEAF
        for j in range(index.start[node], index.stop[node])
    ]
    assert places == list(range(n_certainties(index)))


def test_slots_of_ids_old_new_removed_and_unknown(small_forest, small):
    X = small[0]
    forest, index = small_forest.forest_, index_of(small_forest, X)
    rows = small_forest._prepare(X[:3] + 0.1)
    index, given = add_points(forest, index, rows, np.array([900, 70, 500]), 1)
    assert given.tolist() == [900, 70, 500]
    index = remove_points(forest, index, np.array([4, 70]), 1)
    n = len(X)
    asked = np.array([0, 4, 70, 900, 500, 10**9, n - 1])
    assert slots_of(index, asked).tolist() == [0, -1, -1, n, n + 1, -1, n - 1]
    expected = [i for i in range(n) if i != 4] + [500, 900]
    assert live_ids(index).tolist() == expected
    assert index.n_live == len(expected)
    _, more = add_points(forest, index, rows, None, 1)
    assert more.tolist() == [901, 902, 903]
