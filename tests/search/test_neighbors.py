"""Searching a forest: against sorting all distances, and against the paper's loops."""

import pickle
from copy import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import metricforest
import naive
from conftest import load, three_clusters
from metricforest import HierarchyForest
from metricforest.core.forest import LEAF
from metricforest.forest_search import prepared
from metricforest.search import approximate, changes, exact, measuring, neighbors, paths


def fresh(forest, **params):
    """The same learned forest with an index of its own."""
    return copy(pickle.loads(pickle.dumps(forest))).set_params(**params)


def searchable(metric):
    """The index with certainties, if the metric keeps them."""
    index = metric._index()
    return prepared(metric, index, None, np.inf, False)


def merge(metric, n_threads):
    metric._searched._index = changes.merge_points(metric.forest_, metric._index(), n_threads)


def by_sorting(D, ids, k):
    """(distances, ids) of the k nearest per row of D, ties by id."""
    order = np.array([np.lexsort((ids, row))[:k] for row in D])
    return np.take_along_axis(D, order, axis=1), ids[order]


def assert_same(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def without_self(D):
    D = D.copy()
    np.fill_diagonal(D, np.inf)
    return D


@pytest.fixture(
    scope="module", params=["made", "wine", "balance", "sonar", "lone leaf", "repeated"]
)
def learned(request):
    """(metric, its rows, queries)."""
    rng = np.random.default_rng(3)
    if request.param == "made":
        X, y, _, _ = three_clusters(1, 150)
    elif request.param == "lone leaf":
        X, y = rng.normal(size=(5, 3)), None
    elif request.param == "repeated":
        X, y = np.repeat(rng.normal(size=(12, 3)), 9, axis=0), None
    else:
        X, y = load(request.param)
        chosen = rng.permutation(len(X))[:160]
        X, y = X[chosen], y[chosen]
    metric = HierarchyForest(7, min_node_size=5, n_constraints=200, random_state=0).fit(X, y)
    return metric, X, X[rng.integers(0, len(X), 40)] + 0.1 * rng.normal(size=(40, X.shape[1]))


# -------------------------------------------------------------------------------------------- exact


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("keep_certainties", [False, True])
def test_exact_search_is_sorting_all_distances(learned, hard, keep_certainties):
    metric, X, Q = learned
    metric = fresh(metric, keep_certainties=keep_certainties)
    ids = np.arange(len(X))
    D = metric.pairwise_distances(Q, X, hard=hard)
    for k in (1, 4, len(X)):
        found = metric.kneighbors(Q, k, n_candidates=None, hard=hard)
        assert_same(found, by_sorting(D, ids, k))
    D = without_self(metric.pairwise_distances(X, hard=hard))
    k = len(X) - 1
    assert_same(metric.kneighbors(None, k, n_candidates=None, hard=hard), by_sorting(D, ids, k))


def test_exact_search_is_the_papers(learned):
    metric, X, Q = learned
    rows, queries = metric._prepare(X), metric._prepare(Q[:4])
    for hard in (False, True):
        distance, ids = metric.kneighbors(Q[:4], 5, n_candidates=None, hard=hard)
        for q, far, who in zip(queries, distance, ids, strict=True):
            _, expected = naive.neighbors_exact(metric.forest_, rows, q, 5, metric.alpha, hard=hard)
            np.testing.assert_allclose(far, expected, atol=1e-6)
            measured = [naive.distance(metric.forest_, q, rows[i], metric.alpha, hard) for i in who]
            np.testing.assert_allclose(far, measured, atol=1e-6)


def test_one_distance_whoever_measures(learned):
    metric, X, Q = learned
    distance, ids = metric.kneighbors(Q, 5, n_candidates=3)
    for a in range(len(Q)):
        pairs = metric.pair_distance(np.repeat(Q[a : a + 1], 5, axis=0), X[ids[a]])
        np.testing.assert_array_equal(distance[a], pairs)
    np.testing.assert_array_equal(
        metric.pairwise_distances(Q, X)[np.arange(len(Q))[:, None], ids], distance
    )


def test_one_distance_of_wide_rows():
    """Features far apart take gaps of two bytes, and 203 rows leave some lanes of the index idle."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(203, 700)), rng.integers(0, 3, 203)
    metric = HierarchyForest(5, max_features=5, n_constraints=200, random_state=0).fit(X, y)
    assert metric.forest_.gaps.dtype == np.uint16
    distance, ids = metric.kneighbors(n_neighbors=20, n_candidates=3)
    pairs = metric.pair_distance(np.repeat(X, 20, axis=0), X[ids.ravel()])
    np.testing.assert_array_equal(distance.ravel(), pairs)


def test_sums_of_the_scan_are_as_near_as_promised(learned):
    metric, X, Q = learned
    forest, index = metric.forest_, searchable(metric)
    queries = paths.queries_of(forest, index, metric._prepare(Q))
    ways = paths.paths_of(forest, index, queries.rows, queries.turn, queries.own)
    sums = exact.scan(forest, index, ways, False)
    lanes = np.arange(len(Q))
    found = sums[lanes // exact.QUERY_LANES, :, lanes % exact.QUERY_LANES]
    true = forest.n_trees * metric.pairwise_distances(Q, X)[queries.turn]
    allowed = true * (exact.slack(forest) - 1) / 4 + exact.UNDERFLOW
    assert (np.abs(found - true) <= allowed).all()


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("keep_certainties", [False, True])
def test_radius_search_is_filtering_all_distances(learned, hard, keep_certainties):
    metric, X, Q = learned
    metric = fresh(metric, keep_certainties=keep_certainties)
    for asked, D in (
        (Q, metric.pairwise_distances(Q, X, hard=hard)),
        (None, without_self(metric.pairwise_distances(X, hard=hard))),
    ):
        for radius in (0.0, float(np.quantile(D, 0.2)), 2.0):
            distance, ids = metric.radius_neighbors(asked, radius, hard=hard)
            for row, far, who in zip(D, distance, ids, strict=True):
                near = np.flatnonzero(row <= radius)
                near = near[np.lexsort((near, row[near]))]
                np.testing.assert_array_equal(who, near)
                np.testing.assert_array_equal(far, row[near])
    np.testing.assert_array_equal(
        metric.radius_neighbors(Q, 0.1, hard=hard, return_distance=False)[3],
        metric.radius_neighbors(Q, 0.1, hard=hard)[1][3],
    )


def test_passes_without_kept_certainties_may_be_many(learned, monkeypatch):
    metric, _, Q = learned
    expected = metric.kneighbors(Q, 4, n_candidates=None)
    monkeypatch.setattr(exact, "SUMS_AT_ONCE", 1)
    monkeypatch.setattr(neighbors, "QUERIES_PER_TASK", 33)
    assert_same(fresh(metric, keep_certainties=False).kneighbors(Q, 4, n_candidates=None), expected)


# -------------------------------------------------------------------------------------- approximate


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("keep_certainties", [False, True])
def test_approximate_search_with_every_point_a_candidate_is_exact(learned, hard, keep_certainties):
    metric, X, Q = learned
    metric = fresh(metric, keep_certainties=keep_certainties)
    for asked, k in ((Q, 5), (None, len(X) - 1)):
        expected = metric.kneighbors(asked, k, n_candidates=None, hard=hard)
        assert_same(metric.kneighbors(asked, k, n_candidates=len(X), hard=hard), expected)


def candidates(metric, asked, quota, seed=0, k=1):
    """Candidates of every query, as sets."""
    forest, index = metric.forest_, searchable(metric)
    rows = None if asked is None else metric._prepare(asked)
    queries = paths.queries_of(forest, index, rows)
    own = queries.own[queries.turn]
    ways = paths.paths_of(forest, index, queries.rows, queries.turn, own)
    found = approximate.climbing_candidates(
        forest, index, queries.rows, queries.turn, own, ways, quota, k, np.uint64(seed)
    )
    parts = np.split(found.slots, found.first[1:-1])
    assert all(len(part) == len(set(part.tolist())) for part in parts)
    sets: list = [None] * len(parts)
    for q, part in zip(queries.turn, parts, strict=True):
        sets[q] = set(part.tolist())
    return sets


@pytest.fixture(scope="module")
def one_tree():
    X, y, _, _ = three_clusters(4, 120)
    return HierarchyForest(1, min_node_size=6, random_state=0).fit(X, y), X


@pytest.mark.parametrize("quota", [1, 3, 8, 25, 119, 120, 500])
def test_candidates_of_a_tree_are_the_papers(one_tree, quota):
    metric, X = one_tree
    Q = X[:30] + 0.3
    rows, queries = metric._prepare(X), metric._prepare(Q)
    cases = [(candidates(metric, None, quota), rows, range(len(X)))]
    cases += [(candidates(metric, Q, quota), queries, [None] * len(Q))]
    for found, asked, own in cases:
        for got, x, i in zip(found, asked, own, strict=True):
            sure, pool, n_from_pool = naive.candidates(metric.forest_, 0, x, quota, i)
            assert got >= set(sure)
            assert got - set(sure) <= set(pool)
            assert len(got) == len(sure) + n_from_pool


def test_points_are_drawn_evenly(one_tree):
    """Of a node's remaining points each comes as often, whichever way they are drawn."""
    metric, X = one_tree
    rows = metric._prepare(X)
    checked = 0
    for quota in (2, 12):
        for i in (0, 7, 50):
            sure, pool, n_from_pool = naive.candidates(metric.forest_, 0, rows[i], quota)
            if not n_from_pool:
                continue
            count = dict.fromkeys(pool, 0)
            for seed in range(600):
                for j in candidates(metric, X[i : i + 1], quota, seed)[0] - set(sure):
                    count[j] += 1
            expected = sum(count.values()) / len(pool)
            chi2 = sum((c - expected) ** 2 / expected for c in count.values())
            assert chi2 < len(pool) + 4 * np.sqrt(2 * len(pool))
            checked += 1
    assert checked >= 3


def test_union_of_the_trees(learned):
    metric, X, _ = learned
    found = candidates(metric, None, 4)
    forest, rows = metric.forest_, metric._prepare(X)
    for i, got in enumerate(found):
        allowed: set[int] = set()
        for t in range(forest.n_trees):
            sure, pool, _ = naive.candidates(forest, t, rows[i], 4, i)
            assert got >= set(sure)
            allowed |= set(sure) | set(pool)
        assert got <= allowed
        assert i not in got


def test_recall_rises_with_candidates():
    X, y = load("digits")
    metric = HierarchyForest(20, n_constraints=2000, random_state=0).fit(X[:500], y[:500])
    exact, _ = metric.kneighbors(None, 20, n_candidates=None)
    recall = []
    for n_candidates in (1, 3, 10, 30, 499):
        distance, _ = metric.kneighbors(None, 20, n_candidates=n_candidates)
        assert (distance >= exact).all()
        recall.append((distance <= exact[:, -1:]).mean())
    assert (np.diff(recall) > 0).all()
    assert recall[2] > 0.9
    assert recall[-1] == 1.0


def test_never_fewer_than_asked_for(learned):
    metric, X, Q = learned
    for asked, k in ((Q, len(X)), (None, len(X) - 1)):
        found = metric.kneighbors(asked, k, n_candidates=1)
        assert_same(found, metric.kneighbors(asked, k, n_candidates=None))


def test_an_answer_does_not_depend_on_the_other_queries(learned):
    metric, _, Q = learned
    whole = metric.kneighbors(Q, 3, n_candidates=2)
    for a in (0, 17, 39):
        assert_same(
            metric.kneighbors(Q[a : a + 1], 3, n_candidates=2), [w[a : a + 1] for w in whole]
        )


def test_draws_depend_on_the_seed():
    X = np.random.default_rng(0).normal(size=(300, 4))
    metric = HierarchyForest(3, random_state=0).fit(X)
    other = fresh(metric)
    other._entropy += 1
    a, b = (m.kneighbors(None, 5, n_candidates=2, return_distance=False) for m in (metric, other))
    assert (a != b).any()
    np.testing.assert_array_equal(
        a, fresh(metric).kneighbors(None, 5, n_candidates=2, return_distance=False)
    )


# ------------------------------------------------------------------------------------------ all uses


@pytest.mark.parametrize("n_candidates", [None, 3])
def test_same_bits_for_any_number_of_threads(learned, monkeypatch, n_candidates):
    metric, _, Q = learned
    monkeypatch.setattr(neighbors, "QUERIES_PER_TASK", 7)
    expected = metric.kneighbors(Q, 4, n_candidates=n_candidates)
    inside = metric.radius_neighbors(None, 0.2)
    for n_jobs in (1, 2, 4):
        again = fresh(metric, n_jobs=n_jobs)
        assert_same(again.kneighbors(Q, 4, n_candidates=n_candidates), expected)
        for mine, theirs in zip(again.radius_neighbors(None, 0.2), inside, strict=True):
            assert_same(mine, theirs)


def test_graph(learned):
    metric, X, Q = learned
    distance, ids = metric.kneighbors(Q, 3)
    graph = metric.kneighbors_graph(Q, 3, mode="distance")
    assert graph.shape == (len(Q), len(X))
    np.testing.assert_array_equal(graph.indices.reshape(-1, 3), ids)
    np.testing.assert_array_equal(graph.data.reshape(-1, 3), distance)
    ones = metric.kneighbors_graph(None, 3, n_candidates=None, hard=True)
    np.testing.assert_array_equal(ones.data, 1.0)
    np.testing.assert_array_equal(
        ones.indices.reshape(-1, 3),
        metric.kneighbors(None, 3, n_candidates=None, hard=True, return_distance=False),
    )


def test_graph_columns_follow_ids():
    X = np.random.default_rng(0).normal(size=(30, 3))
    metric = HierarchyForest(4, random_state=0).fit(X)
    metric.remove([0, 3])
    metric.add(X[:2] + 0.01, ids=[500, 3])
    graph = metric.kneighbors_graph(X, 4, mode="distance", n_candidates=None)
    assert graph.shape == (30, 30)
    ids = metric.kneighbors(X, 4, n_candidates=None, return_distance=False)
    np.testing.assert_array_equal(metric.ids_[graph.indices].reshape(-1, 4), ids)


def test_alpha_may_change_after_fit(learned):
    metric, X, Q = learned
    metric = fresh(metric)
    metric.kneighbors(Q, 2)
    metric.add(X[:2])
    metric.set_params(alpha=3.0)
    D = metric.pairwise_distances(Q, np.concatenate([X, X[:2]]))
    expected = by_sorting(D, np.arange(len(X) + 2), 4)
    assert_same(metric.kneighbors(Q, 4, n_candidates=None), expected)


def test_pickle_keeps_the_index_and_compiles_nothing(learned):
    metric, X, Q = learned
    metric = fresh(metric)
    metric.add(X[:3])
    metric.remove([1])
    expected = metric.kneighbors(Q, 3)
    kernels = (
        measuring.measure_candidates,
        measuring.select_nearest,
        paths.paths_of,
        approximate.climbing_candidates,
        changes.bury,
    )
    compiled = [len(k.signatures) for k in kernels]
    again = pickle.loads(pickle.dumps(metric))
    assert_same(again.kneighbors(Q, 3), expected)
    again.remove([0])
    assert [len(k.signatures) for k in kernels] == compiled
    assert again.n_since_fit_ == 5


def test_fit_starts_a_new_index(small):
    X = small[0]
    metric = HierarchyForest(3, random_state=0).fit(X)
    metric.remove([1, 2])
    metric.fit(X[:40])
    assert metric.n_since_fit_ == 0
    np.testing.assert_array_equal(metric.ids_, np.arange(40))
    assert metric.kneighbors(X[:2], 40)[1].max() == 39


# ----------------------------------------------------------------------------- growing and shrinking


def check_index(forest, index):
    """Every invariant of an index, by loops."""
    n = len(index.ids)
    assert (np.diff(index.ids) > 0).all()
    for t in range(forest.n_trees):
        np.testing.assert_array_equal(index.order[t, index.place[t]], np.arange(n))
        for node in range(forest.root[t], forest.root[t + 1]):
            inside = index.order[t, index.start[node] : index.stop[node]]
            assert index.live[node] == (~index.dead[inside]).sum()
            if forest.left[node] == LEAF:
                for i in inside:
                    assert naive.route(forest, t, index.rows[i]) == node
            elif len(index.certain):
                for j in range(index.start[node], index.stop[node]):
                    p = naive.project(forest, node, index.rows[index.order[t, j]])
                    s = naive.logistic(float(index.alpha[0]) * p)
                    assert index.certain[index.base[node] + j] == pytest.approx(s, abs=1e-6)

        for a, path in enumerate(naive.path(forest, t, x) for x in index.new_rows):
            assert path[-1] == index.new_leaf[a, t]
            for k, node in enumerate(path[:-1]):
                p = naive.project(forest, node, index.new_rows[a])
                s = naive.logistic(float(index.alpha[0]) * p)
                assert index.new_certain[a, index.level[t] + k] == pytest.approx(s, abs=1e-6)


class Model:
    """What an index should hold, as a dictionary."""

    def __init__(self, metric, X):
        self.metric = metric
        self.rows = dict(enumerate(X))

    def add(self, X, ids=None):
        self.rows.update(zip(self.metric.add(X, ids).tolist(), X, strict=True))

    def remove(self, ids):
        self.metric.remove(ids)
        for i in ids:
            del self.rows[int(i)]

    def check(self, Q, k):
        ids = np.array(sorted(self.rows))
        np.testing.assert_array_equal(self.metric.ids_, ids)
        k = min(k, len(ids))
        if not k:
            return
        D = self.metric.pairwise_distances(Q, np.array([self.rows[i] for i in ids]))
        expected = by_sorting(D, ids, k)
        assert_same(self.metric.kneighbors(Q, k, n_candidates=None), expected)
        assert_same(self.metric.kneighbors(Q, k, n_candidates=10**6), expected)
        far, who = self.metric.kneighbors(Q, k, n_candidates=2)
        np.testing.assert_array_equal(np.take_along_axis(D, np.searchsorted(ids, who), axis=1), far)
        assert all(len(set(row)) == k for row in who.tolist())


@pytest.mark.parametrize("keep_certainties", [True, False])
def test_ten_thousand_points_come_and_go(keep_certainties, tmp_path):
    rng = np.random.default_rng(0)
    X, y, _, _ = three_clusters(0, 200)
    metric = HierarchyForest(5, random_state=0, keep_certainties=keep_certainties).fit(X, y)
    before = metric.pairwise_distances(X)
    model = Model(metric, X)
    changes = turns = 0
    while changes < (10_000 if keep_certainties else 2_000):
        turns += 1
        count = int(rng.integers(1, 16))
        if rng.random() < (0.3 if len(model.rows) > 400 else 0.6 if len(model.rows) < 60 else 0.5):
            model.add(X[rng.integers(0, 200, count)] + 0.2 * rng.normal(size=(count, 5)))
        else:
            count = min(count, len(model.rows))
            model.remove(rng.choice(list(model.rows), count, replace=False).tolist())
        changes += count
        if turns % 20 == 0:
            model.check(rng.normal(size=(3, 5)), 6)
        if turns % 100 == 0:
            check_index(metric.forest_, metric._searched.kept())
            if turns % 200 == 0:
                metric = pickle.loads(pickle.dumps(metric))
            else:
                metric.save(tmp_path / "metric.mf")
                metric = metricforest.load(tmp_path / "metric.mf")
            model.metric = metric
    assert metric.n_since_fit_ == changes
    D = without_self(metric.pairwise_distances(np.array([model.rows[i] for i in metric.ids_])))
    assert_same(metric.kneighbors(None, 3, n_candidates=None), by_sorting(D, metric.ids_, 3))
    np.testing.assert_array_equal(metric.pairwise_distances(X), before)


@given(st.lists(st.tuples(st.sampled_from("arc"), st.integers(1, 9)), max_size=25), st.booleans())
def test_any_order_of_changes(steps, merge_often):
    X = np.random.default_rng(2).normal(size=(14, 2)).round(1)
    metric = HierarchyForest(2, min_node_size=2, random_state=0).fit(X)
    model = Model(metric, X)
    rng = np.random.default_rng(len(steps))
    for what, count in steps:
        if what == "a":
            model.add(rng.normal(size=(count, 2)).round(1))
        elif what == "r":
            model.remove(list(model.rows)[: min(count, len(model.rows))])
        elif merge_often:
            merge(metric, 1)
        model.check(X[:3], 4)
    check_index(metric.forest_, searchable(metric))


def test_everything_may_go_and_come_back(small_forest, small):
    X = small[0]
    metric = fresh(small_forest)
    metric.remove(metric.ids_)
    assert len(metric.ids_) == 0
    with pytest.raises(ValueError, match="at most 0"):
        metric.kneighbors(X[:1], 1)
    _, ids = metric.radius_neighbors(X[:2], 1.0)
    assert [len(i) for i in ids] == [0, 0]
    assert len(metric.radius_neighbors(None, 1.0)[0]) == 0
    model = Model(metric, X[:0])
    model.add(X)
    assert metric.ids_[0] == len(X)
    model.check(X[:5], 7)
    merge(metric, 2)
    model.check(X[:5], 7)


def test_added_points_find_themselves(small_forest, small):
    metric = fresh(small_forest)
    new = small[0][:4] + 0.37
    ids = metric.add(new)
    np.testing.assert_array_equal(ids, np.arange(60, 64))
    for n_candidates in (1, None):
        distance, found = metric.kneighbors(new, 64, n_candidates=n_candidates)
        np.testing.assert_array_equal(distance[:, 0], 0.0)
        assert all(i in row[d == 0] for i, row, d in zip(ids, found, distance, strict=True))
    assert len(metric.kneighbors(None, 63)[1]) == 64


def test_ids_are_never_given_twice(small_forest, small):
    metric, X = fresh(small_forest), small[0]
    first = metric.add(X[:2])
    metric.remove(first)
    assert metric.add(X[:1]).tolist() == [first[-1] + 1]
    metric.add(X[:2], ids=[1000, 500])
    assert metric.add(X[:1]).tolist() == [1001]
    metric.remove([1000])
    assert metric.add(X[3:4], ids=[1000]).tolist() == [1000]  # your own you may use again
    distance, ids = metric.kneighbors(X[3:4], 64, n_candidates=None)
    assert 1000 in ids[0][distance[0] == 0]
    assert metric.n_since_fit_ == 2 + 2 + 1 + 2 + 1 + 1 + 1


def test_refused_changes_change_nothing(small_forest, small):
    metric, X = fresh(small_forest), small[0]
    metric.remove([4])
    for change, error, match in (
        (lambda: metric.remove([3, 999]), ValueError, "id 999 is not in the index"),
        (lambda: metric.remove([3, 4]), ValueError, "id 4 is not in the index.* removed before"),
        (lambda: metric.remove([3, 5, 3]), ValueError, "id 3 is given 2 times"),
        (lambda: metric.remove([3.0]), TypeError, "ids must be integers, got float64"),
        (lambda: metric.remove([True]), TypeError, "ids must be integers, got bool"),
        (lambda: metric.remove(3), ValueError, r"ids must be a flat list, got shape \(\)"),
        (lambda: metric.add(X[:2], ids=[70, 5]), ValueError, "id 5 is in use"),
        (lambda: metric.add(X[:2], ids=[70, 70]), ValueError, "id 70 is given 2 times"),
        (lambda: metric.add(X[:2], ids=[70]), ValueError, "1 ids, 2 rows"),
        (lambda: metric.add(X[:1], ids=[2**63]), ValueError, "ids must not exceed"),
        (lambda: metric.add(X[:1], ids=[-5]), ValueError, "ids must be at least 0, got -5"),
        (lambda: metric.add(X[:1], ids=[2**62 + 1]), ValueError, "ids must not exceed"),
        (lambda: metric.add(X[:1, :3]), ValueError, "3 features"),
        (lambda: metric.add(np.full((1, 5), np.nan)), ValueError, "NaN"),
    ):
        before = metric._searched.kept()
        with pytest.raises(error, match=match):
            change()
        assert metric._searched.kept() is before
    assert metric.n_since_fit_ == 1
    metric.remove([])
    assert metric.n_since_fit_ == 1


@pytest.mark.parametrize(
    ("search", "error", "match"),
    [
        (lambda m, X: m.kneighbors(X, 61), ValueError, "at most 60, .* got 61"),
        (lambda m, X: m.kneighbors(None, 60), ValueError, "at most 59.* beside the query itself"),
        (lambda m, X: m.kneighbors(X, 0), ValueError, "at least 1 .* got 0"),
        (lambda m, X: m.kneighbors(X, 2.0), TypeError, "n_neighbors must be an int"),
        (lambda m, X: m.kneighbors(X, 2, n_candidates=0), ValueError, "n_candidates .* got 0"),
        (
            lambda m, X: m.kneighbors(X, 2, n_candidates=1.5),
            TypeError,
            "n_candidates must be an int",
        ),
        (lambda m, X: m.kneighbors(X[:, :2], 2), ValueError, "2 features"),
        (lambda m, X: m.kneighbors(X * np.nan, 2), ValueError, "NaN"),
        (lambda m, X: m.radius_neighbors(X, -0.1), ValueError, "radius must be at least 0"),
        (lambda m, X: m.radius_neighbors(X, np.nan), ValueError, "radius must be at least 0"),
        (lambda m, X: m.radius_neighbors(X, "0.1"), TypeError, "radius must be a number"),
        (lambda m, X: m.kneighbors_graph(X, 2, mode="both"), ValueError, "mode must be"),
    ],
)
def test_bad_questions_are_refused(small_forest, small, search, error, match):
    with pytest.raises(error, match=match):
        search(small_forest, small[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda m, X: m.kneighbors(X),
        lambda m, X: m.kneighbors(),
        lambda m, X: m.radius_neighbors(X),
        lambda m, X: m.kneighbors_graph(X),
        lambda m, X: m.add(X),
        lambda m, X: m.remove([0]),
        lambda m, X: m.transform(X),
        lambda m, X: m.hard_vectors(X),
        lambda m, X: m.n_components_,
        lambda m, X: m.ids_,
        lambda m, X: m.n_since_fit_,
    ],
)
def test_unfitted_estimators_say_so(small, call):
    with pytest.raises(NotFittedError, match="not fitted"):
        call(HierarchyForest(), small[0])


# ----------------------------------------------------------------------------------- small machinery


def test_bytes_of_an_index_are_as_documented(small_forest, small):
    index = searchable(fresh(small_forest))
    forest = small_forest.forest_
    per_level = sum(len(naive.path(forest, t, x)) - 1 for t in range(12) for x in index.rows)
    assert index.certain.nbytes == 4 * per_level
    assert index.order.nbytes + index.place.nbytes == 8 * 12 * len(small[0])
    lean = searchable(fresh(small_forest, keep_certainties=False))
    assert index.nbytes - lean.nbytes == index.certain.nbytes


def test_certainties_are_kept_once_they_are_worth_it(small_forest, small, tmp_path):
    """A few queries do not wait for all rows to be projected; the answers do not show which way."""
    X = small[0]
    n, T = len(X), small_forest.forest_.n_trees
    few = max(1, n // (3 * T) - 1)
    metric = fresh(small_forest)
    metric.save(tmp_path / "m.mf")
    for asked in (metric, metricforest.load(tmp_path / "m.mf")):
        lean = asked.kneighbors(X[:few], 4, n_candidates=1)
        assert len(asked._searched.kept().certain) == 0
        asked.add(X[:1])
        asked.remove(asked.ids_[-1:])
        assert len(asked._searched.kept().certain) == 0
        for _ in range(3):
            later = asked.kneighbors(X[:few], 4, n_candidates=1)
            for got, want in zip(later, lean, strict=True):
                np.testing.assert_array_equal(got, want)
        while len(asked._searched.kept().certain) == 0:
            later = asked.kneighbors(X[:few], 4, n_candidates=1)
        for got, want in zip(later, lean, strict=True):
            np.testing.assert_array_equal(got, want)
        asked.set_params(alpha=2.0).kneighbors(X[:few], 4, n_candidates=1)
        assert len(asked._searched.kept().certain) > 0  # it has long been worth it
    at_once = fresh(small_forest)
    at_once.kneighbors(None, 4, hard=True)  # needs none
    at_once.radius_neighbors(X, 0.1, hard=True)
    assert len(at_once._searched.kept().certain) == 0
    at_once.kneighbors(None, 4)
    assert len(at_once._searched.kept().certain) > 0
