"""The random forest distance against walking its trees pair by pair."""

import pickle

import numpy as np
import pytest

import naive_pairs as naive
from conftest import three_clusters
from metricforest.rivals import RandomForestDistance
from metricforest.rivals.pair_trees import pair_features


@pytest.fixture(scope="module", params=["random-forest", "extra-trees"])
def fitted(request):
    X, _, pairs, labels = three_clusters(0, 60, 300)
    metric = RandomForestDistance(12, request.param, random_state=0)
    return X, metric.fit(X, pairs=pairs, pair_labels=labels)


@pytest.mark.parametrize("block", [1, 10, 4096])
def test_distances_are_those_of_walking_every_tree(fitted, monkeypatch, block):
    X, metric = fitted
    monkeypatch.setattr("metricforest.rivals.pair_trees.BLOCK", block)
    Q = np.random.default_rng(1).normal(size=(7, 5))
    rows, queries = metric._prepare(X), metric._prepare(Q)
    trees = [tree.tree_ for tree in metric.forest_.estimators_]
    want = [[naive.forest_distance(trees, q, row) for row in rows[:11]] for q in queries]
    np.testing.assert_allclose(metric.pairwise_distances(Q, X[:11]), want, rtol=1e-12)
    np.testing.assert_allclose(metric.pair_distance(Q, X[:7]), np.diag(want), rtol=1e-12)


def test_distances_are_the_forest_s_own_vote(fitted):
    X, metric = fitted
    rows = metric._prepare(X)
    features = pair_features(rows[:-1], rows[1:])
    forest = metric.forest_
    vote = (
        forest.predict_proba(features)[:, 1]
        if hasattr(forest, "predict_proba")
        else forest.predict(features)
    )
    np.testing.assert_allclose(metric.pair_distance(X[:-1], X[1:]), vote, rtol=1e-12)


def test_pairs_on_a_threshold_go_where_scikit_learn_sends_them():
    """Whole numbers: the middle of two rows is often exactly where a tree cuts."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(80, 3)).astype(float)
    y = (X.sum(axis=1) > 7).astype(int)
    metric = RandomForestDistance(9, n_constraints=400, standardize=False, random_state=0).fit(X, y)
    rows = metric._prepare(X)
    i, j = np.divmod(np.arange(80 * 80), 80)
    features = pair_features(rows[i], rows[j])
    tree = metric.forest_.estimators_[0].tree_
    inner = tree.children_left >= 0
    assert np.isin(tree.threshold[inner], features).any()
    vote = metric.forest_.predict_proba(features)[:, 1].reshape(80, 80)
    np.testing.assert_allclose(metric.pairwise_distances(X), vote, rtol=1e-12)


def test_a_threshold_in_single_precision_cuts_as_it_does(fitted):
    _, metric = fitted
    votes = metric._flat()
    threshold = np.concatenate([tree.tree_.threshold for tree in metric.forest_.estimators_])
    assert (votes.cut <= threshold).all()
    assert (np.nextafter(votes.cut, np.float32(np.inf)) > threshold).all()
    assert (votes.cut != threshold).any()


def test_wide_rows_go_in_blocks_of_few(fitted, monkeypatch):
    X, metric = fitted
    whole, pairs = metric.pairwise_distances(X), metric.pair_distance(X[:-1], X[1:])
    monkeypatch.setattr("metricforest.rivals.pair_trees.BLOCK_NUMBERS", 3 * X.shape[1])
    np.testing.assert_array_equal(metric.pairwise_distances(X), whole)
    np.testing.assert_array_equal(metric.pair_distance(X[:-1], X[1:]), pairs)


def test_a_pickle_does_not_hold_the_trees_twice(fitted):
    X, metric = fitted
    assert "_votes" not in metric.__getstate__()
    again = pickle.loads(pickle.dumps(metric))
    np.testing.assert_array_equal(again.pairwise_distances(X), metric.pairwise_distances(X))
    assert not hasattr(pickle.loads(pickle.dumps(RandomForestDistance())), "_votes")


def test_symmetric_and_between_0_and_1(fitted):
    X, metric = fitted
    D = metric.pairwise_distances(X)
    np.testing.assert_array_equal(D, D.T)
    assert D.min() >= 0
    assert D.max() <= 1
    assert np.ptp(D) > 0.5


def test_number_of_threads_does_not_matter(fitted, monkeypatch):
    X, metric = fitted
    monkeypatch.setattr("metricforest.rivals.pair_trees.BLOCK", 50)
    D = metric.pairwise_distances(X)
    y = np.arange(60) % 3
    one, two = (
        RandomForestDistance(8, n_constraints=200, random_state=0, n_jobs=n).fit(X, y)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.pairwise_distances(X), two.pairwise_distances(X))
    metric.set_params(n_jobs=2)
    np.testing.assert_array_equal(metric.pairwise_distances(X), D)
    metric.set_params(n_jobs=None)


def test_by_hand():
    """One tree, one column: must-links are 1 apart and cannot-links 3, so it cuts at 2."""
    X = np.array([[0.0], [1], [4], [5], [8], [9]])
    must, cannot = [[0, 1], [2, 3], [4, 5]] * 1, [[1, 2], [3, 4]]
    metric = RandomForestDistance(
        1, "extra-trees", max_features=None, max_samples=None, standardize=False, random_state=0
    ).fit(X, pairs=must + cannot, pair_labels=[1, 1, 1, -1, -1])
    np.testing.assert_array_equal(metric.pair_distance([[2.0], [2.0]], [[2.5], [7.0]]), [0.0, 1.0])
    A, B = np.array([[1.0, -2]], np.float32), np.array([[4.0, 0]], np.float32)
    np.testing.assert_array_equal(pair_features(A, B), [[3, 2, 2.5, -1]])


def test_max_samples_bounds_the_pairs_of_a_tree(monkeypatch):
    X, _, pairs, labels = three_clusters(0, 60, 300)
    given = {"pairs": pairs, "pair_labels": labels}

    def most(trees, max_samples):
        metric = RandomForestDistance(3, trees, max_samples=max_samples, random_state=0)
        forest = metric.fit(X, **given).forest_
        return max(tree.tree_.weighted_n_node_samples[0] for tree in forest.estimators_)

    assert most("random-forest", "auto") == most("extra-trees", "auto") == len(pairs)
    assert most("random-forest", 40) == most("extra-trees", 40) == 40
    assert most("random-forest", 10**6) == len(pairs)
    monkeypatch.setattr("metricforest.rivals.rfd.AUTO_SAMPLES", 25)
    assert most("random-forest", "auto") == most("extra-trees", "auto") == 25
    assert most("random-forest", None) == most("extra-trees", None) == len(pairs)


def test_one_kind_of_pair_is_not_enough():
    X, *_ = three_clusters()
    with pytest.raises(ValueError, match="needs both kinds: got 2 must-links and 0 cannot-links"):
        RandomForestDistance(3).fit(X, pairs=[[0, 1], [1, 2]], pair_labels=[1, 1])
    with pytest.raises(ValueError, match="needs both kinds: got 0 must-links and 1 cannot-links"):
        RandomForestDistance(3).fit(X, pairs=[[0, 1]], pair_labels=[-1])


def test_parameters_are_checked():
    X, y, *_ = three_clusters()
    for wrong, message in (
        ({"n_estimators": 0}, "n_estimators must be at least 1, got 0"),
        ({"trees": "oak"}, "trees must be one of random-forest, extra-trees, got 'oak'"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be at least 1, got 0"),
        ({"max_samples": 0}, "max_samples must be at least 1, got 0"),
        ({"max_features": "x"}, "max_features must be a number, 'sqrt', 'log2' or None, got 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            RandomForestDistance(**wrong).fit(X, y)


def test_far_outliers_are_cut():
    X, y, *_ = three_clusters()
    metric = RandomForestDistance(3, n_constraints=60, random_state=0).fit(X, y)
    assert np.isfinite(metric.pair_distance(X[:1] * 1e300, X[:1])).all()
