"""Thresholds and probabilities: every cut tried one by one judges the chosen one."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from conftest import PlainEuclidean
from metricforest import HierarchyForest
from metricforest.inspection.calibration import calibrate, choose_threshold, probability

RATED = ["max_tpr", "max_tnr", "max_recall", "max_precision"]


def counts(distance, same, cut):
    """(true positives, false positives, false negatives, true negatives), pair by pair."""
    table = {(called, true): 0 for called in (True, False) for true in (True, False)}
    for d, s in zip(distance, same, strict=True):
        table[bool(d <= cut), bool(s)] += 1
    return table[True, True], table[True, False], table[False, True], table[False, False]


def quality(distance, same, cut, strategy, min_rate, beta):
    """What a strategy ranks cuts by, exactly; None for a cut it does not allow."""
    tp, fp, fn, tn = counts(distance, same, cut)
    tpr, tnr, precision = Fraction(tp, tp + fn), Fraction(tn, tn + fp), Fraction(tp, tp + fp)
    if strategy == "accuracy":
        return (Fraction(tp + tn, tp + fp + fn + tn),)
    if strategy == "f_beta":
        b = Fraction(beta) ** 2
        return ((1 + b) * tp / ((1 + b) * tp + b * fn + fp),)
    aim, bound = {
        "max_tpr": (tpr, tnr),
        "max_tnr": (tnr, tpr),
        "max_recall": (tpr, precision),
        "max_precision": (precision, tpr),
    }[strategy]
    return (aim, bound) if bound >= Fraction(min_rate) else None


pairs_of_both_kinds = st.lists(
    st.tuples(st.integers(0, 8).map(lambda v: v / 8), st.booleans()), min_size=2, max_size=25
).filter(lambda pairs: len({s for _, s in pairs}) == 2)


@settings(max_examples=150)
@given(
    pairs=pairs_of_both_kinds,
    strategy=st.sampled_from(["accuracy", "f_beta", *RATED]),
    min_rate=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    beta=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_no_cut_is_better(pairs, strategy, min_rate, beta):
    distance, same = (np.array(part) for part in zip(*pairs, strict=True))
    of_cut = {
        cut: quality(distance, same, cut, strategy, min_rate, beta) for cut in sorted(set(distance))
    }
    allowed = {cut: value for cut, value in of_cut.items() if value is not None}
    if not allowed:
        with pytest.raises(ValueError, match=r"no threshold has a .* of at least"):
            choose_threshold(distance, same, strategy, min_rate, beta)
        return
    threshold = choose_threshold(distance, same, strategy, min_rate, beta)
    best = max(allowed.values())
    assert quality(distance, same, threshold, strategy, min_rate, beta) == best
    lowest = min(cut for cut, value in allowed.items() if value == best)
    assert counts(distance, same, threshold) == counts(distance, same, lowest)


def test_a_threshold_lies_halfway_to_the_next_pair():
    distance = np.array([0.1, 0.2, 0.6, 0.8])
    same = np.array([True, True, False, False])
    assert choose_threshold(distance, same) == pytest.approx(0.4)
    assert choose_threshold(distance, same, "max_tnr", 0.5) == pytest.approx(0.4)
    assert choose_threshold(distance, same, "max_precision", 1.0) == pytest.approx(0.4)
    # No pair is beyond the last one.
    assert choose_threshold(distance, ~same, "max_recall", 0.3) == 0.8
    # No number is between neighbouring ones.
    near = np.array([0.5, np.nextafter(0.5, 1)])
    assert choose_threshold(near, np.array([True, False])) == 0.5


@pytest.mark.parametrize("right", range(11))
def test_a_rate_that_is_met_exactly_is_met(right):
    distance = np.arange(11.0)
    same = distance == 10 - right  # so many of the ten cannot-links are farther
    threshold = choose_threshold(distance, same, "max_tpr", right / 10)
    assert counts(distance, same, threshold) == (1, 10 - right, 0, right)


def test_what_cannot_be_reached_is_named():
    distance = np.array([0.1, 0.2, 0.3, 0.4])
    same = np.array([False, True, True, False])
    with pytest.raises(
        ValueError,
        match=r"precision of at least 0.9 on these 4 pairs: the best is 0.6667, with a recall of 1",
    ):
        choose_threshold(distance, same, "max_recall", 0.9)
    with pytest.raises(ValueError, match=r"true negative rate of at least 0.9 .* best is 0.5"):
        choose_threshold(distance, same, "max_tpr", 0.9)


@pytest.mark.parametrize(("counts", "same"), [("3 and 0", True), ("0 and 3", False)])
def test_pairs_of_one_kind_are_refused(counts, same):
    with pytest.raises(ValueError, match=f"pairs of both kinds, same and different, got {counts}"):
        choose_threshold(np.array([0.1, 0.2, 0.3]), np.full(3, same))


# ------------------------------------------------------------------------------------ probabilities


def pooled(distance, same):
    """Isotonic regression by its formula: at each distance the largest, over the ends behind it, of
    the smallest mean, over the starts before it."""
    levels = sorted(set(distance))
    fit = {}
    for at in levels:
        fit[at] = max(
            min(
                np.mean([s for d, s in zip(distance, same, strict=True) if low <= d <= high])
                for low in levels
                if low <= at
            )
            for high in levels
            if high >= at
        )
    return fit


def test_isotonic_against_its_formula():
    rng = np.random.default_rng(0)
    distance = rng.integers(0, 12, 40) / 12
    same = rng.random(40) > distance
    fit = calibrate(distance, same, "isotonic")
    assert (np.diff(fit["probability"]) <= 0).all()
    for at, expected in pooled(distance, same).items():
        assert probability(fit, np.array([at]))[0] == pytest.approx(expected)
    beyond = probability(fit, np.array([-1.0, 99.0]))
    np.testing.assert_array_equal(beyond, fit["probability"][[0, -1]])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_logistic_is_at_its_optimum(scale):
    rng = np.random.default_rng(1)
    distance = scale * (100 + rng.random(60))
    same = rng.random(60) > (distance / scale - 100)
    fit = calibrate(distance, same, "logistic")
    n_same = same.sum()
    target = np.where(same, (n_same + 1) / (n_same + 2), 1 / (60 - n_same + 2))
    p = 1 / (1 + np.exp(-(fit["slope"] * distance + fit["intercept"])))
    np.testing.assert_allclose(probability(fit, distance), p, rtol=1e-9)
    assert fit["slope"] < 0
    assert abs((p - target).sum()) < 1e-3
    assert abs(((p - target) * (distance / scale - 100)).sum()) < 1e-3


def test_logistic_of_parted_pairs_is_finite_and_not_certain():
    distance = np.array([0.1, 0.11, 0.12, 0.8, 0.9])
    fit = calibrate(distance, distance < 0.5, "logistic")
    near, far = probability(fit, np.array([0.1, 0.9]))
    assert 0.7 < near < 0.9
    assert 0.15 < far < 0.35


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_a_metric_the_wrong_way_round_knows_nothing(method):
    distance = np.linspace(0, 1, 20)
    with pytest.warns(UserWarning, match="pairs labelled same are not nearer"):
        fit = calibrate(distance, distance > 0.5, method)
    np.testing.assert_allclose(probability(fit, np.array([0.0, 0.3, 1.0])), 0.5)


def test_equal_distances_say_nothing():
    with pytest.warns(UserWarning, match="every pair gets the same probability"):
        fit = calibrate(np.full(6, 0.3), np.arange(6) < 3, "logistic")
    assert probability(fit, np.array([0.3]))[0] == pytest.approx(0.5)


# ---------------------------------------------------------------------------------------- on metrics


@pytest.fixture(params=["forest", "linear"])
def metric(request, small):
    X, _, pairs, labels = small
    kind = HierarchyForest(12, random_state=0) if request.param == "forest" else PlainEuclidean()
    return kind.fit(X, pairs=pairs, pair_labels=labels)


def test_a_threshold_serves_every_question(small, metric):
    X, _, pairs, labels = small
    assert metric.calibrate_threshold(pairs, labels) is metric
    A, B = X[pairs[:, 0]], X[pairs[:, 1]]
    distance = metric.pair_distance(A, B)
    called = metric.predict_pairs(A, B)
    assert metric.threshold_ == choose_threshold(distance, labels == 1)
    np.testing.assert_array_equal(called, np.where(distance <= metric.threshold_, 1, -1))
    assert (called == labels).mean() > 0.7
    chance = metric.predict_pairs_proba(A, B)
    assert ((chance > 0) & (chance < 1)).all()
    order = np.argsort(distance)
    assert (np.diff(chance[order]) <= 0).all()
    assert abs(chance.mean() - (labels == 1).mean()) < 0.05
    index = metric.radius_neighbors(A[:5], metric.threshold_, return_distance=False)
    found = [b in rows for b, rows in zip(pairs[:5, 1], index, strict=True)]
    np.testing.assert_array_equal(found, called[:5] == 1)


def test_pairs_as_row_numbers_or_as_rows(small, metric):
    X, _, pairs, labels = small
    options = {"strategy": "f_beta", "beta": 0.5, "method": "isotonic"}
    metric.calibrate_threshold(pairs, labels, **options)
    threshold, calibration = metric.threshold_, metric.calibration_
    turned = len(X) - 1 - pairs
    for labelled, rows in (
        ((pairs.tolist(), labels == 1), {"X": X}),
        ((turned, (labels == 1).astype(int)), {"X": X[::-1]}),
        ((np.stack([X[pairs[:, 0]], X[pairs[:, 1]]], axis=1), labels), {}),
    ):
        metric.threshold_ = -1.0
        metric.calibrate_threshold(*labelled, **rows, **options)
        assert metric.threshold_ == threshold
        for name in ("distance", "probability"):
            np.testing.assert_array_equal(metric.calibration_[name], calibration[name])


def test_what_is_kept_is_plain(small, metric):
    X, _, pairs, labels = small
    metric.calibrate_threshold(pairs, labels)
    assert type(metric.threshold_) is float
    assert {type(value) for value in metric.calibration_.values()} == {str, float}
    metric.calibrate_threshold(pairs, labels, method="isotonic")
    assert {type(value) for value in metric.calibration_.values()} == {str, np.ndarray}
    again = pickle.loads(pickle.dumps(metric))
    np.testing.assert_array_equal(
        again.predict_pairs_proba(X[:9], X[9:18]), metric.predict_pairs_proba(X[:9], X[9:18])
    )


def test_a_new_fit_forgets(small, metric):
    X, _, pairs, labels = small
    metric.calibrate_threshold(pairs, labels)
    assert not hasattr(clone(metric), "threshold_")
    metric.fit(X, pairs=pairs, pair_labels=labels)
    assert not hasattr(metric, "threshold_")
    assert not hasattr(metric, "calibration_")


def test_without_a_threshold(small, metric):
    X, _, pairs, labels = small
    with pytest.raises(NotFittedError, match="has no threshold yet: call calibrate_threshold"):
        metric.predict_pairs(X, X)
    with pytest.raises(NotFittedError, match=r"has no probabilities yet: .* with a method"):
        metric.predict_pairs_proba(X, X)
    metric.calibrate_threshold(pairs, labels).calibrate_threshold(pairs, labels, method=None)
    assert metric.predict_pairs(X, X).tolist() == [1] * len(X)
    with pytest.raises(NotFittedError, match="has no probabilities yet"):
        metric.predict_pairs_proba(X, X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(metric).calibrate_threshold(pairs, labels)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"strategy": "best"}, ValueError, "strategy must be one of accuracy, .* got 'best'"),
        ({"method": "platt"}, ValueError, "method must be .* got 'platt'"),
        ({"strategy": "max_tpr"}, TypeError, "needs min_rate, the least true negative rate"),
        ({"strategy": "max_recall", "min_rate": 99}, ValueError, r"in \[0, 1\], got 99"),
        ({"strategy": "max_recall", "min_rate": np.nan}, ValueError, r"in \[0, 1\], got nan"),
        ({"min_rate": 0.9}, ValueError, "strategy='accuracy' takes no min_rate, got 0.9"),
        ({"strategy": "f_beta", "beta": 0}, ValueError, r"beta must be in \(0, inf\), got 0"),
        ({"strategy": "f_beta", "beta": "1"}, TypeError, "beta must be a number, got '1'"),
        ({"X": np.zeros((60, 4))}, ValueError, "4 features"),
        ({"X": np.zeros((3, 5))}, ValueError, "out of range: X has 3 rows"),
        ({"pairs": np.zeros((4, 2, 3))}, ValueError, r"shape \(n_pairs, 2, 5\), got \(4, 2, 3\)"),
        ({"pairs": np.full((4, 2, 5), np.nan)}, ValueError, "pairs contains NaN"),
        ({"pairs": np.zeros((4, 2, 5)), "X": np.zeros((9, 5))}, ValueError, "X was given, but"),
        ({"pairs": np.zeros((4, 2, 5)), "pair_labels": [1, -1]}, ValueError, "one entry per pair"),
        ({"pairs": [[0, 1], [1, 2]], "pair_labels": [1, 1]}, ValueError, "different, got 2 and 0"),
        ({"pairs": [], "pair_labels": []}, ValueError, "different, got 0 and 0"),
    ],
)
def test_refused(small, metric, options, error, match):
    _, _, pairs, labels = small
    metric.calibrate_threshold(pairs, labels)
    before = metric.threshold_, metric.calibration_
    with pytest.raises(error, match=match):
        metric.calibrate_threshold(**{"pairs": pairs, "pair_labels": labels, **options})
    assert (metric.threshold_, metric.calibration_) == before
