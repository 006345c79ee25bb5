"""`transform`: dense vectors of the forest, for everything that takes vectors."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from conftest import load
from metricforest import HierarchyForest
from metricforest import load as load_metric
from metricforest.search import proposer, vectors
from metricforest.transform import SearchBy


@pytest.fixture(scope="module")
def wine():
    X, y = load("wine")
    return X, y, HierarchyForest(30, n_components=16, random_state=0).fit(X, y)


def test_vectors_follow_the_distance(wine):
    X, _, metric = wine
    Z = metric.transform(X)
    assert Z.shape == (len(X), 16)
    assert Z.dtype == np.float32
    soft = metric.pairwise_distances(X)
    upper = np.triu_indices(len(X), 1)
    assert spearmanr(pairwise_distances(Z)[upper], soft[upper]).statistic > 0.95
    near = np.argsort(soft, axis=1)[:, :11]
    among = np.argsort(pairwise_distances(Z), axis=1)[:, :50]
    assert np.mean([len(np.intersect1d(a, b)) for a, b in zip(near, among, strict=True)]) > 10.5


@given(st.data())
def test_a_row_has_one_vector(wine, data):
    """In any order, any company, any number of threads, for rows of `fit` and others."""
    X, _, metric = wine
    seed = data.draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    rows = np.concatenate([X, X[:40] + rng.normal(size=(40, X.shape[1]))])
    expected = metric.transform(rows)
    order = rng.permutation(len(rows))[: data.draw(st.integers(1, len(rows)))]
    other = deepcopy(metric).set_params(n_jobs=data.draw(st.sampled_from([1, 2, 3])))
    np.testing.assert_array_equal(other.transform(rows[order]), expected[order])
    np.testing.assert_array_equal(metric.transform(rows[order[:1]]), expected[order[:1]])
    twice = metric.transform(np.repeat(rows[order[:3]], 2, axis=0))
    np.testing.assert_array_equal(twice[::2], twice[1::2])


def test_any_block_and_number_of_threads_learns_the_same(wine, monkeypatch):
    X, y, metric = wine
    expected = metric.transform(X)
    monkeypatch.setattr(vectors, "ROWS_PER_TASK", 7)
    for n_jobs in (1, 2, 4):
        other = HierarchyForest(30, n_components=16, random_state=0, n_jobs=n_jobs).fit(X, y)
        np.testing.assert_array_equal(other.transform(X), expected)


def test_what_is_searched_changes_no_vector(wine):
    X, y, metric = wine
    expected = metric.transform(X)
    other = HierarchyForest(30, n_components=16, random_state=0).fit(X, y)
    other.add(X[:90] + 0.1)
    other.remove(np.arange(50))
    np.testing.assert_array_equal(other.transform(X), expected)
    np.testing.assert_array_equal(other._over(other._rows[:9]).transform(X), expected)


@pytest.mark.parametrize("before", [True, False])
def test_files_and_pickles_keep_them(wine, tmp_path, before):
    X, y, metric = wine
    expected = metric.transform(X)
    fresh = HierarchyForest(30, n_components=16, random_state=0).fit(X, y)
    if before:
        fresh.transform(X[:1])
    fresh.save(tmp_path / "metric.mf")
    for other in (load_metric(tmp_path / "metric.mf"), pickle.loads(pickle.dumps(fresh))):
        assert (other._projection.kept() is not None) == before
        np.testing.assert_array_equal(other.transform(X), expected)
        np.testing.assert_array_equal(clone(other).fit(X, y).transform(X), expected)


def test_a_file_of_the_first_version_learns_its_vectors(tmp_path):
    metric = load_metric(Path(__file__).parent / "data" / "hierarchy_forest_v1.mf")
    assert metric._projection.kept() is None
    X = np.random.default_rng(0).normal(size=(30, metric.n_features_in_))
    X = pd.DataFrame(X, columns=metric.feature_names_in_)
    with pytest.warns(UserWarning, match="n_components=64, but"):
        Z = metric.transform(X)
    assert Z.any()
    metric.save(tmp_path / "again.mf")
    again = load_metric(tmp_path / "again.mf")
    assert again._projection.kept() is not None
    np.testing.assert_array_equal(again.transform(X), Z)


def test_vectors_of_an_earlier_file_stay_what_they_were(wine, tmp_path):
    """Before, features were not divided by a power of their length, and files did not say so."""
    X, _, metric = wine
    metric.transform(X)
    other = deepcopy(metric)
    made = other._projection._made
    before = made.projection._replace(shortened=np.zeros(1))
    other._projection._made = made._replace(
        projection=before, placer=vectors.placer(metric.forest_, before)
    )
    expected = other.transform(X)
    assert not np.allclose(expected, metric.transform(X))
    state = other._state()
    del state["_vectors"]["shortened"]
    other._restore_vectors(state["_vectors"], other._rows)
    np.testing.assert_array_equal(other.transform(X), expected)


def test_many_threads_may_ask_first(wine):
    X, y, metric = wine
    expected = metric.transform(X)
    fresh = HierarchyForest(30, n_components=16, random_state=0).fit(X, y)
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(lambda _: fresh.transform(X), range(6)):
            np.testing.assert_array_equal(found, expected)


def test_parameters_set_later_count(wine):
    X, y, _ = wine
    metric = HierarchyForest(10, n_components=4, random_state=0).fit(X, y)
    blunt = metric.transform(X)
    metric.set_params(alpha=0.5)
    assert not np.array_equal(metric.transform(X), blunt)
    assert metric.set_params(n_components=6).transform(X).shape[1] == 6
    back = metric.set_params(alpha=4.0, n_components=4).transform(X)
    np.testing.assert_array_equal(back, blunt)


def test_half_precision_and_bytes(wine):
    X, _, metric = wine
    Z = metric.transform(X)
    half, small = metric.transform(X, dtype="float16"), metric.transform(X, dtype="int8")
    assert (half.dtype, small.dtype) == (np.float16, np.int8)
    np.testing.assert_allclose(half, Z, rtol=1e-3, atol=1e-6)
    step = metric.int8_scale_
    np.testing.assert_allclose(small * step, Z, atol=0.501 * step)
    with pytest.raises(ValueError, match="dtype must be one of float32, float16, int8, got 'int4'"):
        metric.transform(X, dtype="int4")


def test_auto_finds_enough_and_says_what_it_chose(caplog):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 8))
    metric = HierarchyForest(30, n_components="auto", random_state=0).fit(X)
    with caplog.at_level("INFO", logger="metricforest"):
        Z = metric.transform(X[:300])
    assert "directions and" in caplog.text
    assert Z.shape[1] == metric.n_components_ <= 256
    soft = metric.pairwise_distances(X[:300], X)
    soft[np.arange(300), np.arange(300)] = np.inf
    far = pairwise_distances(Z, metric.transform(X))
    far[np.arange(300), np.arange(300)] = np.inf
    near, among = np.argsort(soft)[:, :10], np.argsort(far)[:, :100]
    found = np.mean([len(np.intersect1d(a, b)) for a, b in zip(near, among, strict=True)]) / 10
    assert found > 0.93


def test_in_pipelines_frames_and_searches(wine):
    X, y, metric = wine
    steps = make_pipeline(HierarchyForest(8, random_state=0), LogisticRegression(max_iter=500))
    name = "hierarchyforest__n_components"
    search = GridSearchCV(steps, {name: [2, 8, "auto"]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9
    framed = clone(metric).set_output(transform="pandas")
    frame = framed.fit_transform(pd.DataFrame(X), y)
    assert frame.columns.tolist() == [f"hierarchyforest{j}" for j in range(16)]
    assert framed.get_feature_names_out().tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(frame.to_numpy(), metric.transform(X))
    clusters = KMeans(3, n_init=5, random_state=0).fit_predict(metric.transform(X))
    assert max((clusters == c)[y == 0].mean() for c in range(3)) > 0.9


@pytest.mark.parametrize(
    ("n_components", "error", "match"),
    [
        (0, ValueError, "n_components must be at least 1, got 0"),
        (-1, ValueError, "n_components must be at least 1, got -1"),
        (2.5, TypeError, "n_components must be an int, got 2.5"),
        (None, TypeError, "n_components must be an int, got None"),
        ("all", ValueError, "n_components must be an int or 'auto', got 'all'"),
    ],
)
def test_bad_numbers_of_components(wine, n_components, error, match):
    X, y, metric = wine
    with pytest.raises(error, match=match):
        HierarchyForest(2, n_components=n_components).fit(X, y)
    with pytest.raises(error, match=match):
        deepcopy(metric).set_params(n_components=n_components).transform(X)


@pytest.mark.parametrize(
    ("X", "settings", "most"),
    [
        (np.random.default_rng(0).normal(size=(9, 3)), {"min_node_size": 1}, 9),
        (np.ones((40, 3)), {}, 1),
        (np.random.default_rng(0).normal(size=(4, 3)), {}, 1),  # roots that never split
        (np.random.default_rng(0).normal(size=(80, 3)), {"n_estimators": 1}, 40),
    ],
)
def test_fewer_numbers_than_wanted(X, settings, most):
    metric = HierarchyForest(**{"n_estimators": 3, "random_state": 0, **settings}).fit(X)
    with pytest.warns(UserWarning, match=r"n_components=64, but .* rows and the splits"):
        Z = metric.transform(X)
    assert 1 <= Z.shape[1] <= most
    assert np.isfinite(Z).all()
    assert Z.shape[1] == metric.n_components_ == len(metric.get_feature_names_out())
    metric.set_params(n_components="auto")
    assert metric.transform(X).shape[0] == len(X)


def test_a_file_with_wrong_vectors_is_refused(wine, tmp_path):
    X, _, metric = wine
    metric.transform(X)
    other = deepcopy(metric)
    made = other._projection._made
    leaf = np.flatnonzero(other.forest_.left < 0)[:1].astype(np.int32)
    for wrong, match in [
        ({"nodes": made.projection.nodes[::-1].copy()}, "do not ascend"),
        ({"nodes": np.sort(np.r_[leaf, made.projection.nodes[1:]])}, "no split|do not ascend"),
        ({"directions": made.projection.directions[:-1]}, "directions is float16"),
        ({"correction": np.zeros((2, 3), np.float32)}, "correction is float32"),
        ({"alpha": np.array([np.nan])}, "alpha holds NaN"),
        ({"shortened": np.array([2.0])}, "shortened is not in"),
    ]:
        other._projection._made = made._replace(projection=made.projection._replace(**wrong))
        with pytest.raises(ValueError, match=match):  # `save` reads what it has written
            other.save(tmp_path / "wrong.mf")


# ----------------------------------------------------------------------------- searching by vectors


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1300, 6))
    metric = HierarchyForest(30, n_components=12, random_state=0).fit(X[:1200])
    return X, metric


def test_vectors_propose_and_the_metric_measures(cloud):
    X, metric = cloud
    far, ids = metric.kneighbors(X[1200:], 7, search="vectors", n_candidates=60)
    D = metric.pairwise_distances(X[1200:], X[:1200])
    np.testing.assert_array_equal(far, np.take_along_axis(D, ids, axis=1))  # to the bit
    assert (np.diff(far, axis=1) >= 0).all()
    Z = metric.transform(X)
    near = np.argsort(pairwise_distances(Z[1200:], Z[:1200]), axis=1)
    for row, D_row, order in zip(ids, D, near, strict=True):
        among = order[:60][np.argsort(D_row[order[:60]], kind="stable")][:7]
        assert len(np.intersect1d(row, among)) >= 6  # rounding may swap the last proposals
    every = metric.kneighbors(X[1200:], 7, search="vectors", n_candidates=1200)
    exact = metric.kneighbors(X[1200:], 7, n_candidates=None)
    for mine, theirs in zip(every, exact, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_target_alone_chooses_the_search(cloud, caplog):
    X, metric = cloud
    plain = metric.kneighbors(X[1200:], 5)
    with caplog.at_level("INFO", logger="metricforest"):
        chosen = metric.kneighbors(X[1200:], 5, target_recall=0.9)
        assert "search='auto'" in caplog.text
        caplog.clear()
        leaves = metric.kneighbors(X[1200:], 5, search="leaves")
        assert not caplog.text
    auto = metric.kneighbors(X[1200:], 5, search="auto", target_recall=0.9)
    for a, b in [*zip(plain, leaves, strict=True), *zip(chosen, auto, strict=True)]:
        np.testing.assert_array_equal(a, b)


def test_what_costs_less_is_chosen(cloud, monkeypatch):
    """Vectors that cost nothing are taken, and ways through leaves that cost nothing."""
    X, metric = deepcopy(cloud)
    metric.kneighbors(X[:2], 10, search="auto")
    for name, free in [("PER_NUMBER", 0.0), ("PER_PLACED", 0.0), ("PER_NEAR", -1e9)]:
        monkeypatch.setattr(proposer, name, free)
    metric._proposer = proposer.SharedProposer()
    vectors_, by_vectors = metric._n_candidates(metric._index(), 10, SearchBy("auto"))
    assert by_vectors
    monkeypatch.setattr(proposer, "PER_NEAR", 1e9)
    metric._proposer = proposer.SharedProposer()
    leaves, by_vectors = metric._n_candidates(metric._index(), 10, SearchBy("auto"))
    assert not by_vectors
    assert leaves in proposer.PER_TREE
    assert vectors_ > leaves


@pytest.mark.parametrize("search", ["leaves", "vectors", "auto"])
@pytest.mark.parametrize("target", [0.8, 0.95])
def test_target_recall_is_reached(cloud, search, target, caplog):
    metric = cloud[1]
    with caplog.at_level("INFO", logger="metricforest"):
        far, _ = metric.kneighbors(None, 10, search=search, target_recall=target)
    exact, _ = metric.kneighbors(None, 10, n_candidates=None)
    assert (far <= exact[:, -1:]).mean() > target - 0.03
    assert ("search='auto'" in caplog.text) == (search == "auto")


def test_vectors_find_what_was_added_and_not_what_was_removed(cloud):
    X, metric = cloud
    metric = deepcopy(metric)
    before = metric.kneighbors(X[1200:1210], 5, search="vectors", n_candidates=300)
    added = metric.add(X[1200:])  # merged, or not
    more = metric.add(X[1200:1203] + 1e-3)
    _, ids = metric.kneighbors(X[1200:1210], 2, search="vectors", n_candidates=50)
    assert (ids == added[:10, None]).any(axis=1).all()
    metric.remove(np.r_[added, more])
    after = metric.kneighbors(X[1200:1210], 5, search="vectors", n_candidates=300)
    for mine, theirs in zip(after, before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    metric.add(X[:1], ids=[5_000])
    ids = metric.kneighbors(X[:1], 2, search="vectors", n_candidates=50, return_distance=False)
    assert sorted(ids[0]) == [0, 5_000]


def test_search_by_vectors_is_the_same_for_any_number_of_threads(cloud):
    X, metric = cloud
    expected = metric.kneighbors(None, 4, search="vectors")
    for n_jobs in (2, 4):
        other = pickle.loads(pickle.dumps(metric)).set_params(n_jobs=n_jobs)
        for mine, theirs in zip(other.kneighbors(None, 4, search="vectors"), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    part = metric.kneighbors(X[1250:1253], 4, search="vectors")[1]
    whole = metric.kneighbors(X[1200:], 4, search="vectors")[1]
    np.testing.assert_array_equal(part, whole[50:53])


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"search": "tree"}, ValueError, "search must be one of leaves, vectors, auto, got 'tree'"),
        ({"n_candidates": "all"}, TypeError, "n_candidates must be an int, 'auto' or None"),
        ({"target_recall": 0}, ValueError, "target_recall must be above 0 and at most 1, got 0"),
        ({"target_recall": 1.1}, ValueError, "at most 1, got 1.1"),
        ({"target_recall": "x"}, TypeError, "target_recall must be a number or None"),
        ({"target_recall": 0.9, "n_candidates": 5}, ValueError, "give one of the two"),
        ({"search": "auto", "n_candidates": 5}, ValueError, "choose 'leaves' or 'vectors'"),
    ],
)
def test_bad_ways_to_search(cloud, settings, error, match):
    X, metric = cloud
    with pytest.raises(error, match=match):
        metric.kneighbors(X[:2], 2, **settings)
