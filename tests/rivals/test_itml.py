"""ITML: its objective, its gradient, its bound, its projections, and tiny cases by hand."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import naive_pairs as naive
from conftest import load, three_clusters
from metricforest.rivals import ITML, Euclidean
from metricforest.rivals.itml import (
    GAMMAS,
    evaluate,
    minimise,
    pose,
    project,
    root_for_must_links,
    sampled_bounds,
    sweep,
)
from metricforest.supervision import constraints as cn


def small_problem(gamma=1.0, offset=0.0):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(14, 3))
    pairs = rng.permuted(np.tile(np.arange(14), (24, 1)), axis=1)[:, :2].astype(np.int32)
    return pose(Z + offset, pairs[:10], pairs[10:], 1.0, 6.0, gamma)


def naive_objective(problem, A):
    Z, pairs, sign, _, gamma = problem
    return naive.itml_objective(A, np.eye(3), Z, pairs[sign > 0], pairs[sign < 0], 1, 6, gamma)


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_objective_is_that_of_the_formula(offset):
    problem = small_problem(offset=offset)
    C = np.random.default_rng(1).normal(size=(3, 3))
    np.testing.assert_allclose(evaluate(problem, C)[0], naive_objective(problem, C @ C.T))


def test_gradient_is_that_of_finite_differences():
    problem = small_problem()
    C = np.random.default_rng(1).normal(size=(3, 3))
    gradient = 2 * (evaluate(problem, C)[1] @ C - np.linalg.inv(C).T)
    h = 1e-6
    for i, j in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[i, j] = h
        high, low = (naive_objective(problem, (C + s) @ (C + s).T) for s in (step, -step))
        np.testing.assert_allclose(gradient[i, j], (high - low) / (2 * h), rtol=1e-5)


@pytest.mark.parametrize(("gamma", "most"), [(1.0, 20), (10.0, 40), (100.0, 60)])
def test_features_of_very_different_variance_take_few_passes(gamma, most):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20)) * np.logspace(0, -2, 20)
    y = (X[:, 0] + 30 * X[:, 15] > 0).astype(int)
    metric = ITML(gamma, n_constraints=1000, standardize=False, random_state=0).fit(X, y)
    assert metric.gap_ <= 1e-4 * metric.objective_
    assert metric.n_iter_ <= most


@pytest.mark.parametrize(("gamma", "most"), [(1.0, 12), (10.0, 30), (100.0, 90)])
def test_few_pairs_of_even_features_take_few_passes(gamma, most):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 60)), rng.integers(0, 2, 200)
    metric = ITML(gamma, n_constraints=60, random_state=0).fit(X, y)
    assert metric.gap_ <= 1e-4 * max(1.0, metric.objective_)
    assert metric.n_iter_ <= most


def test_features_keep_their_scale_where_their_scatter_overflows():
    problem = small_problem()
    problem = problem._replace(xi0=np.full_like(problem.xi0, 1e-320))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(root_for_must_links(problem), np.eye(3))


def test_bound_is_below_the_minimum_everywhere():
    problem = small_problem()
    minimum = minimise(problem, 1e-12, 500).objective
    rng = np.random.default_rng(2)
    bounds = [evaluate(problem, np.eye(3) + 0.3 * rng.normal(size=(3, 3)))[2] for _ in range(200)]
    assert np.isfinite(bounds).sum() > 20
    assert max(bounds) <= minimum + 1e-9


@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_both_solvers_reach_what_plain_projections_reach(gamma):
    problem = small_problem(gamma)
    Z, pairs, sign, _, _ = problem
    must, cannot = pairs[sign > 0], pairs[sign < 0]
    A = naive.itml_by_projections(np.eye(3), Z, must, cannot, 1, 6, gamma, 3_000)
    want = naive_objective(problem, A)
    for best in (
        minimise(problem, 1e-9, 500),
        project(problem, 1e-9, 3_000, np.random.default_rng(0)),
    ):
        np.testing.assert_allclose(best.objective, want, rtol=1e-6)
        np.testing.assert_allclose(best.C @ best.C.T, A, rtol=2e-3, atol=2e-3)
        assert best.gap <= 1e-9 * max(1, want)


def test_a_pass_of_projections_is_that_of_the_loop():
    Z, pairs, sign, xi0, gamma = small_problem(0.5)
    A, dual, xi = np.eye(3), np.zeros(len(sign)), xi0.copy()
    want = np.eye(3), dual.copy(), xi.copy()
    for _ in range(3):
        sweep(A, Z, pairs, sign, gamma, dual, xi)
        B = want[0]
        for k, (i, j) in enumerate(pairs):
            B, want[1][k], want[2][k] = naive.itml_projection(
                B, Z[i] - Z[j], sign[k], gamma, want[1][k], want[2][k]
            )
        want = B, *want[1:]
    for got, value in zip((A, dual, xi), want, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-9)
    np.testing.assert_array_equal(A, A.T)
    # The matrix is the one that the multipliers make: inv(A) = I + sum of delta lambda e e'.
    E = Z[pairs[:, 0]] - Z[pairs[:, 1]]
    np.testing.assert_allclose(np.linalg.inv(A), np.eye(3) + (E.T * (sign * dual)) @ E, rtol=1e-9)


@pytest.mark.parametrize(("sign", "xi0"), [(1.0, 0.5), (-1.0, 40.0)])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 30.0])
def test_a_projection_makes_the_length_its_slack(sign, xi0, gamma):
    Z = np.random.default_rng(0).normal(size=(2, 4))
    A, dual, xi = np.eye(4), np.zeros(1), np.array([xi0])
    sweep(A, Z, np.array([[0, 1]]), np.array([sign]), gamma, dual, xi)
    e = Z[0] - Z[1]
    np.testing.assert_allclose(e @ A @ e, xi[0], rtol=1e-12)
    assert dual[0] > 0
    assert sign * (xi[0] - xi0) > 0


def test_one_feature_by_hand():
    X = np.array([[0.0], [2.0], [3.0]])
    # Must-link of squared length 4 with u = 1: a - log a + 2 phi(4 a) is least at a = 3 / 9.
    m = ITML(2.0, bounds=(1, 9), standardize=False, tol=1e-12)
    m.fit(X, pairs=[[0, 1]], pair_labels=[1])
    np.testing.assert_allclose(m.components_**2, [[1 / 3]], rtol=1e-6)
    np.testing.assert_allclose(m.objective_, naive.phi(1 / 3) + 2 * naive.phi(4 / 3), rtol=1e-9)
    # Cannot-link of squared length 1 with l = 9: a - log a + 2 phi(a / 9) is least at 3 / (1 + 2 / 9).
    m.fit(X, pairs=[[1, 2]], pair_labels=[-1])
    np.testing.assert_allclose(m.components_**2, [[27 / 11]], rtol=1e-6)
    # What is honoured already leaves the prior as it is.
    m.fit(X, pairs=[[1, 2], [0, 2]], pair_labels=[1, -1])
    np.testing.assert_allclose(m.components_**2, [[1.0]], rtol=1e-12)
    assert (m.objective_, m.gap_, m.n_iter_) == (0.0, 0.0, 1)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_one_feature_ends_whatever_the_pairs(gamma):
    rng = np.random.default_rng(0)
    for _ in range(20):
        X = rng.integers(5, size=(8, 1)).astype(float)
        pairs = rng.permutation(list(itertools.combinations(range(8), 2)))[:6]
        m = ITML(gamma, bounds=(1, 4), standardize=False, tol=1e-6, max_iter=50)
        m.fit(X, pairs=pairs, pair_labels=[1] * 3 + [-1] * 3)
        assert m.components_ > 0


@pytest.mark.parametrize("prior", ["identity", "covariance"])
def test_the_estimator_minimises_the_objective_with_its_prior(prior):
    X, _, pairs, labels = three_clusters()
    m = ITML(0.5, prior, tol=1e-10, max_iter=2_000, random_state=0)
    m.fit(X, pairs=pairs, pair_labels=labels)
    Z = Euclidean().fit(X).transform(X)
    covariance = np.cov(Z, rowvar=False, bias=True)
    A0 = np.eye(5) if prior == "identity" else np.linalg.inv(covariance)
    must, cannot = pairs[labels == 1].tolist(), pairs[labels == -1].tolist()
    A = m.components_.T @ m.components_
    value = naive.itml_objective(A, A0, Z, must, cannot, *m.bounds_, 0.5)
    np.testing.assert_allclose(m.objective_, value, rtol=1e-4)
    for seed in range(20):  # nowhere near is it lower
        step = np.random.default_rng(seed).normal(size=(5, 5))
        B = A + 0.01 * (step @ A + A @ step.T)
        assert naive.itml_objective(B, A0, Z, must, cannot, *m.bounds_, 0.5) >= value


def test_bounds_are_percentiles_of_squared_distances():
    X = load("wine")[0]
    Z = Euclidean().fit(X).transform(X)
    all_pairs = [((Z[i] - Z[j]) ** 2).sum() for i in range(len(Z)) for j in range(i)]
    got = sampled_bounds(Z, np.random.default_rng(0))
    np.testing.assert_allclose(got, np.percentile(all_pairs, [5, 95]), rtol=0.05)
    # Copies of rows say nothing about how far rows are: half the distances are 0 here.
    twice = np.repeat(Z[:2], 50, axis=0)
    np.testing.assert_allclose(
        sampled_bounds(twice, np.random.default_rng(0)), [((Z[0] - Z[1]) ** 2).sum()] * 2
    )


@pytest.mark.parametrize("name", ["balance", "sonar", "ionosphere", "segmentation"])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_minimum_is_proven_on_real_rows(name, gamma):
    X, y = load(name)
    m = ITML(gamma, n_constraints=2_000, random_state=0).fit(X, y)
    assert m.gap_ <= 1e-4 * max(1, m.objective_)
    Z = Euclidean().fit(X).transform(X)
    table = cn.collect(len(X), y, n_constraints=2_000, seed=seed_of(0))
    pairs, labels = table.pairs()
    A = m.components_.T @ m.components_
    value = naive.itml_objective(
        A, np.eye(X.shape[1]), Z, pairs[labels == 1], pairs[labels == -1], *m.bounds_, gamma
    )
    np.testing.assert_allclose(m.objective_, value, rtol=1e-6)


def seed_of(random_state):
    return int(np.random.RandomState(random_state).randint(np.iinfo(np.int32).max))


def test_ending_on_max_iter_warns():
    X, y, *_ = three_clusters()
    for solver in ("lbfgs", "projections"):
        with pytest.warns(ConvergenceWarning, match="ITML stopped after 2 passes") as caught:
            m = ITML(100.0, solver=solver, max_iter=2, random_state=0).fit(X, y)
        assert m.n_iter_ == 2
        assert caught[0].filename == __file__


def test_copies_of_rows_are_passed_over():
    X, _, pairs, labels = three_clusters()
    X = np.vstack([X, X[:4], X[:4] * (1 + 1e-15)])
    copies = np.array([[i, 60 + i] for i in range(4)] + [[i, 64 + i] for i in range(4)])
    given = np.vstack([pairs, copies])
    bounds = (1.0, 9.0)
    for label in (1, -1):
        with_copies = ITML(bounds=bounds).fit(
            X, pairs=given, pair_labels=np.append(labels, [label] * 8)
        )
        without = ITML(bounds=bounds).fit(X, pairs=pairs, pair_labels=labels)
        np.testing.assert_array_equal(with_copies.components_, without.components_)


def test_only_one_kind_of_pair():
    X, _, pairs, labels = three_clusters()
    for label in (1, -1):
        chosen = pairs[labels == label]
        m = ITML().fit(X, pairs=chosen, pair_labels=np.full(len(chosen), label))
        change = m.pair_distance(*X[chosen.T]) / Euclidean().fit(X).pair_distance(*X[chosen.T])
        assert (change * label).mean() < label


def test_verbose_tells_every_pass(capsys):
    X, y, *_ = three_clusters()
    m = ITML(verbose=1, random_state=0).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == m.n_iter_
    assert lines[-1].startswith(f"ITML pass {m.n_iter_}: objective {m.objective_:.6g}")


def test_parameters_are_checked():
    X, y, *_ = three_clusters()
    with pytest.raises(ValueError, match=r"gamma must be in \(0.0, 1000000.0\], got 0"):
        ITML(0).fit(X, y)
    with pytest.raises(ValueError, match="prior must be one of identity, covariance, got 'x'"):
        ITML(prior="x").fit(X, y)
    with pytest.raises(ValueError, match="solver must be one of lbfgs, projections"):
        ITML(solver="x").fit(X, y)
    with pytest.raises(ValueError, match=r"bounds must be \(u, l\) with 0 < u <= l, got \(2, 1\)"):
        ITML(bounds=(2, 1)).fit(X, y)
    with pytest.raises(TypeError, match=r"max_iter must be an int, got 1\.5"):
        ITML(max_iter=1.5).fit(X, y)
    with pytest.raises(ValueError, match="its variance overflows"):
        ITML(standardize=False).fit(X * 1e200, y)


def test_bounds_that_are_no_numbers():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), [0, 1] * 10
    with pytest.raises(
        ValueError, match=r"bounds must be \(u, l\) with 0 < u <= l, got \('a', 'b'\)"
    ):
        ITML(bounds=("a", "b")).fit(X, y)
