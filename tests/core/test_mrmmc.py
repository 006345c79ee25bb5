"""Splits without cannot-links."""

import itertools

import numpy as np
import pytest

import naive
from conftest import augmented, make_rows, points_of
from metricforest.core.mrmmc import (
    AXIS_ITERATIONS,
    impose_members,
    n_required,
    otsu_threshold,
    principal_axis,
    solve_mrmmc,
)


def split(Z, max_rounds=15, max_iter=100):
    """(rows, w, energy, converged) from the principal axis and Otsu's cut, as a node does it."""
    rows = make_rows(Z)
    w = np.full(rows.n_features + 1, np.nan)
    principal_axis(rows, AXIS_ITERATIONS, w)
    q = (points_of(rows) @ w[:-1]).astype(np.float32)
    w[-1] = -otsu_threshold(q, n_required(len(q)))
    energy, _rounds, _n_iter, _passes, converged = solve_mrmmc(rows, max_rounds, max_iter, w)
    return rows, w, energy, converged


@pytest.mark.parametrize("ratio", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(5))
def test_blobs_eight_sigma_apart_are_recovered(ratio, seed):
    rng = np.random.default_rng(seed)
    small = 30
    truth = np.repeat([0, 1], [small, ratio * small])
    axis = rng.normal(size=5)
    Z = rng.normal(size=(len(truth), 5)) + 8 * truth[:, None] * axis / np.linalg.norm(axis)
    rows, w, _, _ = split(Z)
    right = augmented(rows) @ w > 0
    assert max((right == truth).mean(), (right != truth).mean()) > 0.97


@pytest.mark.parametrize("n", [2, 3, 4, 6, 12])
@pytest.mark.parametrize("seed", range(5))
def test_few_points_are_split_with_members_on_both_sides(n, seed):
    rows, w, _, _ = split(np.random.default_rng(seed).normal(size=(n, 3)))
    right = (augmented(rows) @ w > 0).sum()
    assert naive_required(n) <= right <= n - naive_required(n)


def naive_required(n):
    return max(1, n // 6)


@pytest.mark.parametrize("seed", range(10))
def test_membership_is_imposed(seed):
    """One dense lump and a few outliers would rather be one-sided."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(60, 4)) * np.where(np.arange(60) < 2, 30, 1)[:, None]
    rows, w, _, _ = split(Z)
    right = (augmented(rows) @ w > 0).sum()
    assert 10 <= right <= 50


@pytest.mark.parametrize("n", [2, 5, 40])
def test_identical_points_have_no_cut(n):
    rows = make_rows(np.tile([1.5, -2.0, 3.0], (n, 1)))
    w = np.full(rows.n_features + 1, np.nan)
    principal_axis(rows, AXIS_ITERATIONS, w)
    assert np.isfinite(w).all()
    q = np.zeros(n, np.float32)
    cut = otsu_threshold(q, n_required(n))
    assert np.isnan(cut)
    w[-1] = -cut
    _, rounds, *_ = solve_mrmmc(rows, 5, 100, w)
    assert rounds == 0
    assert np.isnan(w[-1])


@pytest.mark.parametrize("seed", range(8))
def test_energy_is_the_papers(seed):
    rng = np.random.default_rng(seed)
    n = 30
    Z = rng.normal(size=(n, 3)) + 4 * (np.arange(n) % 2)[:, None]
    rows, w, energy, converged = split(Z)
    expected = naive.mrmmc_objective(augmented(rows), w, naive_required(n)) / n
    assert converged
    assert energy == pytest.approx(expected, rel=1e-4)


def test_energy_in_one_vector_is_that_in_two():
    """The oracle agrees with the two-vector form, so that the test above means something."""
    rng = np.random.default_rng(0)
    A, w = np.column_stack([rng.normal(size=(20, 3)), np.ones(20)]), rng.normal(size=4)
    labels, members = naive.mrmmc_assign(A, w, -w, 3)
    two = naive.mrmmc_objective_two_vectors(A, w, -w, labels, members)
    assert naive.mrmmc_objective(A, w, 3) == pytest.approx(two)


@pytest.mark.parametrize("seed", range(5))
def test_energy_does_not_rise(seed):
    """Two overlapping clusters: every round is solved to a tenth of the energy, or 0.05."""
    rng = np.random.default_rng(seed)
    n = 48
    Z = rng.normal(size=(n, 4)) + 1.5 * (np.arange(n) % 2)[:, None]
    energies = []
    for rounds in range(8):
        rows, w, _, _ = split(0.3 * Z, max_rounds=rounds)
        energies.append(naive.mrmmc_objective(augmented(rows), w, n // 6) / n)
    assert all(b <= max(1.1 * a, a + 0.05) for a, b in itertools.pairwise(energies))
    assert energies[-1] < 0.8 * energies[0]


@pytest.mark.parametrize("seed", range(12))
def test_otsu_cut_has_least_scatter(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    q = (rng.normal(size=n) if seed % 2 else rng.integers(0, 5, n)).astype(np.float32)
    l = int(rng.integers(1, n // 2 + 1))
    expected = naive.otsu_threshold(q, l)
    cut = otsu_threshold(q, l)
    if expected is None:
        assert np.isnan(cut)
        return
    assert l <= (q <= cut).sum() <= n - l
    least = naive.within_scatter(q, expected)
    assert naive.within_scatter(q, cut) == pytest.approx(least, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_principal_axis(d):
    rng = np.random.default_rng(d)
    Z = rng.normal(size=(50, d)) * np.arange(1, d + 1) ** 2
    rows = make_rows(Z)
    v = np.full(d + 1, np.nan)
    principal_axis(rows, 100, v)
    assert v[-1] == 0
    assert np.linalg.norm(v) == pytest.approx(1, rel=1e-6)
    top = np.linalg.svd(points_of(rows), full_matrices=False)[2][0]
    assert abs(v[:-1] @ top) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("p", "l", "moved", "right"),
    [
        ([1.0, 2, 3, 4], 1, True, 3),
        ([-1.0, -2, -3, -4], 1, True, 1),
        ([-1.0, 2, 3, 4], 1, False, 3),
        ([-1.0, 2, 3, 4], 2, True, 2),
        ([0.0, 0, 0, 0], 1, False, 0),
        ([1.0, 1, 2, 2], 1, True, 2),
    ],
)
def test_planes_are_moved_to_their_members(p, l, moved, right):
    p = np.array(p, np.float32)
    w, before = np.array([1.0, 0.5]), p.copy()
    assert impose_members(w, p, l, np.empty(4, np.float32)) == moved
    assert (p > 0).sum() == right
    np.testing.assert_allclose(p - before, w[1] - 0.5)
