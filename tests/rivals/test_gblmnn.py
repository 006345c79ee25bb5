"""GB-LMNN: what its trees do to the loss, roll-back, held-out rows, odd input."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive_margins as naive
from conftest import load
from metricforest.rivals import GBLMNN, LMNN, gblmnn


@parametrize_with_checks([GBLMNN(n_estimators=15)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def rings(n=150, seed=0):
    """Three rings around the origin and a feature of noise: no linear map parts them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + y + 0.25 * rng.normal(size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=n)]), y


def test_without_held_out_rows_it_is_lmnn_and_all_trees():
    X, y = rings()
    metric = GBLMNN(n_estimators=12, validation_fraction=0, random_state=0).fit(X, y)
    np.testing.assert_allclose(metric.components_, LMNN().fit(X, y).components_)
    assert len(metric.trees_) == len(metric.tree_weights_) == 12
    assert not len(metric.validation_errors_)
    rows = (X - metric.mean_) / metric.scale_
    Z = rows @ metric.components_.T
    for tree, weight in zip(metric.trees_, metric.tree_weights_, strict=True):
        Z += weight * tree.predict(rows.astype(np.float32))
    np.testing.assert_allclose(metric.transform(X), Z)


def test_every_tree_lowers_the_loss_it_was_grown_for():
    X, y = rings(90)
    metric = GBLMNN(n_estimators=10, validation_fraction=0, random_state=0).fit(X, y)
    rows = (X - metric.mean_) / metric.scale_
    Z = rows @ metric.components_.T
    targets = naive.nearest_of_class(rows, y, 3, same=True)
    impostors = naive.nearest_of_class(Z, y, gblmnn.N_CANDIDATES, same=False)
    losses = [naive.margin_loss(Z, y, targets, 0.5, 0.5, impostors=impostors)]
    for tree, weight in zip(metric.trees_, metric.tree_weights_, strict=True):
        Z = Z + weight * tree.predict(rows.astype(np.float32))
        losses.append(naive.margin_loss(Z, y, targets, 0.5, 0.5, impostors=impostors))
    assert (np.diff(losses) <= 1e-9 * losses[0]).all()
    assert losses[-1] < 0.95 * losses[0]


def test_a_step_that_is_too_long_is_taken_back():
    X, y = rings()
    bold = GBLMNN(10, learning_rate=100.0, validation_fraction=0, random_state=0).fit(X, y)
    assert bold.tree_weights_.max() < 1.0
    assert np.isfinite(bold.transform(X)).all()
    shy = GBLMNN(10, learning_rate=1e-4, validation_fraction=0, random_state=0).fit(X, y)
    np.testing.assert_allclose(shy.tree_weights_, 1e-4 * 1.01 ** np.arange(10))


def test_held_out_rows_choose_the_number_of_trees():
    X, y = rings(300, seed=2)
    metric = GBLMNN(60, n_iter_no_change=20, random_state=0).fit(X, y)
    errors = metric.validation_errors_
    assert len(metric.trees_) == 10 * errors.argmin() > 0
    assert len(errors) == min(6, errors.argmin() + 2) + 1  # twenty trees of patience
    test, labels = rings(600, seed=3)
    lmnn = LMNN().fit(X, y)
    bent, linear = (
        KNeighborsClassifier(5).fit(m.transform(X), y).score(m.transform(test), labels)
        for m in (metric, lmnn)
    )
    assert bent >= linear


def test_where_no_tree_helps_it_is_lmnn():
    # Two tight clusters: nothing is left to lower on held-out rows.
    X = np.random.default_rng(0).normal(size=(60, 2)) * 0.01
    y = np.arange(60) % 2
    X[:, 0] += y
    metric = GBLMNN(20, random_state=0).fit(X, y)
    assert metric.trees_ == []
    np.testing.assert_allclose(metric.transform(X), LMNN().fit(X, y).transform(X))


def test_same_answer_for_any_n_jobs_and_again():
    X, y = rings()
    a, b = (GBLMNN(10, n_jobs=n, random_state=3).fit(X, y).transform(X) for n in (1, 2))
    np.testing.assert_array_equal(a, b)


def test_hold_out_leaves_two_of_every_class():
    codes = np.array([0] * 10 + [1] * 3 + [2] * 2 + [3] + [-1] * 4)
    held = gblmnn.hold_out(codes, 0.5, np.random.RandomState(0))
    assert np.bincount(codes[held], minlength=4).tolist() == [5, 1, 0, 0]
    assert not held[codes == -1].any()
    few = gblmnn.hold_out(codes, 0.2, np.random.RandomState(0))
    assert np.bincount(codes[few], minlength=4).tolist() == [2, 1, 0, 0]
    assert not gblmnn.hold_out(codes, 0.0, np.random.RandomState(0)).any()
    X = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.warns(UserWarning, match="no class of y has the 3 rows") as caught:
        assert len(GBLMNN(3, random_state=0).fit(X, np.arange(8) // 2).trees_) == 3
    assert caught[0].filename == __file__


def test_odd_input():
    X, y = rings(60)
    with pytest.raises(TypeError, match="GBLMNN cannot learn from triplets"):
        GBLMNN().fit(X, y, triplets=[[0, 1, 2]])
    with pytest.raises(ValueError, match="y has 1 class among 60 labelled rows"):
        GBLMNN().fit(X, np.zeros(60, int))
    with pytest.raises(ValueError, match="max_features must be at least 1, got 0"):
        GBLMNN(max_features=0).fit(X, y)
    with pytest.raises(ValueError, match=r"learning_rate must be in \(0.0, inf\), got 0"):
        GBLMNN(learning_rate=0).fit(X, y)
    with pytest.raises(ValueError, match=r"validation_fraction must be in \[0.0, 1.0\), got 1\.5"):
        GBLMNN(validation_fraction=1.5).fit(X, y)
    y[0] = 7
    y[50:] = -1
    metric = GBLMNN(10, n_neighbors=40, random_state=0).fit(X, y)
    assert metric.kneighbors(n_neighbors=59)[0].shape == (60, 59)
    same = GBLMNN(3, n_neighbors=1, random_state=0).fit(np.ones((12, 2)), np.arange(12) % 2)
    assert not same.pairwise_distances(np.ones((2, 2))).any()


def test_failed_fit_leaves_no_trace(monkeypatch):
    X, y = rings(60)
    metric = GBLMNN(5, random_state=0).fit(X, y)
    before = dict(vars(metric))

    def interrupted(*_args, **_keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(gblmnn, "margin_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        metric.fit(X[:, :2], y)
    assert vars(metric) == before


def test_progress_on_standard_error(capsys):
    GBLMNN(10, random_state=0, verbose=1).fit(*rings(60))
    assert "GBLMNN 0 trees: held-out error" in capsys.readouterr().err


def test_no_worse_than_lmnn_on_segmentation():
    """The held-out rows mostly keep no tree, so that a row or two decide: within a standard error."""
    X, y = load("segmentation")
    gained = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        bent, linear = (
            KNeighborsClassifier(5).fit(Z[train], y[train]).score(Z[test], y[test])
            for Z in (
                metric.fit(X[train], y[train]).transform(X)
                for metric in (GBLMNN(20, random_state=0), LMNN())
            )
        )
        gained.append(bent - linear)
    assert np.mean(gained) >= -np.std(gained, ddof=1) / np.sqrt(5)
