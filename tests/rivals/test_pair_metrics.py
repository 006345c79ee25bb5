"""What the metrics that learn from pairs share: scikit-learn's rules and bad input."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import three_clusters
from metricforest import cross_val_pair_score, pair_auc
from metricforest.rivals import (
    DCA,
    ITML,
    BoostedTreesDistance,
    Euclidean,
    RandomForestDistance,
)

LEARNERS = [
    DCA(random_state=0),
    ITML(random_state=0),
    RandomForestDistance(10, n_constraints=200, random_state=0),
    BoostedTreesDistance(10, n_constraints=200, random_state=0),
]
by_name = pytest.mark.parametrize("metric", LEARNERS, ids=lambda m: type(m).__name__)


@parametrize_with_checks(
    [
        Euclidean(),
        *LEARNERS,
        ITML(prior="covariance", solver="projections", tol=0.1, random_state=0),
        RandomForestDistance(3, trees="extra-trees", n_constraints=50, random_state=0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def fresh(metric):
    return type(metric)(**metric.get_params())


@by_name
def test_learning_from_pairs_beats_the_plain_distance(metric):
    X, _, pairs, labels = three_clusters(0, 120, 400)
    X[:, 3:] *= 4  # the noise is louder than the signal
    for given in (Euclidean(standardize=False), fresh(metric).set_params(standardize=False)):
        given.fit(X, pairs=pairs, pair_labels=labels)
    Q, _, asked, answers = three_clusters(1, 120, 400)
    Q[:, 3:] *= 4
    plain = Euclidean(standardize=False).fit(X)
    assert pair_auc(given, Q, asked, answers) > pair_auc(plain, Q, asked, answers) + 0.1


@by_name
def test_every_public_method_answers(metric):
    X, _, pairs, labels = three_clusters()
    m = fresh(metric).fit(X, pairs=pairs, pair_labels=labels)
    D = m.pairwise_distances(X, X[:9])
    np.testing.assert_allclose(m.pair_distance(X[:9], X[:9]), np.diag(D), atol=1e-6)
    np.testing.assert_allclose(m.get_metric()(X[3], X[4]), D[3, 4], atol=1e-6)
    distance, index = m.kneighbors(X[:7], 4)
    by_hand = m.pairwise_distances(X[:7], X)
    np.testing.assert_allclose(distance, np.sort(by_hand, axis=1)[:, :4], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(by_hand, index, axis=1), distance, atol=1e-6)
    assert (m.kneighbors(n_neighbors=1, return_distance=False)[:, 0] != np.arange(len(X))).all()
    radius = float(np.median(D))
    assert [len(r) for r in m.radius_neighbors(X, radius, return_distance=False)] == list(
        (m.pairwise_distances(X) <= radius).sum(axis=1)
    )
    scores = cross_val_pair_score(fresh(metric), X, pairs, labels, cv=2)
    assert (scores > 0.5).all()


@by_name
def test_labels_are_pairs_drawn_from_them(metric):
    X, y, *_ = three_clusters()
    few = fresh(metric).set_params(n_constraints=60)
    D = few.fit(X, y).pairwise_distances(X)
    np.testing.assert_array_equal(fresh(few).fit(X, y).pairwise_distances(X), D)
    assert (few.set_params(random_state=1).fit(X, y).pairwise_distances(X) != D).any()
    # Rows without a label are in no pair: where they lie does not matter to what is learned.
    some = np.where(np.arange(len(y)) < 20, y, -1)
    few.set_params(standardize=False, bounds=(1.0, 9.0)) if isinstance(few, ITML) else (
        few.set_params(standardize=False)
    )
    elsewhere = np.where(some[:, None] == -1, X[::-1], X)
    a, b = (fresh(few).fit(rows, some).pairwise_distances(X[:20]) for rows in (X, elsewhere))
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@by_name
def test_what_it_cannot_learn_from_is_refused(metric):
    X, y, pairs, labels = three_clusters()
    with pytest.raises(
        TypeError, match=r"cannot learn from triplets: it learns from pairs .* or y"
    ):
        fresh(metric).fit(X, pairs=pairs, pair_labels=labels, triplets=[[0, 1, 2]])
    with pytest.raises(ValueError, match=r"requires y to be passed.*give pairs with pair_labels"):
        fresh(metric).fit(X)
    with pytest.raises(ValueError, match="without pair_labels"):
        fresh(metric).fit(X, pairs=pairs)
    with pytest.raises(ValueError, match="given without pairs"):
        fresh(metric).fit(X, pair_labels=labels)
    with pytest.raises(ValueError, match=r"there are none.*n_samples=60"):
        fresh(metric).fit(X, pairs=[], pair_labels=[])
    with pytest.raises(ValueError, match="there are none"):
        fresh(metric).fit(X, np.full(60, -1))
    with pytest.raises(ValueError, match=r"pairs\[0\] = \[0, 60\] is out of range"):
        fresh(metric).fit(X, pairs=[[0, 60]], pair_labels=[1])
    with pytest.raises(ValueError, match="n_constraints must be at least 1, got 0"):
        fresh(metric).set_params(n_constraints=0).fit(X, y)


def test_euclidean_takes_every_labelled_pair_and_uses_none():
    X, y, pairs, labels = three_clusters()
    want = Euclidean().fit(X).pairwise_distances(X)
    given = {"y": y, "pairs": pairs, "pair_labels": labels, "triplets": [[0, 3, 1]]}
    np.testing.assert_array_equal(Euclidean().fit(X, **given).pairwise_distances(X), want)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(want[3, 5], np.sqrt(((Z[3] - Z[5]) ** 2).sum()))
    with pytest.raises(ValueError, match=r"triplets\[0\] = \[0, 3, 60\] is out of range"):
        Euclidean().fit(X, triplets=[[0, 3, 60]])
    with pytest.raises(ValueError, match=r"pairs\[0\] = \[0, 60\] is out of range"):
        Euclidean().fit(X, pairs=[[0, 60]], pair_labels=[1])
    with pytest.raises(ValueError, match="y has 59 labels"):
        Euclidean().fit(X, y[1:])


@by_name
@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_a_failed_fit_leaves_no_trace(metric, failure, monkeypatch):
    X, _, pairs, labels = three_clusters()
    m = fresh(metric)

    def fails(self, rows):
        raise failure("stop")

    with monkeypatch.context() as patched:
        patched.setattr(type(m), "_index", fails)
        with pytest.raises(failure, match="stop"):
            m.fit(X, pairs=pairs, pair_labels=labels)
    assert vars(m) == metric.get_params()
    m.fit(X, pairs=pairs, pair_labels=labels)
    before = dict(vars(m))
    with pytest.raises(ValueError, match="out of range"):
        m.fit(X[:30, :2], pairs=pairs, pair_labels=labels)
    assert vars(m).keys() == before.keys()
    assert all(vars(m)[name] is value for name, value in before.items())


@by_name
def test_rows_that_give_nothing_to_learn(metric):
    """Equal rows, constant features, fewer rows than features, a class of one row."""
    rng = np.random.default_rng(0)
    y = np.arange(12) % 3
    for X in (
        np.ones((12, 3)),
        np.repeat(rng.normal(size=(3, 4)), 4, axis=0),
        np.column_stack([rng.normal(size=12), np.full(12, 7.0)]),
        rng.normal(size=(12, 30)),
    ):
        D = fresh(metric).fit(X, y).pairwise_distances(X)
        assert np.isfinite(D).all()
        assert (D >= 0).all()
    X = rng.normal(size=(12, 3))
    y[:] = 0
    y[5], y[7] = 1, 2
    assert np.isfinite(fresh(metric).fit(X, y).pairwise_distances(X)).all()


@by_name
def test_contradictory_pairs_are_said_and_borne(metric):
    X, _, pairs, labels = three_clusters()
    pairs, labels = np.vstack([pairs, pairs[:3]]), np.append(labels, -labels[:3])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m = fresh(metric).fit(X, pairs=pairs, pair_labels=labels)
    said = " ".join(str(w.message) for w in caught)
    assert "3 pairs are labelled both must-link and cannot-link" in said
    assert ("cannot-links join rows that must-links join" in said) == isinstance(metric, DCA)
    assert all(w.filename == __file__ for w in caught)
    assert np.isfinite(m.pairwise_distances(X)).all()
