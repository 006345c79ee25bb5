"""The convex problem of a split: its loss, its gradient, its minimum."""

import numpy as np
import pytest

import naive
from conftest import (
    Problem,
    augmented,
    configuration,
    exact_optimum,
    frozen_objective,
    make_rows,
    random_constraints,
)
from metricforest.core.convex import (
    FEW,
    HARD,
    ROUGH,
    SMALL,
    Groups,
    curved_rows,
    evaluate,
    gather_all,
    minimise,
    n_curved,
    newton_direction,
    project_all,
)
from metricforest.core.dense import padded
from metricforest.core.ssmmc import configure, make_groups

LAM, C = 0.01, 1.0


def random_problem(seed, n=30, d=4, n_must=12, n_cannot=20, n_triplets=8, spare=8, fraction=0.5):
    """(problem, configured groups, w); the last `spare` points are in no constraint."""
    rng = np.random.default_rng(seed)
    rows = make_rows(rng.normal(size=(n, d)))
    table = random_constraints(rng, n - spare, n_must, n_cannot, n_triplets)
    problem = Problem(rows, table.members, table.kind)
    w = rng.normal(size=d + 1)
    groups = configured(problem, w, fraction)
    return problem, groups, rng.normal(size=d + 1)


def configured(problem, w, fraction) -> Groups:
    n, L = len(problem.rows.values), len(problem.kind)
    p = (augmented(problem.rows) @ w).astype(np.float32)
    groups = make_groups(problem.members, problem.kind, n, fraction)
    margin, order = np.empty((2, L), np.float32), np.empty(L, np.float32)
    configure(p, problem.members, problem.kind, fraction, groups, margin, order)
    n_alone = np.count_nonzero(groups.label)
    groups.label_weight[0] = C / n_alone if n_alone else 0.0
    return groups


def losses(groups, p, tau):
    """(hard, soft, excess, c) of `evaluate`."""
    p, tau = np.asarray(p, np.float32), np.float32(tau)
    c, near = np.empty(len(p), np.float32), np.empty(len(p) + len(groups.start), np.int32)
    return *evaluate(p, groups, tau, c, near), c


def smoothed(groups, p, tau):
    """(soft loss, excess, dloss/dp) from the definition: q is a projection onto the simplex."""
    soft = excess = 0.0
    slope = np.zeros(len(p))
    parts = [
        (groups.weight[g], groups.member[a:b], groups.sign[a:b])
        for g, (a, b) in enumerate(zip(groups.start[:-1], groups.start[1:], strict=True))
    ]
    parts += [
        (groups.label_weight[0], np.array([i]), groups.label[i : i + 1])
        for i in np.flatnonzero(groups.label)
    ]
    for a, ends, signs in parts:
        h = np.append(1 - 2 * signs.astype(float) * p[ends], 0.0)
        # q = projection of h / tau onto the simplex, by its sorted entries.
        ranked = np.sort(h / tau)[::-1]
        heights = (np.cumsum(ranked) - 1) / np.arange(1, len(h) + 1)
        q = np.maximum(0, h / tau - heights[np.flatnonzero(ranked > heights)[-1]])
        soft += a * (q @ h + tau / 2 * (1 - q @ q))
        excess += a * (h.max() - q @ h)
        np.add.at(slope, ends, -2 * a * signs * q[:-1])
    return soft, excess, slope


@pytest.mark.parametrize("d", [1, 3, 4, 7, 15, 16, 21, 40])
@pytest.mark.parametrize("n", [1, 2, 5, 300])
def test_passes_over_the_rows(n, d):
    rng = np.random.default_rng(n * 100 + d)
    rows = make_rows(rng.normal(size=(n, d)))
    A = augmented(rows)
    w = rng.normal(size=d + 1)
    p = np.empty(n, np.float32)
    project_all(rows, w, p)
    np.testing.assert_allclose(p, A @ w, rtol=1e-5, atol=1e-5)
    c = rng.normal(size=n).astype(np.float32)
    c[rng.random(n) < 0.3] = 0
    grad = np.empty(d + 1)
    gather_all(rows, c, 0.3, w, grad)
    np.testing.assert_allclose(grad, 0.3 * w + A.T @ c.astype(float), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_triplets", [0, 8])
def test_hard_loss_is_the_papers_objective(seed, n_triplets):
    problem, groups, w = random_problem(seed, n_triplets=n_triplets)
    hard = losses(groups, augmented(problem.rows) @ w, HARD)[0]
    config = configuration(problem, groups)
    expected = naive.objective(augmented(problem.rows), w, config, *problem.constraints(), LAM, C)
    assert hard + LAM / 2 * (w @ w) == pytest.approx(expected, rel=1e-5)
    assert frozen_objective(problem.rows, groups, LAM, w) == pytest.approx(expected, rel=1e-6)
    assert len(config.active) == 10
    assert len(config.active_triplets) == n_triplets // 2
    assert len(problem.unlabelled) >= 8


@pytest.mark.parametrize("seed", range(6))
def test_gradient_without_smoothing_is_the_papers(seed):
    problem, groups, w = random_problem(seed)
    A = augmented(problem.rows)
    grad = np.empty(len(w))
    gather_all(problem.rows, losses(groups, A @ w, HARD)[3], LAM, w, grad)
    config = configuration(problem, groups)
    expected = naive.subgradient(A, w, config, *problem.constraints(), LAM, C)
    np.testing.assert_allclose(grad, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tau", [0.5, 0.05, 1e-4])
def test_smoothed_loss_from_its_definition(seed, tau):
    problem, groups, w = random_problem(seed)
    p = (augmented(problem.rows) @ w).astype(np.float32)
    hard, soft, excess, c = losses(groups, p, tau)
    expected = smoothed(groups, p.astype(float), tau)
    assert soft == pytest.approx(expected[0], rel=1e-4)
    assert excess == pytest.approx(expected[1], rel=1e-3, abs=1e-4)
    np.testing.assert_allclose(c, expected[2], atol=2e-3)  # q is a quotient by tau in float32
    total = groups.weight.sum() + C
    assert hard - 1e-4 <= soft <= hard + tau / 2 * total + 1e-4


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tau", [0.5, 1e-4])
def test_gradient_against_finite_differences(seed, tau):
    problem, groups, w = random_problem(seed)
    A = augmented(problem.rows)

    def value(w):
        return losses(groups, A @ w, tau)[1] + LAM / 2 * (w @ w)

    step = 1e-3
    expected = np.empty(len(w))
    for k in range(len(w)):
        up, down = w.copy(), w.copy()
        up[k] += step
        down[k] -= step
        expected[k] = (value(up) - value(down)) / (2 * step)
    grad = np.empty(len(w))
    gather_all(problem.rows, losses(groups, A @ w, tau)[3], LAM, w, grad)
    # A kink inside the step shifts a difference by at most the weight of its group.
    np.testing.assert_allclose(grad, expected, rtol=5e-3, atol=5e-3 if tau > 0.1 else 5e-2)


@pytest.mark.parametrize("tol", [0.1, 0.01, 1e-3])
@pytest.mark.parametrize("seed", range(4))
def test_minimum_keeps_its_promise(seed, tol):
    problem, groups, w = random_problem(seed, n=60, d=6, n_must=40, n_cannot=80, n_triplets=20)
    rows = problem.rows
    p = np.empty(len(rows.values), np.float32)
    project_all(rows, w, p)
    value, _tau, _n_iter, _passes, done = minimise(rows, groups, LAM, tol, 0.0, 1.0, 200, w, p)
    _, optimum = exact_optimum(rows, groups, LAM)
    assert done
    assert value == pytest.approx(frozen_objective(rows, groups, LAM, w), rel=1e-4)
    np.testing.assert_allclose(p, augmented(rows) @ w, atol=1e-3)
    assert optimum * (1 - 1e-5) <= value <= optimum / (1 - tol) * (1 + 1e-5)


def test_absolute_tolerance_is_enough_too():
    problem, groups, w = random_problem(0, n=60, d=6)
    rows = problem.rows
    p = np.empty(60, np.float32)
    project_all(rows, w, p)
    value, *_, done = minimise(rows, groups, LAM, 0.0, 0.05, 1.0, 200, w, p)
    _, optimum = exact_optimum(rows, groups, LAM)
    assert done
    assert value <= optimum + 0.05 + 1e-5


def test_iterations_are_counted_and_bounded():
    problem, groups, w = random_problem(1, n=60, d=6)
    p = np.empty(60, np.float32)
    project_all(problem.rows, w, p)
    value, _tau, n_iter, _passes, done = minimise(
        problem.rows, groups, LAM, 1e-4, 0.0, 1.0, 2, w, p
    )
    assert n_iter == 2
    assert not done
    assert value == pytest.approx(frozen_objective(problem.rows, groups, LAM, w), rel=1e-4)


def test_rounding_may_make_the_newton_matrix_indefinite():
    """Two dimensions seen in eight features, and next to no ridge: every one of these needs more of it."""
    n_done = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = make_rows(30 * rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)))
        table = random_constraints(rng, 52, 40, 80)
        w = 0.01 * rng.normal(size=9)
        groups = configured(Problem(rows, table.members, table.kind), w, 0.5)
        p = np.empty(60, np.float32)
        project_all(rows, w, p)
        before = frozen_objective(rows, groups, 1e-6, w)
        value, *_, done = minimise(rows, groups, 1e-6, 0.01, 0.0, 1.0, 300, w, p)
        assert value <= before
        n_done += done
    assert n_done >= 18


def test_fast_optimum_agrees_with_the_printed_program():
    for seed in range(3):
        problem, groups, _ = random_problem(seed)
        w, bound = exact_optimum(problem.rows, groups, LAM)
        config = configuration(problem, groups)
        expected_w, expected = naive.qp_optimum(
            augmented(problem.rows), config, *problem.constraints(), LAM, C
        )
        assert bound == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(w, expected_w, atol=1e-2)


def test_one_cannot_link_by_hand():
    """One pair (x, -x): w* = min(2 |x| / lam, 1 / (2 |x|)) x / |x|, the bias 0."""
    x = np.array([0.6, 0.8])
    rows = make_rows(np.stack([x, -x]))
    groups = Groups(
        1,
        np.array([0, 2], np.int32),
        np.array([0, 1], np.int32),
        np.array([1, -1], np.float32),
        np.ones(1, np.float32),
        np.zeros(2, np.float32),
        np.zeros(1, np.float32),
    )
    w, p = np.array([0.1, 0.0, 0.05]), np.empty(2, np.float32)
    project_all(rows, w, p)
    *_, done = minimise(rows, groups, LAM, 0.01, 0.0, 1.0, 100, w, p)
    assert done
    np.testing.assert_allclose(w, [0.3, 0.4, 0.0], atol=0.02)


@pytest.mark.parametrize(
    ("n", "size"), [(0, 3), (2, 9), (6, 9), (13, 9), (9, 70), (700, 70), (20, 150), (1300, 150)]
)
def test_newton_direction_in_each_of_its_ways(n, size):
    rng = np.random.default_rng(n)
    Z, grad = np.zeros((n + 2, padded(size)), np.float32), rng.normal(size=size)
    Z[:, :size] = rng.normal(size=(n + 2, size))
    H = 0.1 * np.eye(size) + Z[:n, :size].astype(float).T @ Z[:n, :size]
    direction = np.empty(size)
    newton_direction(Z, n, 0.1, grad, direction)
    if n <= FEW * size or size <= SMALL:
        np.testing.assert_allclose(direction, -np.linalg.solve(H, grad), rtol=1e-3, atol=1e-5)
    else:
        assert np.linalg.norm(H @ direction + grad) <= 1.001 * ROUGH * np.linalg.norm(grad)
        assert direction @ grad < 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tau", [0.2, 0.5, 2.0])
def test_curved_rows_are_the_second_derivative(seed, tau):
    problem, groups, w = random_problem(seed)
    A = augmented(problem.rows)
    p = (A @ (0.3 * w)).astype(np.float32)
    n = len(p)
    c, near = np.empty(n, np.float32), np.empty(n + len(groups.start), np.int32)
    evaluate(p, groups, np.float32(tau), c, near)
    Z = np.full((n_curved(groups, near), padded(A.shape[1])), np.nan, np.float32)
    alone = np.zeros(n, np.float32)
    Z = Z[: curved_rows(problem.rows, p, groups, np.float32(tau), near, alone, Z)]
    assert len(Z)
    assert not alone.any()
    assert not Z[:, A.shape[1] :].any()
    Z = Z[:, : A.shape[1]]
    # Piecewise quadratic: the slope's change over a step that crosses no kink is exact.
    step = 1e-6
    H = np.empty((A.shape[1], A.shape[1]))
    for k in range(A.shape[1]):
        beside = [smoothed(groups, p + s * step * A[:, k], tau)[2] for s in (1, -1)]
        H[k] = A.T @ (beside[0] - beside[1]) / (2 * step)
    np.testing.assert_allclose(Z.T.astype(float) @ Z, H, rtol=2e-4, atol=2e-4 * np.abs(H).max())
