"""The margin loss and the search for impostors, against plain loops."""

import numpy as np
import pytest

import naive_margins as naive
from metricforest.rivals import impostors as im
from metricforest.supervision import constraints as cn


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 40)
    y[:2] = 3  # a class with two rows has fewer targets than asked for
    y[2] = 4  # and one with one has none
    Z = rng.normal(size=(40, 5)) * 0.7
    return Z, y, cn.class_neighbors(Z, y, 3, same=True)


def as_lists(targets):
    return [[int(j) for j in row if j >= 0] for row in targets]


def test_impostors_are_all_rows_within_the_margin(problem):
    Z, y, targets = problem
    near = im.find_impostors(Z, y, targets)
    assert near.complete
    for i, own in enumerate(as_lists(targets)):
        assert near.other[near.start[i] : near.middle[i]].tolist() == own
        found = set(near.other[near.middle[i] : near.start[i + 1]].tolist())
        reach = max((naive.sq_dist(Z[i], Z[j]) for j in own), default=-np.inf) + 1 + im.SLACK
        must = {l for l in range(40) if y[l] != y[i] and naive.sq_dist(Z[i], Z[l]) < reach - 1e-3}
        may = {l for l in range(40) if y[l] != y[i] and naive.sq_dist(Z[i], Z[l]) < reach + 1e-3}
        assert must <= found <= may
    for l in range(40):
        for p in range(near.back[l], near.back[l + 1]):
            assert near.other[near.place[p]] == l
            assert near.start[near.row[p]] <= near.place[p] < near.start[near.row[p] + 1]


@pytest.mark.parametrize(("block", "n_jobs"), [(1, None), (90, 2)])
def test_search_does_not_depend_on_its_blocks(problem, monkeypatch, block, n_jobs):
    whole = im.find_impostors(*problem)
    monkeypatch.setattr(im, "BLOCK", block)
    for got, want in zip(im.find_impostors(*problem, n_jobs), whole, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_bounded_list_keeps_the_nearest_and_says_so(monkeypatch):
    monkeypatch.setattr(im, "MOST", 0)
    rows = np.random.default_rng(1).normal(size=(120, 2)) * 0.05
    codes = np.arange(120) % 2
    targets = cn.class_neighbors(rows, codes, 1, same=True)
    near = im.find_impostors(rows, codes, targets)
    assert not near.complete
    nearest = naive.nearest_of_class(rows, codes, 50, same=False)
    for i in range(120):
        assert set(near.other[near.middle[i] : near.start[i + 1]].tolist()) == set(nearest[i])


def test_far_away_rows_are_found_in_double_precision():
    # Two rows a millionth of their norm apart: single precision could not tell.
    Z = np.array([[1e5, 0.0], [1e5 + 1, 0.0], [1e5, 1.2], [-2e5, 0.0], [-2e5, 1.0], [-1e5, 7.0]])
    y = np.array([0, 0, 1, 1, 2, 2])
    near = im.find_impostors(Z, y, np.array([[1], [0], [-1], [-1], [-1], [-1]], np.int32))
    assert near.other[near.middle[0] : near.start[1]].tolist() == [2]


def test_loss_is_that_of_plain_loops(problem):
    Z, y, targets = problem
    near = im.find_impostors(Z, y, targets)
    want = naive.margin_loss(Z, y, as_lists(targets), 0.3, 0.7)
    loss = im.margin_loss(Z, near, 0.3, 0.7)
    assert loss.value == pytest.approx(want, rel=1e-12)
    assert loss.plain == pytest.approx(want, rel=1e-12)
    rounded = im.margin_loss(Z, near, 0.3, 0.7, tau=0.1)
    assert rounded.plain == pytest.approx(want, rel=1e-12)
    want = naive.margin_loss(Z, y, as_lists(targets), 0.3, 0.7, tau=0.1)
    assert rounded.value == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("tau", [0.0, 0.05, 0.5])
def test_gradient_is_that_of_finite_differences(problem, tau):
    Z, y, targets = problem
    near = im.find_impostors(Z, y, targets)
    gradient = im.margin_loss(Z, near, 0.3, 0.7, tau).gradient
    for i, c in [(0, 0), (2, 1), (7, 4), (13, 2), (39, 3)]:
        moved = np.array([Z, Z])
        moved[0, i, c] += 1e-6
        moved[1, i, c] -= 1e-6
        up, down = (im.margin_loss(m, near, 0.3, 0.7, tau).value for m in moved)
        assert gradient[i, c] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-5)


def test_weights_are_derivatives_by_squared_distance(problem):
    # Scaling all distances by 1 + e changes the loss by e * sum weight * d.
    Z, y, targets = problem
    near = im.find_impostors(Z, y, targets)
    loss = im.margin_loss(Z, near, 0.3, 0.7, 0.2)
    row = np.repeat(np.arange(40), np.diff(near.start))
    d = ((Z[row] - Z[near.other]) ** 2).sum(axis=1)
    up, down = (im.margin_loss(Z * s, near, 0.3, 0.7, 0.2).value for s in (1 + 1e-6, 1 - 1e-6))
    assert loss.weight @ d == pytest.approx((up - down) / 4e-6, rel=1e-5)
    assert (loss.weight[near.place[near.back[2] : near.back[3]]] <= 0).all()  # 2 is no one's target


def test_sums_do_not_depend_on_n_jobs(problem, monkeypatch):
    Z, y, targets = problem
    monkeypatch.setattr(im, "CHUNK", 7)
    near = im.find_impostors(Z, y, targets)
    one, two = (im.margin_loss(Z, near, 0.5, 0.5, 0.1, n_jobs=n) for n in (1, 2))
    assert one.value == two.value
    np.testing.assert_array_equal(one.gradient, two.gradient)
