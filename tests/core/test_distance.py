"""Distances of learned forests against the paper's loops."""

from copy import copy

import numpy as np
import pytest

import naive
from metricforest import HierarchyForest
from metricforest.core import distance
from metricforest.core.forest import check_forest
from metricforest.forest_fit import prepare


def test_learned_forest_is_valid_and_split(learned):
    metric, rows, _ = learned
    check_forest(metric.forest_, rows.shape[1])
    assert metric.forest_.n_splits > 6 * 5


@pytest.mark.parametrize("alpha", [0.5, 4.0])
def test_pairwise_distances(learned, alpha):
    metric, _, queries = learned
    metric = copy(metric).set_params(alpha=alpha)
    found = metric.pairwise_distances(queries[:12], queries)
    measured = prepare(queries, metric.mean_, metric.scale_)
    expected = naive.distance_matrix(metric.forest_, measured[:12], measured, alpha)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert expected.max() > 0.05


def test_hard_distances(learned):
    metric, rows, queries = learned
    measured = prepare(queries, metric.mean_, metric.scale_)
    expected = naive.distance_matrix(metric.forest_, measured[:8], rows[:20], 0.5, hard=True)
    found = distance.pairwise_distance(metric.forest_, measured[:8], rows[:20], 0.5, True, 2)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    pair = distance.pair_distance(metric.forest_, measured[:8], rows[:8], 0.5, True, 1)
    np.testing.assert_allclose(pair, np.diag(expected[:, :8]), atol=1e-12)


def test_pair_distance_is_the_diagonal(learned):
    metric, _, queries = learned
    A, B = queries[:20], queries[5:25]
    found = metric.pair_distance(A, B)
    measured = [prepare(Z, metric.mean_, metric.scale_) for Z in (A, B)]
    expected = [naive.distance(metric.forest_, a, b, 0.5) for a, b in zip(*measured, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(np.diag(metric.pairwise_distances(A, B)), found, atol=1e-12)
    np.testing.assert_array_equal(metric.pair_score(A, B), -found)


def test_metric_function_is_the_same_distance(learned):
    metric, _, queries = learned
    f = metric.get_metric()
    assert f(queries[0], queries[1]) == metric.pair_distance(queries[:1], queries[1:2])[0]
    assert f(list(queries[2]), queries[2]) == 0.0


def test_bits_do_not_depend_on_threads(learned):
    metric, rows, queries = learned
    measured = prepare(queries, metric.mean_, metric.scale_)
    one = distance.pairwise_distance(metric.forest_, measured, rows, 0.5, False, 1)
    for threads in (2, 3, 7):
        more = distance.pairwise_distance(metric.forest_, measured, rows, 0.5, False, threads)
        np.testing.assert_array_equal(one, more)
    first = distance.pair_distance(metric.forest_, measured, measured[::-1].copy(), 0.5, False, 1)
    second = distance.pair_distance(metric.forest_, measured, measured[::-1].copy(), 0.5, False, 4)
    np.testing.assert_array_equal(first, second)


def test_many_pairs_go_in_blocks(small_forest, small):
    X = small[0]
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, len(X), (2, 3 * distance.PAIRS_PER_TASK + 5))
    D = small_forest.pairwise_distances(X)
    np.testing.assert_allclose(small_forest.pair_distance(X[i], X[j]), D[i, j], atol=1e-12)


def test_rows_that_differ_in_number_raise(small_forest, small):
    X = small[0]
    with pytest.raises(ValueError, match="A has 3 rows, B has 4"):
        small_forest.pair_distance(X[:3], X[:4])
    with pytest.raises(ValueError, match="5 features, got shape"):
        small_forest.get_metric()(X[0, :3], X[1, :3])


def test_distances_reach_one_where_certainties_round_to_it():
    """The range is [0, 1]: s is float32, which far from the plane is exactly 0 or 1."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[-30.0], [30.0]], 20, axis=0)
    metric = HierarchyForest(3, random_state=0, standardize=False).fit(X)
    far = metric.pair_distance(500 * X[:20], 500 * X[20:])
    assert far.max() == 1.0
    assert metric.pairwise_distances(np.concatenate([500 * X, X])).max() <= 1.0
