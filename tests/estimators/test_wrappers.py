"""Neighbour graph and classifier: beside scikit-learn's own, and against plain loops."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import DBSCAN, SpectralClustering
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import v_measure_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, sort_graph_by_row_values
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import metricforest
from conftest import PlainEuclidean, load, three_clusters
from metricforest import (
    HierarchyForest,
    MetricKNeighborsClassifier,
    MetricNeighborsTransformer,
    MetricSpectralClustering,
)
from metricforest.estimators.neighbors import put_self_first

USERS = [MetricNeighborsTransformer, MetricKNeighborsClassifier, MetricSpectralClustering]


def forest(n_trees=6, random_state=0):
    return HierarchyForest(n_trees, random_state=random_state)


@parametrize_with_checks(
    [
        MetricNeighborsTransformer(forest(3), n_neighbors=3),
        MetricNeighborsTransformer(forest(3), n_neighbors=3, mode="connectivity"),
        MetricNeighborsTransformer(PlainEuclidean(), n_neighbors=3),
        MetricKNeighborsClassifier(forest(3)),
        MetricKNeighborsClassifier(PlainEuclidean(), weights="distance", unlabelled=None),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


# -------------------------------------------------------------------------------------- which metric


def fit_user(user, X, y, **labelled):
    if isinstance(user, MetricKNeighborsClassifier):
        return user.fit(X, y, **labelled)
    return user.fit(X, **labelled)


@pytest.mark.parametrize("User", USERS)
def test_a_metric_is_learned_and_the_given_one_left_alone(small, User):
    X, y, pairs, labels = small
    given = forest()
    user = fit_user(User(metric=given, n_neighbors=3), X, y, pairs=pairs, pair_labels=labels)
    assert not hasattr(given, "forest_")
    expected = forest().fit(
        X, y if User is MetricKNeighborsClassifier else None, pairs=pairs, pair_labels=labels
    )
    np.testing.assert_array_equal(user.metric_.forest_.weights, expected.forest_.weights)
    assert clone(user).get_params().keys() == user.get_params().keys()
    assert not hasattr(clone(user), "metric_")
    again = pickle.loads(pickle.dumps(user))
    np.testing.assert_array_equal(
        again.metric_.kneighbors(X, 3)[1], user.metric_.kneighbors(X, 3)[1]
    )


@pytest.mark.parametrize("User", USERS)
def test_the_default_metric_is_a_hierarchy_forest(small, User, monkeypatch):
    X, y, _, _ = small
    monkeypatch.setattr(
        "metricforest.estimators.neighbors.HierarchyForest", lambda: HierarchyForest(2)
    )
    user = fit_user(User(n_neighbors=3, random_state=4), X, y)
    assert type(user.metric_) is HierarchyForest
    assert user.metric_.random_state == 4


@pytest.mark.parametrize("User", USERS)
def test_a_seed_is_handed_to_a_metric_without_one(small, User):
    X, y, _, _ = small
    for own, expected in ((None, 7), (3, 3)):
        user = User(metric=forest(2, own), n_neighbors=3, random_state=7)
        assert fit_user(user, X, y).metric_.random_state == expected
    user = User(metric=PlainEuclidean(), n_neighbors=3, random_state=7)
    assert isinstance(fit_user(user, X, y).metric_, PlainEuclidean)


@pytest.mark.parametrize("User", USERS)
@pytest.mark.parametrize("kind", [forest, PlainEuclidean])
def test_a_frozen_metric_stays_and_searches_the_rows_of_fit(small, User, kind):
    X, y, pairs, labels = small
    metric = kind().fit(X, y)
    frozen = FrozenEstimator(metric)
    part = np.r_[40:60, 10:20]
    user = fit_user(clone(User(metric=frozen, n_neighbors=3)), X[part], y[part])
    distance, index = user.metric_.kneighbors(X, 4)
    D = metric.pairwise_distances(X, X[part])
    order = np.argsort(D, axis=1, kind="stable")[:, :4]
    np.testing.assert_allclose(distance, np.take_along_axis(D, order, axis=1), atol=1e-7)
    if kind is forest:
        np.testing.assert_array_equal(index, order)
    assert len(metric.kneighbors(X, 60)[1]) == 60
    if User is MetricSpectralClustering:  # keeps them without learning from them
        fit_user(user, X, y, pairs=pairs, pair_labels=labels)
        assert user.metric_.kneighbors(X, 60)[1].shape == (60, 60)
    else:
        with pytest.raises(ValueError, match="pairs and pair_labels were given, but a frozen"):
            fit_user(user, X, y, pairs=pairs, pair_labels=labels)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        fit_user(User(metric=FrozenEstimator(kind()), n_neighbors=3), X, y)
    with pytest.raises(ValueError, match="4 features"):
        fit_user(user, X[:, :4], y)


@pytest.mark.parametrize("User", USERS)
@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"metric": "euclidean"}, TypeError, "a metric of metricforest or None, got 'euclidean'"),
        ({"metric": FrozenEstimator(StandardScaler())}, TypeError, "got StandardScaler"),
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be at least 1, got 0"),
        ({"n_neighbors": 2.0}, TypeError, "n_neighbors must be an int, got 2.0"),
        ({"n_neighbors": True}, TypeError, "n_neighbors must be an int, got True"),
        ({"search_params": 3}, TypeError, "search_params must be a dict or None, got 3"),
    ],
)
def test_refused_by_all(small, User, params, error, match):
    X, y, _, _ = small
    with pytest.raises(error, match=match):
        fit_user(User(**{"metric": forest(2), **params}), X, y)


class Asked(PlainEuclidean):
    """Remembers how it was searched."""

    def _nearest(self, queries, k, *, n_candidates=None):
        self.asked = n_candidates
        return super()._nearest(queries, k)


@pytest.mark.parametrize("User", USERS)
def test_a_refused_refit_leaves_the_estimator_as_it_was(small, User):
    X, y, _, _ = small
    user = User(metric=forest(2), n_neighbors=3)
    fit_user(user, X, y)
    before = dict(vars(user))
    with pytest.raises(ValueError, match="out of range"):
        user.fit(X[:, :3], y, pairs=[[0, 10_000]], pair_labels=[1])
    assert vars(user) == before


def test_a_metric_over_other_rows_survives_its_file(small, tmp_path):
    X, classes, _, _ = small
    y = np.where(np.arange(len(X)) % 4 == 0, -1, classes)
    metric = MetricKNeighborsClassifier(forest(), 4).fit(X, y).metric_
    metric.save(tmp_path / "voters.mf")
    again = metricforest.load(tmp_path / "voters.mf")
    np.testing.assert_array_equal(again._rows, metric._rows)
    for got, want in zip(again.kneighbors(X, 4), metric.kneighbors(X, 4), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("User", USERS)
def test_search_options_reach_the_metric(small, User):
    X, y, _, _ = small
    user = User(metric=Asked(), n_neighbors=3, search_params={"n_candidates": 17})
    fit_user(user, X, y)
    if hasattr(user, "transform"):
        user.transform(X)
    elif hasattr(user, "predict"):
        user.predict(X)
    assert user.metric_.asked == 17


# --------------------------------------------------------------------------------------------- graph


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_graph_of_the_plain_metric_is_that_of_scikit_learn(small, mode):
    X = small[0]
    ours = MetricNeighborsTransformer(PlainEuclidean(), n_neighbors=4, mode=mode)
    theirs = KNeighborsTransformer(n_neighbors=4, mode=mode)
    new = three_clusters(seed=5)[0]
    for got, want in (
        (ours.fit_transform(X), theirs.fit_transform(X)),
        (ours.transform(X), theirs.transform(X)),
        (ours.transform(new), theirs.transform(new)),
    ):
        assert got.format == "csr"
        np.testing.assert_array_equal(got.indptr, want.indptr)
        np.testing.assert_array_equal(got.indices, want.indices)
        np.testing.assert_allclose(got.data, want.data, atol=1e-12)
    names = [f"metricneighborstransformer{i}" for i in range(len(X))]
    assert ours.get_feature_names_out().tolist() == names


def test_graph_of_a_forest_against_plain_loops(small):
    X, y, _, _ = small
    exact = {"n_candidates": None}
    transformer = MetricNeighborsTransformer(forest(), n_neighbors=6, search_params=exact)
    graph = transformer.fit_transform(X, y)
    D = forest().fit(X, y).pairwise_distances(X)
    for i in range(len(X)):
        row = slice(graph.indptr[i], graph.indptr[i + 1])
        others = sorted((D[i, j], j) for j in range(len(X)) if j != i)
        assert graph.indices[row].tolist() == [i] + [j for _, j in others[:6]]
        assert graph.data[row].tolist() == [0.0] + [d for d, _ in others[:6]]
    again = transformer.transform(X)
    np.testing.assert_array_equal(again.indices, graph.indices)
    np.testing.assert_array_equal(again.data, graph.data)
    assert sort_graph_by_row_values(again, copy=False, warn_when_not_sorted=True) is again


def test_every_row_is_its_own_first_neighbour_however_many_are_at_distance_0():
    X = np.repeat(np.arange(4.0), 10)[:, None]
    X[:, 0] += np.tile(np.arange(10) * 1e-9, 4)  # apart, but in one leaf each
    X = np.column_stack([X, np.zeros(40)])
    transformer = MetricNeighborsTransformer(
        HierarchyForest(2, min_node_size=10, random_state=0), n_neighbors=3
    )
    graph = transformer.fit_transform(X)
    assert (graph.data == 0).all()
    np.testing.assert_array_equal(graph.indices[::4], np.arange(40))
    prepared = transformer.metric_._rows
    first = [np.flatnonzero((prepared == row).all(axis=1))[0] for row in prepared]
    found = transformer.transform(X)
    np.testing.assert_array_equal(found.indices[::4], first)
    assert all(len(set(row)) == 4 for row in found.indices.reshape(40, 4))


def test_self_is_moved_to_the_front():
    rows = np.array([[0.0], [1.0], [2.0], [3.0]])
    queries = np.array([[2.0], [9.0], [0.0], [3.0]])
    index = np.array([[0, 1, 2], [1, 2, 3], [0, 3, 1], [0, 1, 2]])
    distance = np.array([[0.0, 0.0, 1e-9], [1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [0.0, 0.0, 0.0]])
    put_self_first(queries, rows, distance, index)
    assert index.tolist() == [[2, 0, 1], [1, 2, 3], [0, 3, 1], [3, 0, 1]]
    assert distance.tolist() == [[0, 0, 0], [1, 2, 3], [0, 0.2, 0.3], [0, 0, 0]]


def test_one_neighbour_and_all_of_them(small):
    X = small[0]
    graph = MetricNeighborsTransformer(forest(), 1, "connectivity").fit_transform(X)
    np.testing.assert_array_equal(graph.toarray(), np.eye(len(X)))
    every = MetricNeighborsTransformer(forest(), len(X) - 1)
    assert every.fit_transform(X).nnz == len(X) ** 2
    with pytest.raises(ValueError, match=r"at most 59, .* got 60"):
        MetricNeighborsTransformer(forest(), len(X)).fit_transform(X)
    with pytest.raises(ValueError, match="mode must be 'connectivity' or 'distance', got 'both'"):
        MetricNeighborsTransformer(forest(), mode="both").fit(X)


def test_graph_serves_a_classifier():
    X, y = load("wine")
    pipeline = make_pipeline(
        MetricNeighborsTransformer(forest(10), n_neighbors=7),
        KNeighborsClassifier(5, metric="precomputed"),
    )
    grid = {"kneighborsclassifier__n_neighbors": [3, 7]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    ours = MetricKNeighborsClassifier(forest(10), n_neighbors=7).fit(X[::2], y[::2])
    pipeline.set_params(kneighborsclassifier__n_neighbors=7).fit(X[::2], y[::2])
    np.testing.assert_allclose(pipeline.predict_proba(X[1::2]), ours.predict_proba(X[1::2]))


def test_graph_serves_clusterings(small):
    X, classes, pairs, labels = small
    graph = MetricNeighborsTransformer(forest(30), n_neighbors=25).fit_transform(
        X, pairs=pairs, pair_labels=labels
    )
    spectral = SpectralClustering(
        3, affinity="precomputed_nearest_neighbors", n_neighbors=25, random_state=0
    )
    assert v_measure_score(classes, spectral.fit_predict(graph)) > 0.7
    density = DBSCAN(eps=0.1, metric="precomputed").fit(graph)
    assert len(set(density.labels_)) > 1


# ---------------------------------------------------------------------------------------- classifier


@pytest.mark.parametrize("weights", ["uniform", "distance", lambda d: 1 / (1 + d)])
def test_votes_in_the_plain_metric_are_those_of_scikit_learn(small, weights):
    X, classes, _, _ = small
    names = np.array(["red", "green", "blue"])[classes]
    ours = MetricKNeighborsClassifier(PlainEuclidean(), 4, weights).fit(X, names)
    theirs = KNeighborsClassifier(4, weights=weights).fit(X, names)
    new = np.concatenate([three_clusters(seed=5)[0], X])
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-9)
    np.testing.assert_array_equal(ours.predict(new), theirs.predict(new))
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_votes_in_a_forest_against_plain_loops(small, weights):
    X, classes, _, _ = small
    y = np.where(np.arange(len(X)) % 4 == 0, -1, classes)
    exact = {"n_candidates": None}
    classifier = MetricKNeighborsClassifier(forest(), 4, weights, search_params=exact).fit(X, y)
    metric = forest().fit(X, y)
    new = np.concatenate([three_clusters(seed=5)[0], X[:20]])
    D = metric.pairwise_distances(new, X)
    assert classifier.classes_.tolist() == [0, 1, 2]
    got = classifier.predict_proba(new)
    for i in range(len(new)):
        near = sorted((D[i, j], j) for j in range(len(X)) if y[j] != -1)[:4]
        at_zero = any(d == 0 for d, _ in near)
        votes = [0.0, 0.0, 0.0]
        for d, j in near:
            if weights == "uniform":
                votes[y[j]] += 1
            elif at_zero:
                votes[y[j]] += d == 0
            else:
                votes[y[j]] += 1 / d
        np.testing.assert_allclose(got[i], np.array(votes) / sum(votes), rtol=1e-12)
    np.testing.assert_array_equal(classifier.predict(new), got.argmax(axis=1))


def test_the_nearest_outvotes_even_at_a_denormal_distance():
    X = np.array([[0.0], [1e-320], [1.0], [2.0]])
    classifier = MetricKNeighborsClassifier(PlainEuclidean(), 3, "distance")
    classifier.fit(X[1:], [0, 1, 1])
    assert classifier.predict_proba(X[:1]).round(6).tolist() == [[1, 0]]


def test_nobody_votes():
    X = np.arange(6.0)[:, None]
    classifier = MetricKNeighborsClassifier(PlainEuclidean(), 2, np.zeros_like)
    assert classifier.fit(X, [0, 0, 1, 1, 2, 2]).predict_proba(X[:1]).tolist() == [[1 / 3] * 3]


def test_unlabelled_rows_shape_the_metric():
    X, classes, _, _ = three_clusters(n=90)
    y = np.where(np.arange(90) < 12, classes, -1)
    with_all = MetricKNeighborsClassifier(forest(), 3).fit(X, y)
    assert with_all.metric_.forest_.n_points == 90
    assert with_all.metric_._n_indexed() == 12
    assert set(with_all.predict(X)) <= {0, 1, 2}


@pytest.mark.parametrize(
    ("y", "unlabelled", "classes", "n_voters"),
    [
        ([-1, 1] * 10, -1, [-1, 1], 20),
        ([-1, -1, 0, 1] * 5, -1, [0, 1], 10),
        ([-1.0, -1.0, 0.5e1, 1] * 5, -1, [1, 5], 10),
        ([-1, 0, 1, 2] * 5, None, [-1, 0, 1, 2], 20),
        (["?", "a", "b", "b"] * 5, "?", ["a", "b"], 15),
        ([-1, "a", "b", "b"] * 5, -1, ["a", "b"], 15),
        (["-1", "a", "b", "b"] * 5, -1, ["a", "b"], 15),  # what NumPy makes of it
        (["-1", "a", "b", "b"] * 5, None, ["-1", "a", "b"], 20),
        (["-1", "1"] * 10, -1, ["-1", "1"], 20),
        ([None, "a", "b", np.nan] * 5, -1, ["a", "b"], 10),
        ([None, 7, 3, 3] * 5, -1, [3, 7], 15),
        ([None, "a"] * 10, -1, ["a"], 10),
        (["", "a", "b", "b"] * 5, -1, ["a", "b"], 15),
        (["?", None, "a", "b"] * 5, "?", ["a", "b"], 10),
        ([9, 2, 0, 9] * 5, 9, [0, 2], 10),
    ],
)
def test_what_is_a_class_and_what_is_not(y, unlabelled, classes, n_voters):
    X = np.random.default_rng(0).normal(size=(20, 2))
    classifier = MetricKNeighborsClassifier(forest(2), 2, unlabelled=unlabelled).fit(X, y)
    assert classifier.classes_.tolist() == classes
    assert classifier.metric_._n_indexed() == n_voters
    assert set(classifier.predict(X).tolist()) <= set(classes)


def test_gaps_in_what_has_none():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="unlabelled=None says that all rows have a label"):
        MetricKNeighborsClassifier(forest(2), 2, unlabelled=None).fit(X, [None, "a", "b", "b"] * 5)


def test_score_counts_the_labelled_rows(small):
    X, classes, _, _ = small
    y = np.where(np.arange(len(X)) % 2, classes, -1)
    classifier = MetricKNeighborsClassifier(forest(), 3).fit(X, y)
    right = classifier.predict(X) == classes
    assert classifier.score(X, y) == right[1::2].mean()
    assert classifier.score(X, classes) == right.mean()
    weight = np.arange(len(X))
    assert classifier.score(X, y, weight) == pytest.approx(
        np.average(right[1::2], weights=weight[1::2])
    )
    with pytest.raises(ValueError, match="all 60 rows are unlabelled"):
        classifier.score(X, np.full(len(X), -1))
    signs = np.where(classes > 0, 1, -1)
    classifier.fit(X, signs)
    assert classifier.score(X, signs) == (classifier.predict(X) == signs).mean()


def test_labelled_pairs_beside_labels(small):
    X, classes, pairs, labels = small
    y = np.where(np.arange(len(X)) < 9, classes, -1)
    classifier = MetricKNeighborsClassifier(forest(), 2)
    classifier.fit(X, y, pairs=pairs, pair_labels=labels, triplets=[[0, 3, 1]])
    told = classifier.metric_.constraints_
    assert len(told.triplets()) == 1
    assert {tuple(p) for p in pairs.tolist()} <= {tuple(p) for p in told.pairs()[0].tolist()}


def test_among_the_tools_of_scikit_learn():
    X, y = load("iris")
    frame = pd.DataFrame(X, columns=list("abcd"))
    names = pd.Series(np.array(["setosa", "versicolor", "virginica"])[y])
    pipeline = make_pipeline(StandardScaler(), MetricKNeighborsClassifier(forest()))
    assert cross_val_score(pipeline, frame, names, cv=3).mean() > 0.9
    search = GridSearchCV(
        MetricKNeighborsClassifier(forest()), {"metric__min_node_size": [3, 100]}, cv=3
    ).fit(frame, names)
    assert search.best_params_ == {"metric__min_node_size": 3}
    assert search.best_estimator_.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        search.best_estimator_.predict(frame[list("dcba")])
    metric = forest().fit(frame, y)
    frozen = MetricKNeighborsClassifier(FrozenEstimator(metric)).fit(frame[::2], names[::2])
    assert frozen.score(frame[1::2], names[1::2]) > 0.9


@pytest.mark.parametrize(
    ("params", "y", "match"),
    [
        ({"weights": "near"}, np.arange(60) % 2, "weights must be .* got 'near'"),
        ({}, np.where(np.arange(60) < 4, np.arange(60) % 2, -1), "n_neighbors=5 is more .* 4 of"),
        ({}, np.arange(59) % 2, "inconsistent numbers of samples"),
        ({}, np.linspace(0, 1, 60), "Unknown label type"),
        ({}, None, "requires y to be passed"),
    ],
)
def test_refused_by_the_classifier(small, params, y, match):
    with pytest.raises(ValueError, match=match):
        MetricKNeighborsClassifier(forest(2), **params).fit(small[0], y)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (lambda d: d[:, :1], r"weights returned shape \(60, 1\) for distances of shape \(60, 5\)"),
        (lambda d: -d, "negative, infinite or NaN"),
        (lambda d: d + np.nan, "negative, infinite or NaN"),
    ],
)
def test_weights_that_are_none(small, weights, match):
    classifier = MetricKNeighborsClassifier(PlainEuclidean(), weights=weights)
    classifier.fit(small[0], small[1])
    with pytest.raises(ValueError, match=match):
        classifier.predict(small[0] + 0.01)
