"""BoostMetric: optimality, both losses, hand-worked cases, odd input."""

import warnings

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive_margins as naive
from conftest import load
from metricforest.rivals import BoostMetric
from metricforest.rivals import boostmetric as bm
from metricforest.supervision import constraints as cn


@parametrize_with_checks([BoostMetric(), BoostMetric(corrective=False, loss="logistic")])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def noisy_triplets(seed=0, n=40, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + 0.7 * rng.normal(size=n) > 0).astype(int)
    return X, y, cn.draw_triplets(X, y, 3)


def matrix(found):
    return (found.directions.T * found.weights) @ found.directions


# Triplets 0 and 1 ask for opposite things of the line: margins 3 m and -m.
LINE = np.array([[0.0], [1.0], [2.0], [0.0]])
CONFLICT = np.array([[0, 1, 2], [0, 1, 3]])


@pytest.mark.parametrize("corrective", [True, False])
def test_cases_worked_by_hand(corrective):
    found = bm.boost(LINE, CONFLICT, "exponential", 1e-7, corrective=corrective)
    assert matrix(found)[0, 0] == pytest.approx(np.log(3) / 4, rel=1e-3)  # e^(4 m) = 3
    found = bm.boost(LINE, CONFLICT, "logistic", 1e-7, corrective=corrective)
    root = brentq(lambda m: 1 / (1 + np.exp(-m)) - 3 / (1 + np.exp(3 * m)), 0, 5)
    assert matrix(found)[0, 0] == pytest.approx(root, rel=1e-3)


def test_a_triplet_that_always_holds_gets_the_margin_and_no_more():
    found = bm.boost(LINE, CONFLICT[:1], "exponential", 1e-7)
    assert found.converged
    assert matrix(found)[0, 0] == pytest.approx(bm.MARGIN / 3)


@pytest.mark.parametrize("corrective", [True, False])
@pytest.mark.parametrize("v", [1e-7, 0.05, 0.5, 1.0])
def test_logistic_loss_has_a_minimum_where_all_triplets_can_hold(v, corrective):
    found = bm.boost(LINE, CONFLICT[:1], "logistic", v, corrective=corrective)
    assert found.converged
    # log(1 + exp(-3 m)) + v m is least where 3 / (1 + exp(3 m)) = v.
    assert matrix(found)[0, 0] == pytest.approx(np.log(3 / v - 1) / 3, rel=1e-4)


@pytest.mark.parametrize("loss", bm.LOSSES)
@pytest.mark.parametrize(("scale", "offset"), [(1e6, 0), (1e-4, 0), (1.0, 1e6)])
def test_units_and_origin_do_not_matter(loss, scale, offset):
    X, _, triplets = noisy_triplets()
    want = bm.boost(X, triplets, loss, 1e-3)
    found = bm.boost(scale * X + offset, triplets, loss, 1e-3 * scale**2)
    assert found.converged
    assert found.objective == pytest.approx(want.objective, rel=1e-4)
    np.testing.assert_allclose(scale**2 * matrix(found), matrix(want), rtol=0.1, atol=0.05)


@pytest.mark.parametrize("loss", bm.LOSSES)
def test_slopes_are_minus_the_gradient_of_the_loss(loss):
    rho = np.random.default_rng(0).normal(size=6)
    for r in range(6):
        up, down = rho.copy(), rho.copy()
        up[r] += 1e-6
        down[r] -= 1e-6
        slope = (bm.lost(up, loss) - bm.lost(down, loss)) / 2e-6
        assert bm.slopes(rho, loss)[r] == pytest.approx(-slope, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "v", "apart"),
    [
        ("exponential", 1e-7, 0.0),
        ("exponential", 0.05, 0.0),
        ("logistic", 1e-7, 0.0),
        ("logistic", 0.05, 0.0),
        ("logistic", 0.05, 20.0),  # classes so far apart that all triplets can hold
    ],
)
def test_objective_is_within_one_per_cent_of_a_long_plain_run(loss, v, apart):
    X, y, triplets = noisy_triplets()
    X[:, 0] += apart * y
    found = bm.boost(X, triplets, loss, v)
    assert found.converged
    value = naive.boost_objective(matrix(found), X, triplets, loss, v)
    assert found.objective == pytest.approx(value, rel=1e-9)
    reference = naive.boost_reference(X, triplets, loss, v)
    start = naive.boost_objective(np.zeros((4, 4)), X, triplets, loss, v)
    assert reference < start
    # One per cent of the objective, and of what learning gained: the stricter of the two.
    assert value <= reference + 0.01 * min(abs(reference), start - reference)
    assert value - reference <= 2 * found.gap + 1e-6 * abs(reference)


@pytest.mark.parametrize("loss", bm.LOSSES)
def test_stage_wise_never_takes_weight_away_and_ends_above(loss):
    X, _, triplets = noisy_triplets()
    stage = bm.boost(X, triplets, loss, corrective=False)
    best = bm.boost(X, triplets, loss)
    assert stage.objective == pytest.approx(
        naive.boost_objective(matrix(stage), X, triplets, loss, 1e-7), rel=1e-9
    )
    assert len(stage.weights) == stage.n_iter
    assert (stage.weights > 0).all()
    assert best.objective <= stage.objective
    assert stage.objective < bm.lost(np.zeros(len(triplets)), loss)


def test_one_more_piece_gets_its_best_weight():
    rng = np.random.default_rng(0)
    rho, h = rng.normal(size=50), rng.normal(0.3, 1, size=50)
    for loss in bm.LOSSES:
        w = bm.best_weight(rho, h, loss, 0.01)
        values = [bm.lost(rho + x * h, loss) + 0.01 * x for x in (0.99 * w, w, 1.01 * w)]
        assert values[1] < min(values[0], values[2])


def toy(seed, n=300):
    """Two concentric rings in the first two of ten dimensions, the rest noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + y + 0.1 * rng.normal(size=n)
    ring = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return np.column_stack([ring, 0.1 * rng.normal(size=(n, 8))]), y


@pytest.mark.parametrize("corrective", [True, False])
def test_two_informative_of_ten_dimensions(corrective):
    X, y = toy(1)
    metric = BoostMetric(corrective=corrective, standardize=False).fit(X, y)
    M = metric.components_.T @ metric.components_
    values = np.linalg.eigvalsh(M / np.trace(M))[::-1]
    assert values[:2].sum() > 0.9
    assert values[1] > 0.25
    assert M[:2, :2].trace() > 0.85 * M.trace()


@pytest.mark.parametrize(("name", "most"), [("balance", 0.13), ("wine", 0.06), ("iris", 0.06)])
def test_published_errors_are_near(name, most):
    from sklearn.model_selection import train_test_split
    from sklearn.neighbors import KNeighborsClassifier

    X, y = load(name)
    errors = []
    for seed in range(4):
        train, test = train_test_split(np.arange(len(X)), test_size=0.3, random_state=seed)
        metric = BoostMetric().fit(X[train], y[train])
        vote = KNeighborsClassifier(3).fit(metric.transform(X[train]), y[train])
        errors.append(1 - vote.score(metric.transform(X[test]), y[test]))
    assert np.mean(errors) < most


def test_labels_and_triplets_add_up():
    X, y, triplets = noisy_triplets()
    by_labels = BoostMetric(standardize=False).fit(X, y)
    assert by_labels.n_triplets_ == len(np.unique(triplets, axis=0))
    by_triplets = BoostMetric(standardize=False).fit(X, triplets=triplets)
    np.testing.assert_allclose(by_labels.components_, by_triplets.components_)
    assert BoostMetric().fit(X, y, triplets=[[0, 1, 2]]).n_triplets_ >= by_labels.n_triplets_
    some = y.copy()
    some[::2] = -1
    assert BoostMetric().fit(X, some).n_triplets_ <= 9 * 20


def test_it_says_what_it_cannot_use():
    X, y, _ = noisy_triplets()
    with pytest.raises(
        TypeError, match="cannot learn from pairs: it learns from triplets or labels"
    ):
        BoostMetric().fit(X, y, pairs=[[0, 1]], pair_labels=[1])
    with pytest.raises(ValueError, match="learns from triplets or labels y: give one of them"):
        BoostMetric().fit(X)
    with pytest.raises(ValueError, match="needs at least one triplet, got 0"):
        BoostMetric().fit(X, triplets=np.empty((0, 3), int))
    with pytest.raises(ValueError, match="y has 1 class among 40 labelled rows"):
        BoostMetric().fit(X, np.ones(40, int))
    with pytest.raises(ValueError, match="loss must be one of exponential, logistic, got 'hinge'"):
        BoostMetric(loss="hinge").fit(X, y)
    with pytest.raises(TypeError, match="corrective must be True or False, got 'no'"):
        BoostMetric(corrective="no").fit(X, y)
    with pytest.raises(ValueError, match=r"reg_trace must be in \(0.0, inf\), got 0"):
        BoostMetric(reg_trace=0).fit(X, y)


def test_where_nothing_helps_all_distances_are_zero():
    for X in (np.ones((6, 2)), np.array([[0.0, 0], [2, 2], [1, 1], [0, 0], [1, 1], [2, 2]])):
        with pytest.warns(ConvergenceWarning, match="no direction makes the triplets hold"):
            metric = BoostMetric().fit(X, triplets=[[0, 1, 2]])
        assert not metric.pairwise_distances(X).any()


def test_odd_classes():
    X, y, _ = noisy_triplets()
    y = y.copy()
    y[0] = 7  # a class of one row
    metric = BoostMetric(n_neighbors=60).fit(X, y)  # more than there are
    assert metric.n_triplets_ == sum((n - 1) * (40 - n) * n for n in np.bincount(y) if n)


def test_not_converged_warns():
    X, y, _ = noisy_triplets()
    with pytest.warns(ConvergenceWarning, match="not converged with n_estimators=2"):
        BoostMetric(n_estimators=2).fit(X, y)
    assert BoostMetric(n_estimators=2, corrective=False).fit(X, y).n_iter_ == 2


def test_failed_fit_leaves_no_trace(monkeypatch):
    X, y, _ = noisy_triplets()
    metric = BoostMetric().fit(X, y)
    before = dict(vars(metric))

    def interrupted(*_args, **_keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(bm, "best_weight", interrupted)
    with pytest.raises(KeyboardInterrupt):
        metric.fit(X[:, :2], y)
    assert vars(metric) == before


def test_progress_on_standard_error(capsys):
    X, y = load("wine")
    BoostMetric(n_estimators=20, corrective=False, verbose=1).fit(X, y)
    said = capsys.readouterr().err
    assert "BoostMetric piece 10: objective" in said
    assert "BoostMetric ends after 20 pieces: objective" in said


def test_rows_too_near_for_float64():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), [0, 1, 2] * 10
    with pytest.raises(
        ValueError, match=r"rows differ by .*e-1\d\d at most.*the bound is about 1e-140"
    ):
        BoostMetric(standardize=False).fit(X * 1e-170, y)


def test_units_so_small_that_weights_cost_more_than_they_gain():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), [0, 1, 2] * 10
    with pytest.warns(ConvergenceWarning, match=r"reg_trace=1e-07 .* smaller reg_trace, may help"):
        BoostMetric(standardize=False).fit(X * 1e-5, y)
