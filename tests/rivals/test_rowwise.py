"""Mapping and measuring rows: exact where it can be, and the same bits in every call."""

import math

import numpy as np
import pytest

from metricforest.rivals import ITML, Euclidean, rowwise
from metricforest.rivals.mapped import PRECISION

SIZES = [(1, 1, 1), (3, 5, 4), (7, 129, 9), (40, 128, 30), (33, 300, 67)]


def rows_and_matrix(n, m, d, spread=1.0):
    rng = np.random.default_rng([n, m, d])
    return spread * rng.normal(size=(n, d)), spread * rng.normal(size=(m, d))


@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_distances_are_right_to_the_last_digits(n, m, d):
    A, B = rows_and_matrix(n, m, d)
    want = [[math.sqrt(math.fsum((a - b) ** 2)) for b in B] for a in A]
    np.testing.assert_allclose(rowwise.distances(A, B, 2), want, rtol=(d + 4) * 2.0**-52)


@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_products_are_right_to_the_last_digits(n, m, d):
    A, B = rows_and_matrix(n, m, d)
    found = rowwise.products(A, B, 2)
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            bound = (d + 2) * 2.0**-52 * math.fsum(np.abs(a * b))
            assert abs(found[i, j] - math.fsum(a * b)) <= bound


@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_every_way_to_ask_gives_the_same_bits(n, m, d):
    A, B = rows_and_matrix(n, m, d)
    distance, product = rowwise.distances(A, B, 1), rowwise.products(A, B, 1)
    np.testing.assert_array_equal(rowwise.distances(A, B, 3), distance)
    np.testing.assert_array_equal(rowwise.products(A, B, 3), product)
    np.testing.assert_array_equal(rowwise.distances(B, A, 2), distance.T)
    first, second = np.indices((n, m)).reshape(2, -1)
    for n_threads in (1, 3):
        at = rowwise.distances_at(A, B, first, second, n_threads)
        np.testing.assert_array_equal(at.reshape(n, m), distance)
    np.testing.assert_array_equal(rowwise.products(np.asfortranarray(A), B, 1), product)
    for i in range(n):
        np.testing.assert_array_equal(rowwise.distances(A[i : i + 1], B, 1)[0], distance[i])
        np.testing.assert_array_equal(rowwise.products(A[i : i + 1], B, 1)[0], product[i])


def far_from_zero(d):
    """Rows a million from 0 and from each other, each with a near one and an equal one; and labels."""
    rng = np.random.default_rng(d)
    rows = 1e6 * rng.normal(size=(90, d))
    near = rows + rng.uniform(-0.1, 0.1, size=rows.shape)
    return np.concatenate([rows, near, rows]), np.tile(np.arange(90) % 3, 3)


@pytest.mark.parametrize("d", [4, 20, 100])
@pytest.mark.parametrize("metric", [Euclidean(False), ITML(standardize=False, random_state=0)])
def test_rows_far_from_zero_are_measured_and_found(metric, d):
    X, y = far_from_zero(d)
    metric.fit(X, y)
    every = metric.pairwise_distances(X)
    assert (every[np.arange(90), np.arange(180, 270)] == 0.0).all()
    rows = metric.transform(X)
    for i, j in ((0, 90), (3, 93), (5, 6), (100, 190)):
        want = math.sqrt(math.fsum((rows[i] - rows[j]) ** 2))
        assert every[i, j] == pytest.approx(want, rel=(d + 4) * 2.0**-52)
        alone = metric.pair_distance(X[i : i + 1], X[j : j + 1])
        np.testing.assert_array_equal(alone, every[i, j])
        assert metric.get_metric()(X[i], X[j]) == every[i, j]
    for queries, among in ((X, every), (None, every + np.diag(np.full(270, np.inf)))):
        distance, index = metric.kneighbors(queries, 3)
        order = np.argsort(among, axis=1, kind="stable")[:, :3]
        np.testing.assert_array_equal(index[:, :2], order[:, :2])
        want = np.take_along_axis(among, order, axis=1)
        np.testing.assert_array_equal(distance[:, :2], want[:, :2])
        np.testing.assert_allclose(distance, want, rtol=PRECISION)
    radius = np.median(every[np.arange(90), np.arange(90, 180)])
    distance, index = metric.radius_neighbors(X, radius)
    for i in range(270):
        assert sorted(index[i]) == np.flatnonzero(every[i] <= radius).tolist()
        np.testing.assert_array_equal(distance[i], every[i, index[i]])


@pytest.mark.parametrize("d", [4, 20])
def test_rows_too_far_to_measure_are_refused(d):
    X, _ = far_from_zero(d)
    metric = Euclidean().fit(X)
    with pytest.raises(ValueError, match=r"X holds 1e\+200; distances to such rows overflow"):
        metric.pairwise_distances(np.full((1, d), 1e200))
