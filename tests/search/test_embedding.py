"""The vectors of the hard distance."""

from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import naive
from conftest import load, stored
from metricforest import HierarchyForest
from metricforest.demo import balance_scale

STORED = ["sonar", "ionosphere", "balance", "segmentation", "magic", "usps", "cifar10", "cifar100"]


def squared_distances(Z):
    gram = (Z @ Z.T).toarray()
    square = gram.diagonal()
    return square[:, None] + square[None, :] - 2 * gram


def data(name):
    """(X, y), few rows of the large sets."""
    if name == "grid":
        return balance_scale()
    X, y = stored(name) if name in STORED else load(name)
    rows = np.random.default_rng(0).permutation(len(X))[:400]
    return X[rows], y[rows]


@pytest.mark.parametrize("name", ["grid", "iris", "wine", "digits", "breast_cancer", *STORED])
def test_squared_distance_is_the_hard_distance(name):
    X, y = data(name)
    metric = HierarchyForest(5, max_features=10 if X.shape[1] > 30 else 1 / 3, random_state=0)
    metric.set_params(heights="size")
    metric.set_params(n_constraints=300).fit(X[:300], y[:300])
    Z = metric.hard_vectors(X)  # rows of fit, and others
    np.testing.assert_allclose(
        squared_distances(Z), metric.pairwise_distances(X, hard=True), atol=1e-6
    )
    np.testing.assert_array_equal(Z[:7].toarray(), metric.hard_vectors(X[:7]).toarray())


def test_vectors_are_the_papers(small_forest, small):
    X = small[0]
    Z = small_forest.hard_vectors(X)
    for i, x in enumerate(small_forest._prepare(X)):
        expected = naive.embed(small_forest.forest_, x)
        row = Z[i : i + 1]
        assert row.indices.tolist() == sorted(expected)
        np.testing.assert_allclose(row.data, [expected[j] for j in row.indices], rtol=1e-12)


def test_matrix_is_sorted_csr_of_depth_times_trees(small_forest, small):
    X = small[0]
    Z = small_forest.hard_vectors(X)
    assert isinstance(Z, sp.csr_matrix)
    assert Z.dtype == np.float64
    assert Z.shape == (len(X), len(small_forest.forest_.left))
    rows = small_forest._prepare(X)
    depth = [sum(len(naive.path(small_forest.forest_, t, x)) - 1 for t in range(12)) for x in rows]
    np.testing.assert_array_equal(np.diff(Z.indptr), depth)
    assert (Z.data > 0).all()
    indices = Z.indices.copy()
    Z.sort_indices()
    np.testing.assert_array_equal(indices, Z.indices)


def test_inner_product_where_every_tree_splits(small_forest, small):
    Z = small_forest.hard_vectors(small[0])
    D = small_forest.pairwise_distances(small[0], hard=True)
    np.testing.assert_allclose((Z @ Z.T).toarray(), (1 - D) / 2, atol=1e-12)


def test_a_lone_leaf_has_no_coordinates():
    X = np.random.default_rng(0).normal(size=(4, 2))
    metric = HierarchyForest(3, min_node_size=5, random_state=0).fit(X)
    Z = metric.hard_vectors(X)
    assert Z.shape == (4, 3)
    assert Z.nnz == 0
    assert not metric.pairwise_distances(X, hard=True).any()


def test_same_vectors_for_any_number_of_threads(small_forest, small, monkeypatch):
    monkeypatch.setattr("metricforest.search.embedding.ROWS_PER_TASK", 7)
    expected = small_forest.hard_vectors(small[0])
    for n_jobs in (2, 4):
        metric = clone(small_forest).set_params(n_jobs=n_jobs)
        metric.fit(small[0], pairs=small[2], pair_labels=small[3])
        found = metric.hard_vectors(small[0])
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_hard_distance_by_name(small_forest, small):
    X = small[0]
    D = small_forest.pairwise_distances(X[:9], X[9:18], hard=True)
    np.testing.assert_array_equal(small_forest.pair_distance(X[:9], X[9:18], hard=True), np.diag(D))
    assert (small_forest.pairwise_distances(X[:9], X[9:18]) <= D).all()


def test_learned_heights_have_no_vectors_unless_they_fall_along_every_path(small_forest):
    metric = copy(small_forest)
    forest = small_forest.forest_
    metric.forest_ = forest._replace(height=forest.height * 0.3)
    X = np.random.default_rng(0).normal(size=(9, metric.n_features_in_))
    far = metric.pairwise_distances(X, hard=True)
    np.testing.assert_allclose(squared_distances(metric.hard_vectors(X)), far, atol=1e-6)
    split = np.flatnonzero(forest.left >= 0)[1]
    height = forest.height.copy()
    height[split] = 2.0
    metric.forest_ = forest._replace(height=height)
    with pytest.raises(ValueError, match="heights='size'"):
        metric.hard_vectors(X)
