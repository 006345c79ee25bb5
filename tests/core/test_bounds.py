"""A short run through every kernel, for a process with NUMBA_BOUNDSCHECK=1.

There an index outside its array raises; without it this is a smoke test.
"""

import numpy as np
import pytest

from conftest import three_clusters
from metricforest import HierarchyForest
from metricforest.core.forest import check_forest
from metricforest.rivals import ITML


def labelled(kind):
    X, classes, pairs, labels = three_clusters(0, 40, 50)
    if kind == "pairs":
        return X, {"pairs": pairs, "pair_labels": labels}
    if kind == "labels":
        return X, {"y": np.where(np.arange(40) < 30, classes, -1)}
    if kind == "triplets":
        return X, {"triplets": [(i, i + 3, i + 1) for i in range(36)]}
    return X, {}


@pytest.mark.parametrize("solver", ["lbfgs", "subgradient"])
@pytest.mark.parametrize("kind", ["pairs", "labels", "triplets", "nothing"])
@pytest.mark.parametrize("min_node_size", [1, 5])
def test_every_read_is_inside(kind, solver, min_node_size):
    X, given = labelled(kind)
    metric = HierarchyForest(
        n_estimators=2, solver=solver, min_node_size=min_node_size, random_state=0, n_constraints=60
    ).fit(X, **given)
    check_forest(metric.forest_, X.shape[1])
    D = metric.pairwise_distances(X, X[:7])
    assert ((D >= 0) & (D < 1)).all()
    np.testing.assert_allclose(metric.pair_distance(X[:7], X[:7]), 0)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 13])
def test_tiny_nodes_read_inside(n):
    X = np.random.default_rng(n).normal(size=(n, 2))
    metric = HierarchyForest(n_estimators=2, min_node_size=1, random_state=0).fit(X)
    check_forest(metric.forest_, 2)
    assert metric.pairwise_distances(X).shape == (n, n)


def test_duplicates_read_inside():
    X = np.repeat(np.random.default_rng(0).normal(size=(6, 3)), 5, axis=0)
    pairs, labels = [[0, 1], [0, 7], [12, 25], [3, 29], [8, 9]], [-1, -1, -1, -1, 1]
    metric = HierarchyForest(n_estimators=3, min_node_size=1, random_state=0)
    metric.fit(X, pairs=pairs, pair_labels=labels)
    check_forest(metric.forest_, 3)
    assert metric.pairwise_distances(X)[0, 1] == 0


def test_projections_read_inside():
    X, y, *_ = three_clusters(0, 40, 50)
    metric = ITML(0.1, solver="projections", n_constraints=60, random_state=0).fit(X, y)
    assert metric.gap_ <= 1e-4 * metric.objective_
    distance, index = metric.kneighbors(X, 2)
    np.testing.assert_array_equal(distance[:, 1], metric.pair_distance(X, X[index[:, 1]]))
    assert (metric.pairwise_distances(X).diagonal() == 0.0).all()


@pytest.mark.parametrize("keep_certainties", [True, False])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_searching_reads_inside(n, keep_certainties):
    X = np.random.default_rng(n).normal(size=(n, 3)).round(1)
    metric = HierarchyForest(
        3, min_node_size=2, n_components=1, random_state=0, keep_certainties=keep_certainties
    ).fit(X)

    def search():
        n_points = len(metric.ids_)
        for asked, most in ((X, n_points), (None, n_points - 1)):
            if most < 1:
                continue
            for k in {1, most}:
                exact = metric.kneighbors(asked, k, n_candidates=None)
                assert (metric.kneighbors(asked, k, n_candidates=n_points)[1] == exact[1]).all()
                assert metric.kneighbors(asked, k, n_candidates=2, hard=True)[0].shape[1] == k
                assert metric.kneighbors(asked, k, search="vectors")[0].shape[1] == k
        metric.radius_neighbors(X, 0.4)

    search()
    metric.add(X + 0.3)
    metric.remove([0])
    search()
    metric.add(np.repeat(X, 140 // n + 1, axis=0))  # enough to merge
    metric.remove(metric.ids_[::2])
    search()
    metric.remove(metric.ids_)
    metric.radius_neighbors(X, 0.4)
    metric.add(X)
    search()
    assert metric.transform(X).shape[0] == n
