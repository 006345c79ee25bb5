"""Vectors under learned maps: what they are, what they learn from, their files, odd input."""

import pickle
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import conftest
from conftest import check_stored, three_clusters
from metricforest import HierarchyForest, VectorForest, pair_auc
from metricforest import vector_forest as module
from metricforest.cli import main

FEW = "(?s).*too few to learn a map"


def small(**more):
    return VectorForest(12, n_components=6, min_node_size=5, random_state=0, **more)


def clouds(seed, n=200, n_pairs=900):
    """Four Gaussians near each other in eight dimensions, half of them noise."""
    X, _, pairs, labels = conftest.clouds(seed, n, n_pairs, k=4, d=8, gap=2.5)
    return X, pairs, labels


@parametrize_with_checks([VectorForest(2, n_components=3, n_constraints=60)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", FEW)
        check(estimator)


@pytest.fixture(scope="module")
def fitted():
    X, pairs, labels = clouds(0)
    return X, pairs, labels, small().fit(X, pairs=pairs, pair_labels=labels)


def test_the_distance_is_that_of_mapped_vectors(fitted):
    X, _, _, metric = fitted
    rows = (X - metric.mean_) / metric.scale_
    square = 0.0
    for group in metric._groups:
        Z = metric._placed(group, rows) @ group.map
        square = square + ((Z[:20] - Z[30:50]) ** 2).sum(axis=1)
    np.testing.assert_allclose(metric.pair_distance(X[:20], X[30:50]) ** 2, square, rtol=1e-9)
    D = metric.pairwise_distances(X[:20], X)
    np.testing.assert_array_equal(D[:, 30:50].diagonal(), metric.pair_distance(X[:20], X[30:50]))
    assert (D[np.arange(20), np.arange(20)] == 0).all()
    distance, ids = metric.kneighbors(X[:20], 4)
    np.testing.assert_array_equal(ids, np.argsort(D, axis=1, kind="stable")[:, :4])
    np.testing.assert_array_equal(distance, np.sort(D, axis=1)[:, :4])
    Z = metric.transform(X)
    np.testing.assert_array_equal(Z[7:9], metric.transform(X[7:9]))
    assert len(metric.get_feature_names_out()) == Z.shape[1]


def test_a_group_has_not_seen_the_pairs_that_its_map_is_learned_from(monkeypatch):
    X, pairs, labels = clouds(1)
    seen, learned = [], []

    class Watched(HierarchyForest):
        def fit(self, X, y=None, *, pairs=None, pair_labels=None, triplets=None):
            seen.append(set(map(tuple, pairs.tolist())))
            return super().fit(X, pairs=pairs, pair_labels=pair_labels)

    def watched(groups, *more):
        learned.extend(groups)
        return choose(groups, *more)

    choose = module.linear_map.choose_map
    monkeypatch.setattr(module, "HierarchyForest", Watched)
    monkeypatch.setattr(module.linear_map, "choose_map", watched)
    small().fit(X, pairs=pairs, pair_labels=labels)
    every = set(map(tuple, pairs.tolist()))
    left_out = [every - known for known in seen[::2]]
    assert seen[::2] == seen[1::2]  # both kinds of trees of a group
    assert set.union(*left_out) == every
    assert sum(map(len, left_out)) == len(every)
    assert [len(known.differ) for known in learned] == list(map(len, left_out))


def test_it_learns_where_a_forest_of_sizes_does_not(fitted):
    X, pairs, labels, metric = fitted
    forest = HierarchyForest(12, 1 / 3, min_node_size=5, heights="size", random_state=0)
    forest.fit(X, pairs=pairs, pair_labels=labels)
    Q, asked, answers = clouds(7)
    ours, theirs = (pair_auc(m, Q, asked, answers) for m in (metric, forest))
    assert ours > theirs + 0.01
    assert metric.chosen_["penalty"] is not None
    assert metric.oob_gain_ > 0
    assert abs(metric.oob_auc_ - ours) < 0.1
    assert 0 < metric.oob_auc_se_ < 0.1
    assert f"pair AUC {metric.oob_auc_:.3f}" in metric.what_was_chosen()


def test_the_number_of_threads_changes_nothing(fitted):
    X, pairs, labels, metric = fitted
    again = small(n_jobs=3).fit(X, pairs=pairs, pair_labels=labels)
    np.testing.assert_array_equal(again.transform(X), metric.transform(X))
    other = clone(again).set_params(random_state=1).fit(X, pairs=pairs, pair_labels=labels)
    assert (other.pair_distance(X[:5], X[5:10]) != metric.pair_distance(X[:5], X[5:10])).all()


@pytest.mark.parametrize("labels", ["few", "same", "different"])
def test_with_too_few_pairs_vectors_stay_as_they_are(labels):
    X, _, pairs, answers = three_clusters(0, 60, 50)
    answers = {"few": answers, "same": 0 * answers + 1, "different": 0 * answers - 1}[labels]
    with pytest.warns(UserWarning, match=FEW):
        metric = small().fit(X, pairs=pairs, pair_labels=answers)
    assert metric.chosen_ == {"max_features": [1 / 3, None], "whiten": False, "penalty": None}
    assert np.isnan(metric.oob_auc_)
    assert "too few labelled pairs" in metric.what_was_chosen()
    (group,) = metric._groups
    np.testing.assert_array_equal(group.map, np.eye(len(group.map)))
    assert np.isfinite(metric.pairwise_distances(X)).all()


def test_contradictory_pairs_teach_nothing():
    X, pairs, labels = clouds(0)
    rng = np.random.default_rng(0)
    labels = rng.permutation(labels)
    metric = small().fit(X, pairs=pairs, pair_labels=labels)
    assert abs(metric.oob_auc_ - 0.5) < 0.1
    assert np.isfinite(metric.pairwise_distances(X)).all()


def test_splits_are_by_what_max_features_says(fitted):
    X, pairs, labels, _ = fitted
    one = small(max_features=2).fit(X, pairs=pairs, pair_labels=labels)
    assert one.chosen_["max_features"] == [2]
    assert {forest.features.shape[1] for group in one._groups for forest in group.forests} == {2}
    wide = np.hstack([X] * 10)
    many = small().fit(wide, pairs=pairs, pair_labels=labels)
    assert many.chosen_["max_features"] == [1 / 3]
    single = small().fit(X[:, :1], pairs=pairs, pair_labels=labels)
    assert single.chosen_["max_features"] == [None]


@pytest.mark.parametrize("mmap", [False, True])
def test_a_file_holds_all_of_it(fitted, tmp_path, mmap):
    X, pairs, labels, metric = fitted
    metric.calibrate_threshold(pairs[:50], labels[:50])
    again = check_stored(metric, tmp_path / "vectors.mf", mmap, X)
    for other in (again, pickle.loads(pickle.dumps(metric))):
        np.testing.assert_array_equal(other.transform(X), metric.transform(X))
        assert other.chosen_ == metric.chosen_
        assert other.oob_auc_ == metric.oob_auc_
        assert other.threshold_ == metric.threshold_
    assert repr(again) == repr(metric)


def test_a_damaged_state_is_refused(fitted):
    metric = fitted[-1]
    state = metric._state()
    first, *others = state["_groups"]
    for wrong, said in (
        ([], "_groups is"),
        ([[], *others], "a group is"),
        ([{**first, "forests": first["forests"][:0]}, *others], "0 forests"),
        ([{**first, "forests": [3], "projections": [{}]}, *others], "a forest is a int"),
        ([{**first, "projections": [3] * len(first["forests"])}, *others], "vectors are a int"),
        ([{**first, "map": first["map"][:-1]}, *others], "map is"),
        ([{**first, "factors": first["factors"] * np.nan}, *others], "factors"),
        (others, "numbers, the rows kept"),
    ):
        with pytest.raises(ValueError, match=said):
            VectorForest()._restore({**state, "_groups": wrong})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_groups": 1}, "n_groups must be at least 2, got 1"),
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"max_features": "some"}, "max_features must be"),
        ({"alpha": 0.0}, r"alpha must be in \(0"),
        ({"min_node_size": "small"}, "min_node_size must be"),
    ],
)
def test_parameters_that_cannot_be_are_refused(wrong, said):
    X, _, pairs, labels = three_clusters()
    with pytest.raises(ValueError, match=said):
        VectorForest(**wrong).fit(X, pairs=pairs, pair_labels=labels)


def test_triplets_and_nothing_are_refused():
    X = three_clusters()[0]
    with pytest.raises(TypeError, match="cannot learn from triplets"):
        VectorForest().fit(X, triplets=[[0, 1, 2]])
    with pytest.raises(ValueError, match="requires y"):
        VectorForest().fit(X)


def test_info_says_what_was_chosen(fitted, tmp_path):
    metric = fitted[-1]
    metric.save(tmp_path / "vectors.mf")
    said = CliRunner().invoke(main, ["info", str(tmp_path / "vectors.mf")]).output
    assert f"chosen: {metric.what_was_chosen()}" in " ".join(said.split())
