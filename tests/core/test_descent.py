"""The way of rows down learned trees against the paper's loops."""

import numpy as np
import pytest

import naive
from metricforest.core.descent import descend, leaves_of, logistic, next_node, project, sigmoid
from metricforest.core.forest import LEAF
from metricforest.forest_fit import prepare


def test_projections(learned):
    metric, _, queries = learned
    forest = metric.forest_
    rows = prepare(queries, metric.mean_, metric.scale_)
    for node in np.flatnonzero(forest.left != LEAF)[:40]:
        row = forest.split[node]
        for x in rows[:5]:
            found = project(x, forest.gaps[row], forest.weights[row])
            assert found == pytest.approx(naive.project(forest, node, x), abs=1e-6, rel=1e-9)
            assert next_node(forest, node, x) == (naive.child(forest, node, x), found)


def test_training_rows_lie_where_order_says(learned):
    metric, rows, _ = learned
    forest = metric.forest_
    for t in range(forest.n_trees):
        for node in range(forest.root[t], forest.root[t + 1]):
            if forest.left[node] == LEAF:
                for i in forest.order[t, forest.start[node] : forest.stop[node]]:
                    assert naive.route(forest, t, rows[i]) == node


def test_a_descent_ends_at_the_leaf_and_notes_every_certainty(learned):
    metric, _, queries = learned
    forest = metric.forest_
    rows = prepare(queries, metric.mean_, metric.scale_)
    found = np.empty(len(rows), np.int32)
    for t in range(forest.n_trees):
        leaves_of(forest, t, rows, found)
        for x, leaf in zip(rows, found, strict=True):
            path = naive.path(forest, t, x)
            s = np.full(len(path) + 1, -1.0, np.float32)
            assert descend(forest, t, x, 0.7, s) == (leaf, len(path) - 1)
            assert descend(forest, t, x, 0.7, None) == (leaf, len(path) - 1)
            assert leaf == path[-1]
            projections = [next_node(forest, node, x)[1] for node in path[:-1]]
            np.testing.assert_array_equal(s[:-2], [sigmoid(p, 0.7) for p in projections])
            np.testing.assert_array_equal(s[-2:], -1.0)


def test_logistic_at_the_ends():
    x = [-1e9, -800.0, -3.0, 0.0, 3.0, 800.0, 1e9]
    found = [logistic(v) for v in x]
    np.testing.assert_allclose(found, [naive.logistic(v) for v in x], atol=1e-15)
