"""Searching as every metric offers it: against sorting all distances."""

import numpy as np
import pytest

from metricforest import HierarchyForest
from metricforest.base import Metric


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).normal(size=(60, 4))
    return X, HierarchyForest(8, random_state=0).fit(X, (X[:, 0] > 0).astype(int))


def by_sorting(D, k):
    rows = np.arange(D.shape[1])
    order = np.array([np.lexsort((rows, row))[:k] for row in D])
    return np.take_along_axis(D, order, axis=1), order


@pytest.mark.parametrize("block", [1, 61, 1 << 20])
def test_search_by_measuring_everything_is_sorting(fitted, monkeypatch, block):
    X, hf = fitted
    monkeypatch.setattr("metricforest.base.BLOCK", block)
    Q = np.random.default_rng(1).normal(size=(7, 4))
    D = hf.pairwise_distances(Q, X)
    for got, want in zip(Metric._nearest(hf, hf._prepare(Q), 9), by_sorting(D, 9), strict=True):
        np.testing.assert_array_equal(got, want)
    distance, index = Metric._within(hf, hf._prepare(Q), 0.3)
    for i in range(7):
        near = np.flatnonzero(D[i] <= 0.3)
        np.testing.assert_array_equal(index[i], near[np.lexsort((near, D[i, near]))])
        np.testing.assert_array_equal(distance[i], D[i, index[i]])


def test_search_among_the_rows_of_fit_leaves_each_out(fitted):
    X, hf = fitted
    D = hf.pairwise_distances(X)
    np.fill_diagonal(D, np.inf)
    for got, want in zip(Metric._nearest(hf, None, 59), by_sorting(D, 59), strict=True):
        np.testing.assert_array_equal(got, want)
    distance, index = Metric._within(hf, None, 2.0)
    assert all(sorted([*rows, i]) == list(range(60)) for i, rows in enumerate(index))
    assert all((np.diff(d) >= 0).all() for d in distance)
