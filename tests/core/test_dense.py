"""The small dense algebra of the solver, against NumPy."""

import numpy as np
import pytest
from numba import njit

from metricforest.core.dense import (
    POINT_LANES,
    ROWS_PER_TILE,
    add_row,
    add_rows_4,
    count_holding,
    dot,
    gram,
    lane_dots,
    mix_rows,
    padded,
    row_dot,
    row_dots_4,
    solve_dense,
)
from metricforest.core.descent import project

SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 40]


def padded_matrix(rng, n: int, size: int, beyond: float = 0.0) -> np.ndarray:
    W = np.full((n, padded(size)), beyond, np.float32)
    W[:, :size] = rng.normal(size=(n, size))
    return W


@njit
def passes(rows, v, c, p, singly, sums):
    row_dots_4(rows, 1, v, p)
    for i in range(len(rows)):
        row_dot(rows, i, v, singly)
    add_rows_4(c, rows, 1, sums[0])
    for i in range(1, 5):
        add_row(c, rows, i, sums[1])


@pytest.mark.parametrize("size", SIZES)
def test_rows_by_fours_and_singly(size):
    rng = np.random.default_rng(size)
    rows = padded_matrix(rng, 6, size)
    v, c = padded_matrix(rng, 1, size)[0], rng.normal(size=6).astype(np.float32)
    p, singly = np.zeros(6, np.float32), np.zeros(6, np.float32)
    sums = np.ones((2, padded(size)), np.float32)
    passes(rows, v, c, p, singly, sums)
    np.testing.assert_allclose(singly, rows.astype(float) @ v, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(p[1:5], singly[1:5])  # to the bit, wherever a row stands
    assert p[0] == p[5] == 0.0
    expected = 1 + c[1:5].astype(float) @ rows[1:5]
    for found in sums:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@njit
def mix(a, A, i, b, B, j, out, r):
    mix_rows(a, A, i, b, B, j, out, r)


@pytest.mark.parametrize("size", SIZES)
def test_mixing_rows(size):
    rng = np.random.default_rng(size)
    A, B, out = (padded_matrix(rng, n, size) for n in (3, 4, 5))
    before = out.copy()
    mix(np.float32(0.5), A, 2, np.float32(-2.0), B, 1, out, 3)
    np.testing.assert_allclose(out[3], 0.5 * A[2] - 2 * B[1], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(np.delete(out, 3, axis=0), np.delete(before, 3, axis=0))
    mix(np.float32(1.0), out, 3, np.float32(1.0), out, 3, out, 3)  # onto itself
    np.testing.assert_allclose(out[3], A[2] - 4 * B[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 5, ROWS_PER_TILE, ROWS_PER_TILE + 1, 300])
@pytest.mark.parametrize("size", SIZES)
def test_gram(size, n):
    rng = np.random.default_rng(size)
    W = padded_matrix(rng, n + 1, size, beyond=np.nan)  # what is beyond must not matter
    M = gram(W, n, size, 0.5)
    exact = 0.5 * np.eye(size) + W[:n, :size].astype(float).T @ W[:n, :size]
    np.testing.assert_allclose(np.tril(M[:size, :size]), np.tril(exact), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [*SIZES, 101])
def test_dense_solver(size):
    rng = np.random.default_rng(size)
    W, b = rng.normal(size=(size + 3, size)), rng.normal(size=size)
    M = W.T @ W + 0.1 * np.eye(size)
    room = np.full((size + 3, padded(size)), np.nan)
    room[:size, :size] = np.where(np.tri(size), M, np.nan)
    x = b.copy()
    solve_dense(room, x)
    np.testing.assert_allclose(x, np.linalg.solve(M, b), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 9, 20])
def test_dot(size):
    a, b = np.random.default_rng(size).normal(size=(2, size))
    assert dot(a, b) == pytest.approx(float(a @ b), abs=1e-12)


@njit
def project_lanes(weights, features, columns, out):
    lane_dots(weights, features, columns, out)


@pytest.mark.parametrize("d_k", [*range(1, 10), 85])
def test_points_are_projected_together_as_they_are_singly(d_k):
    """To the bit: the certainties of an index must be those that distances are made of."""
    rng = np.random.default_rng(d_k)
    rows = rng.normal(size=(POINT_LANES, 2 * d_k)).astype(np.float32)
    features = np.sort(rng.permutation(2 * d_k)[:d_k]).astype(np.int32)
    weights = rng.normal(size=d_k + 1).astype(np.float32)
    gaps = np.diff(features, prepend=0).astype(np.uint8)
    out = np.empty(POINT_LANES)
    project_lanes(weights, features, np.ascontiguousarray(rows.T.astype(float)), out)
    np.testing.assert_array_equal(out, [project(row, gaps, weights) for row in rows])
    np.testing.assert_allclose(out, rows[:, features].astype(float) @ weights[:-1] + weights[-1])


@njit
def holding(places, n, low, size, n_ranges, count):
    count_holding(places, n, low, size, n_ranges, count)


@pytest.mark.parametrize("n_ranges", [0, 1, 3, 30])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 100])
def test_counting_the_ranges_that_hold_a_place(n, n_ranges):
    rng = np.random.default_rng(n)
    places, count = np.zeros((2, padded(n)), np.int32)
    places[:n] = rng.integers(0, 50, n)
    places[0] = 2**31 - 1
    low, size = rng.integers(0, 50, (2, 31)).astype(np.int32)
    low[0], size[0] = 0, 2**31 - 1
    holding(places, n, low, size, n_ranges, count)
    first, end = low[:n_ranges].astype(int), low[:n_ranges].astype(int) + size[:n_ranges]
    at = places[:n, np.newaxis]
    np.testing.assert_array_equal(count[:n], ((at >= first) & (at < end)).sum(axis=1))
