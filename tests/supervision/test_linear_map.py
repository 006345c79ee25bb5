"""The linear map of vectors: loss, optimum, whitening and choice against slow, obvious oracles."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh
from sklearn.linear_model import LogisticRegression

from metricforest.supervision import linear_map
from metricforest.supervision.linear_map import Freedom, Pairs


def some_pairs(seed, m=60, k=4):
    """Rows that differ do so in their first two numbers most, all differ a lot in the last."""
    rng = np.random.default_rng(seed)
    differ = rng.random(m) < 0.6
    spread = np.where(differ[:, None], [2.0, 1.5, 1.0, 3.0][:k], [0.7, 0.8, 1.0, 3.0][:k])
    return Pairs(rng.normal(size=(m, k)) * spread, differ)


def naive_loss(A, b, pairs, t, penalty):
    n_differ = sum(pairs.differ)
    n_same = len(pairs.differ) - n_differ
    total = 0.0
    for d, differ in zip(pairs.difference, pairs.differ, strict=True):
        mapped = [sum(d[i] * A[i][j] for i in range(len(d))) for j in range(len(d))]
        q = sum(v * v for v in mapped)
        margin = q - b if differ else b - q
        total += math.log1p(math.exp(-margin)) * (0.5 / n_differ if differ else 0.5 / n_same)
    for i in range(len(A)):
        for j in range(len(A)):
            total += penalty * (A[i][j] - (t if i == j else 0.0)) ** 2
    return total


def test_the_loss_and_its_derivatives():
    pairs = some_pairs(0)
    A = np.eye(4) + 0.1 * np.random.default_rng(1).normal(size=(4, 4))
    value, by_A, by_b = linear_map.penalised_loss(A, 0.8, pairs, 1.2, 0.01)
    assert value == pytest.approx(naive_loss(A, 0.8, pairs, 1.2, 0.01), rel=1e-12)
    step = 1e-6
    for i in range(4):
        for j in range(4):
            E = np.zeros((4, 4))
            E[i, j] = step
            ends = [naive_loss(A + s * E, 0.8, pairs, 1.2, 0.01) for s in (1, -1)]
            assert by_A[i, j] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)
    ends = [naive_loss(A, 0.8 + s * step, pairs, 1.2, 0.01) for s in (1, -1)]
    assert by_b == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_the_map_found_is_a_minimum(monkeypatch):
    monkeypatch.setattr(linear_map, "ITERATIONS", 2_000)
    pairs = some_pairs(2)
    scaled = Pairs(pairs.difference * linear_map.scale_of(pairs.difference), pairs.differ)
    A, t = linear_map.nearest_good_map(pairs, 0.01)
    square = np.square(scaled.difference @ A).sum(axis=1)

    def best(B):  # over b
        return min(
            linear_map.penalised_loss(B, b, scaled, t, 0.01)[0]
            for b in np.linspace(0, square.max(), 400)
        )

    found = best(A)
    rng = np.random.default_rng(0)
    for size in (0.3, 0.03):
        for _ in range(20):
            assert best(A + size * rng.normal(size=A.shape)) >= found - 1e-5
    assert best(t * np.eye(4)) > found


def test_a_large_penalty_leaves_a_multiple_of_the_identity():
    pairs = some_pairs(3)
    A, t = linear_map.nearest_good_map(pairs, 1e6)
    np.testing.assert_allclose(A, t * np.eye(4), atol=1e-4)
    learned = linear_map.learn_map(pairs, Freedom(False, 1e6))
    plain = linear_map.learn_map(pairs, Freedom(False, None))
    np.testing.assert_allclose(learned, plain, atol=1e-4)


def test_the_best_multiple_is_a_logistic_regression():
    pairs = some_pairs(4, 200, 2)
    square = np.square(pairs.difference).sum(axis=1)
    s, b = linear_map.best_multiple(square, pairs.differ)
    model = LogisticRegression(C=1e10, tol=1e-10)
    weight = len(square) * linear_map.weights_of(pairs.differ)
    model.fit(square[:, None], pairs.differ, sample_weight=weight)
    assert s == pytest.approx(model.coef_[0, 0], rel=1e-3)
    assert b == pytest.approx(-model.intercept_[0], rel=1e-3)


def test_whitening_solves_the_generalised_eigenproblem():
    pairs = some_pairs(5)
    W = linear_map.whitening(pairs)
    same = pairs.difference[~pairs.differ]
    S = sum(np.outer(d, d) for d in same) / len(same)
    S += linear_map.RIDGE * np.trace(S) / 4 * np.eye(4)
    np.testing.assert_allclose(W.T @ S @ W, np.eye(4), atol=1e-10)
    apart = pairs.difference[pairs.differ]
    B = sum(np.outer(d, d) for d in apart)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(W.T @ B @ W), eigh(B, S, eigvals_only=True), rtol=1e-9
    )


def test_vectors_that_say_nothing_are_left_alone():
    differ = np.array([True, False, True, False])
    nothing = Pairs(np.zeros((4, 3)), differ)
    for freedom in linear_map.FREEDOMS:
        assert np.isfinite(linear_map.learn_map(nothing, freedom)).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_turning_the_vectors_changes_no_distance(seed, whiten):
    pairs = some_pairs(seed, 40, 3)
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    turned = Pairs(pairs.difference @ Q, pairs.differ)
    freedom = Freedom(whiten, 0.01)
    square = [
        np.square(p.difference @ linear_map.learn_map(p, freedom)).sum(axis=1)
        for p in (pairs, turned)
    ]
    np.testing.assert_allclose(*square, rtol=0.02, atol=0.02)
    assert square[0].mean() == pytest.approx(1.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(0.4, 1.0), min_size=3, max_size=3), min_size=2, max_size=8))
def test_what_is_chosen_is_not_clearly_behind_and_nothing_before_it_is_as_good(rows):
    scores = np.array(rows)
    j = linear_map.choose(scores)
    best = scores.mean(axis=0).argmax()
    for i in range(j + 1):
        behind = scores[:, best] - scores[:, i]
        error = np.std(behind, ddof=1) / np.sqrt(len(rows))
        assert (behind.mean() <= error) == (i == j)
    assert linear_map.choose(scores[::-1]) == j


def test_a_clear_gain_is_taken_and_noise_is_not():
    clear = np.array([[0.7, 0.8], [0.71, 0.82], [0.69, 0.8]])
    noise = np.array([[0.7, 0.8], [0.8, 0.7], [0.7, 0.71]])
    assert linear_map.choose(clear) == 1
    assert linear_map.choose(noise) == 0


def test_kinds_of_vectors_that_say_nothing_are_not_chosen():
    rng = np.random.default_rng(0)
    groups = []
    for seed in range(3):
        good = some_pairs(seed, 300, 3)
        noise = 20.0 * rng.normal(size=(300, 5))
        groups.append(Pairs(np.hstack([noise, good.difference]), good.differ))
    folds = [[(np.arange(150), np.arange(150, 300)), (np.arange(150, 300), np.arange(150))]] * 3
    found = linear_map.choose_map(groups, folds, [[5, 3]] * 3)
    assert found.kinds == (1,)
    assert found.gain > 0.1
    assert 0.6 < found.auc < 1
    np.testing.assert_array_equal(linear_map.columns_of([5, 3], found.kinds), [5, 6, 7])
