"""Boosted trees on pair features against scikit-learn's own answers."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from conftest import three_clusters
from metricforest.rivals import BoostedTreesDistance, boosted
from metricforest.rivals.pair_trees import as_float32, features_of


@pytest.fixture(scope="module")
def fitted():
    X, _, pairs, labels = three_clusters(0, 60, 300)
    return (
        X,
        pairs,
        BoostedTreesDistance(12, random_state=0).fit(X, pairs=pairs, pair_labels=labels),
    )


def test_distances_are_scikit_learn_s_probabilities():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(80, 3)).astype(
        float
    )  # middles are often exactly where a tree cuts
    y = (X.sum(axis=1) > 7).astype(int)
    kept = []

    class Kept(HistGradientBoostingClassifier):
        def fit(self, *data):
            kept.append(self)
            return super().fit(*data)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(boosted, "HistGradientBoostingClassifier", Kept)
        metric = BoostedTreesDistance(15, n_constraints=400, standardize=False, random_state=0)
        metric.fit(X, y)
    i, j = np.divmod(np.arange(80 * 80), 80)
    features = features_of(metric._prepare(X), np.stack([i, j], axis=1))
    want = kept[0].predict_proba(features)[:, 1].reshape(80, 80)
    assert np.ptp(want) > 0.5
    np.testing.assert_allclose(metric.pairwise_distances(X), want, rtol=1e-9)
    np.testing.assert_allclose(metric.pair_distance(X[:40], X[40:]), want[:40, 40:].diagonal())


def test_fewer_pairs_may_be_in_a_leaf_where_there_are_few(fitted):
    X, _, metric = fitted
    trees = metric.trees_
    assert trees.n_samples[trees.left == -1].min() in range(5, 20)
    X, y, *_ = three_clusters(0, 120)
    many = BoostedTreesDistance(3, n_constraints=2_000, random_state=0).fit(X, y)
    assert many.trees_.n_samples[many.trees_.left == -1].min() >= 20


def test_symmetric_between_0_and_1_and_the_same_for_any_number_of_threads(fitted):
    X, pairs, metric = fitted
    D = metric.pairwise_distances(X)
    np.testing.assert_array_equal(D, D.T)
    assert 0 <= D.min() < 0.3 < 0.7 < D.max() <= 1
    threads = BoostedTreesDistance(12, random_state=0, n_jobs=2)
    labels = np.where(metric.pair_distance(X[pairs[:, 0]], X[pairs[:, 1]]) < 0.5, 1, -1)
    one = BoostedTreesDistance(12, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    threads.fit(X, pairs=pairs, pair_labels=labels)
    np.testing.assert_array_equal(threads.pairwise_distances(X), one.pairwise_distances(X))


def test_a_file_with_other_trees_is_refused(fitted):
    X, _, metric = fitted
    state = metric._state()
    for wrong, said in (
        ({"baseline_": float("nan")}, "baseline_ is nan"),
        ({"trees_": None}, "trees_ is NoneType"),
        ({"trees_": state["trees_"]._replace(n_features=4)}, "feature|4 features, not 10"),
        ({"_rows": as_float32(X[:, :2])}, "_rows is"),
    ):
        with pytest.raises(ValueError, match=said):
            BoostedTreesDistance()._restore({**state, **wrong})


def test_bad_settings_are_named():
    X, y, *_ = three_clusters()
    for name, value, said in (
        ("n_estimators", 0, "n_estimators must be at least 1, got 0"),
        ("learning_rate", 0.0, "learning_rate"),
        ("max_leaf_nodes", 1, "max_leaf_nodes must be at least 2, got 1"),
        ("min_samples_leaf", "all", "min_samples_leaf"),
    ):
        with pytest.raises(ValueError, match=said):
            BoostedTreesDistance(**{name: value}).fit(X, y)
    with pytest.raises(ValueError, match="needs both kinds: got 2 must-links and 0"):
        BoostedTreesDistance().fit(X, pairs=[[0, 3], [1, 4]], pair_labels=[1, 1])
