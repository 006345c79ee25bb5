"""Clustering: the graph against plain loops, the cut against planted truths, one path per solver."""

import itertools
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import v_measure_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import PlainEuclidean, three_clusters
from metricforest import HierarchyForest, MetricSpectralClustering
from metricforest.estimators import graph_cut, points
from metricforest.estimators.facts import facts_of


def forest(n_trees=20, random_state=0):
    return HierarchyForest(n_trees, random_state=random_state)


@parametrize_with_checks(
    [
        MetricSpectralClustering(2, forest(3), random_state=0),
        MetricSpectralClustering(3, PlainEuclidean(), 5, random_state=0),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def blobs(n_blobs, n=400, seed=0, spread=100.0):
    """(X, blob): so far apart that no row has a neighbour in another one."""
    rng = np.random.default_rng(seed)
    blob = np.arange(n) % n_blobs
    return spread * rng.normal(size=(n_blobs, 3))[blob] + rng.normal(size=(n, 3)), blob


# --------------------------------------------------------------------------------------------- graph


@pytest.mark.parametrize("sigma", [None, 0.7])
@pytest.mark.parametrize("kind", [forest, PlainEuclidean])
def test_graph_against_plain_loops(small, kind, sigma):
    X = small[0]
    clustering = MetricSpectralClustering(3, kind(), 6, sigma, obey=False, random_state=0).fit(X)
    D = kind().fit(X).pairwise_distances(X)
    n = len(X)
    near = [sorted((D[i, j], j) for j in range(n) if j != i)[:6] for i in range(n)]
    if sigma is None and kind is PlainEuclidean:
        sigma = np.median([d for row in near for d, _ in row])
    W = np.zeros((n, n))
    for i, row in enumerate(near):
        for d, j in row:
            alike = 1 - d if sigma is None else np.exp(-(d**2) / (2 * sigma**2))
            W[i, j] = max(W[i, j], alike, 1e-6)
            W[j, i] = max(W[j, i], alike, 1e-6)
    assert connected_components(sp.csr_matrix(W))[0] == 1  # nothing to join
    np.testing.assert_allclose(clustering.affinity_matrix_.toarray(), W, atol=1e-7)


def test_pieces_are_joined_by_a_shortest_tree():
    X, blob = blobs(7)
    metric = PlainEuclidean().fit(X)
    index = metric.kneighbors(None, 5, return_distance=False)
    graph = graph_cut.neighbour_graph(np.ones(index.shape), index)
    n_pieces, piece = connected_components(graph)
    assert n_pieces == 7
    whole = graph_cut.joined(graph, metric, 1.0)
    assert connected_components(whole)[0] == 1
    assert abs(whole - whole.T).max() == 0
    added = sp.triu(whole - graph).tocoo()
    assert added.nnz == n_pieces - 1
    degree = np.asarray(graph.sum(axis=1)).ravel()
    centres = [max(np.flatnonzero(piece == p), key=lambda i: (degree[i], -i)) for p in range(7)]
    assert set(added.row) | set(added.col) == set(centres)
    D = metric.pairwise_distances(X[centres])
    lengths = metric.pair_distance(X[added.row], X[added.col])
    assert lengths.sum() == pytest.approx(minimum_spanning_tree(D).sum())
    # The nearer, the stronger, however far they all are; and always weaker than neighbours.
    order = np.argsort(lengths)
    assert (np.diff(added.data[order]) < 0).all()
    assert 0 < added.data.min() < added.data.max() < 0.001
    np.testing.assert_array_equal(blob[added.row] == blob[added.col], False)


def test_a_graph_in_one_piece_stays(small):
    metric = PlainEuclidean().fit(small[0])
    index = metric.kneighbors(None, 20, return_distance=False)
    graph = graph_cut.neighbour_graph(np.ones(index.shape), index)
    assert graph_cut.joined(graph, metric, 1.0) is graph


# ------------------------------------------------------------------------------------- eigenvectors


def leading(W, k):
    """The k smallest generalised eigenvalues of (D - W) v = lambda D v, dense."""
    d = W.sum(axis=1)
    values, vectors = np.linalg.eigh(np.eye(len(W)) - W / np.sqrt(np.outer(d, d)))
    return values[:k], vectors[:, :k] / np.sqrt(d)[:, None]


def rayleigh(W, V):
    """How far the span of V is from the smallest possible: sum of generalised Ritz values."""
    d = W.sum(axis=1)
    A, B = V.T @ ((np.diag(d) - W) @ V), V.T @ (d[:, None] * V)
    return np.sort(np.linalg.eigvals(np.linalg.solve(B, A)).real)


@pytest.mark.parametrize("route", ["dense", "lanczos", "factors"])
@pytest.mark.parametrize("data", ["noise", "line", "blobs"])
def test_every_route_finds_the_leading_vectors(monkeypatch, route, data):
    rng = np.random.default_rng(0)
    X = {
        "noise": rng.normal(size=(400, 5)),
        "line": np.arange(400.0)[:, None],
        "blobs": blobs(4)[0],
    }[data]
    metric = PlainEuclidean().fit(X)
    index = metric.kneighbors(None, 6, return_distance=False)
    graph = graph_cut.joined(graph_cut.neighbour_graph(np.ones(index.shape), index), metric, 1.0)
    monkeypatch.setattr(graph_cut, "DENSE", 1000 if route == "dense" else 10)
    monkeypatch.setattr(graph_cut, "RESTARTS", 1 if route == "factors" else 100_000)
    V = graph_cut.embed(graph, 4, np.random.RandomState(0))
    assert V.shape == (400, 4)
    values, _ = leading(graph.toarray(), 4)
    np.testing.assert_allclose(rayleigh(graph.toarray(), V), values, atol=1e-9)


# ----------------------------------------------------------------------------------------------- cut


def normalised_cut(W, labels):
    return sum(W[np.ix_(labels == c, labels != c)].sum() / W[labels == c].sum() for c in (0, 1))


def test_no_cut_in_two_is_better_on_ten_rows():
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(6, 2)), rng.normal(size=(4, 2)) + [4, 0]])
    clustering = MetricSpectralClustering(2, PlainEuclidean(), 4, obey=False, random_state=0).fit(X)
    W = clustering.affinity_matrix_.toarray()
    every = [np.array([0, *rest]) for rest in itertools.product((0, 1), repeat=9)]
    best = min(normalised_cut(W, labels) for labels in every if labels.any())
    assert normalised_cut(W, clustering.labels_) == pytest.approx(best)


@pytest.mark.parametrize("n", [80, 800])
@pytest.mark.parametrize("n_clusters", [2, 4, 5, 7])
def test_pieces_and_clusters_of_other_number(n, n_clusters):
    X, blob = blobs(5, n)
    clustering = MetricSpectralClustering(
        n_clusters, PlainEuclidean(), 8, obey=False, random_state=0
    )
    if n_clusters < 5:
        with pytest.warns(UserWarning, match=f"in 5 pieces, more than n_clusters={n_clusters}"):
            found = clustering.fit_predict(X)
    else:
        found = clustering.fit_predict(X)
    assert len(set(found)) == n_clusters
    # Fewer clusters: blobs stay whole. More: no cluster has rows of two blobs.
    inner, outer = (blob, found) if n_clusters <= 5 else (found, blob)
    for part in range(inner.max() + 1):
        assert len(set(outer[inner == part])) == 1


def test_rings():
    rng = np.random.default_rng(0)
    angle, ring = rng.uniform(0, 2 * np.pi, 900), np.arange(900) % 3
    X = (1 + ring[:, None]) * np.column_stack([np.cos(angle), np.sin(angle)])
    X += 0.03 * rng.normal(size=X.shape)
    found = MetricSpectralClustering(
        3, PlainEuclidean(), 10, obey=False, random_state=0
    ).fit_predict(X)
    assert v_measure_score(ring, found) == 1.0


def test_labelled_pairs_decide_what_a_cluster_is():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 7))
    loud, quiet = rng.integers(0, 2, 150), rng.integers(0, 2, 150)
    X[:, :4] += 5 * loud[:, None]
    X[:, 4] += 4 * quiet
    pairs = rng.permutation(150).reshape(75, 2)
    same = quiet[pairs[:, 0]] == quiet[pairs[:, 1]]
    clustering = MetricSpectralClustering(2, forest(60), random_state=0)
    untold = clustering.fit_predict(X)
    told = clustering.fit_predict(X, pairs=pairs, pair_labels=same)
    assert v_measure_score(loud, untold) > 0.8
    assert v_measure_score(quiet, told) > 0.5 > v_measure_score(loud, told)
    triplets = [[0, 1, 2], [3, 4, 5]]
    assert len(clustering.fit(X, triplets=triplets).metric_.constraints_.triplets()) == 2


def test_classes_decide_what_a_cluster_is():
    scores = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(150, 7))
        loud, quiet = rng.integers(0, 2, 150), rng.integers(0, 2, 150)
        X[:, :4] += 5 * loud[:, None]
        X[:, 4] += 4 * quiet
        y = np.where(np.arange(150) < 75, quiet, -1)
        clustering = MetricSpectralClustering(2, forest(60), random_state=0)
        found = clustering.fit_predict(X, y)
        np.testing.assert_array_equal(found, clustering.fit(X, y).labels_)
        scores.append(v_measure_score(quiet, found))
    assert np.mean(scores) > 0.5


def test_one_seed_one_answer():
    X = three_clusters(n=400)[0]
    clustering = MetricSpectralClustering(4, HierarchyForest(4), 8, random_state=1)
    first = clustering.fit_predict(X)
    np.testing.assert_array_equal(clone(clustering).fit_predict(X), first)
    np.testing.assert_array_equal(make_pipeline(clone(clustering)).fit_predict(X), first)


def test_a_frozen_metric_in_a_pipeline(small):
    X, classes, pairs, labels = small
    scaled = StandardScaler().fit_transform(X)
    metric = forest(40).fit(scaled, pairs=pairs, pair_labels=labels)
    clustering = MetricSpectralClustering(3, FrozenEstimator(metric), 15, random_state=0)
    found = make_pipeline(StandardScaler(), clustering).fit_predict(X)
    assert v_measure_score(classes, found) > 0.7


def test_rows_that_are_all_alike():
    X = np.ones((40, 3))
    for kind in (forest(2), PlainEuclidean()):
        labels = MetricSpectralClustering(3, kind, 5, random_state=0).fit_predict(X)
        assert labels.shape == (40,)
    tenfold = np.repeat(np.arange(12.0), 10)[:, None]
    found = MetricSpectralClustering(
        12, PlainEuclidean(), 5, obey=False, random_state=0
    ).fit_predict(tenfold)
    assert v_measure_score(tenfold[:, 0], found) == pytest.approx(1.0)


@pytest.mark.parametrize("sigma", [1e-9, 1e9])
def test_a_sigma_of_another_world(small, sigma):
    labels = MetricSpectralClustering(
        3, PlainEuclidean(), 5, sigma, obey=False, random_state=0
    ).fit_predict(small[0])
    assert len(set(labels)) == 3


def test_one_cluster_and_one_per_row():
    X = np.random.default_rng(0).normal(size=(12, 2))
    for n_clusters in (1, 12):
        labels = MetricSpectralClustering(n_clusters, PlainEuclidean(), 3, obey=False).fit_predict(
            X
        )
        assert len(set(labels)) == n_clusters


def test_memory_grows_with_the_rows_and_not_their_square():
    X = np.random.default_rng(0).normal(size=(10_000, 4))
    tracemalloc.start()
    MetricSpectralClustering(4, PlainEuclidean(), 8, n_init=1, obey=False, random_state=0).fit(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000**2 / 2  # bytes; a matrix of distances has 16 times as many


@pytest.mark.parametrize(
    ("params", "rows", "error", "match"),
    [
        ({"n_clusters": 0}, 60, ValueError, "n_clusters must be at least 1, got 0"),
        ({"n_clusters": "3"}, 60, TypeError, "n_clusters must be an int, got '3'"),
        ({"n_clusters": "many"}, 60, TypeError, "n_clusters must be an int, got 'many'"),
        ({"n_clusters": 61}, 60, ValueError, "n_clusters=61 is more than n_samples=60"),
        ({"n_init": 0}, 60, ValueError, "n_init must be at least 1, got 0"),
        ({"sigma": 0.0}, 60, ValueError, r"sigma must be in \(0.0, inf\), got 0.0"),
        ({"sigma": np.inf}, 60, ValueError, r"sigma must be in \(0.0, inf\), got inf"),
        ({"sigma": "1"}, 60, TypeError, "sigma must be a number, got '1'"),
        ({}, 1, ValueError, "at least 2 rows, got n_samples=1"),
    ],
)
def test_refused(small, params, rows, error, match):
    with pytest.raises(error, match=match):
        MetricSpectralClustering(**{"n_clusters": 3, "metric": forest(2), **params}).fit(
            small[0][:rows]
        )


@pytest.mark.parametrize("n_clusters", [2, 4, 7])
def test_the_number_of_clusters_is_estimated_where_it_is_plain(n_clusters):
    rng = np.random.default_rng(0)
    X = np.repeat(20.0 * np.eye(n_clusters), 40, axis=0) + rng.normal(
        size=(40 * n_clusters, n_clusters)
    )
    metric = PlainEuclidean().fit(X)
    graph = graph_cut.affinity(metric, *metric.kneighbors(None, 10))
    assert graph_cut.estimate_n_clusters(graph, np.random.RandomState(0)) == n_clusters


# ------------------------------------------------------------------------------ obeying labelled pairs


def wine_pairs(n_pairs, seed, wrong=0.0):
    """Rows of wine, their classes, pairs, labels (a share of them wrong), and which are wrong."""
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.sort(rng.integers(0, len(X), (2 * n_pairs, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = pairs[rng.permutation(len(pairs))[:n_pairs]]
    labels = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    turned = rng.random(n_pairs) < wrong
    return X, y, pairs, np.where(turned, -labels, labels), turned


def test_labelled_pairs_are_kept_and_help():
    X, y, pairs, labels, _ = wine_pairs(400, 0)
    forest = HierarchyForest(30, random_state=0)
    scores = {}
    for obey in (True, False):
        clustering = MetricSpectralClustering(3, forest, obey=obey, random_state=0)
        found = clustering.fit_predict(X, pairs=pairs, pair_labels=labels)
        together = found[pairs[:, 0]] == found[pairs[:, 1]]
        assert (clustering.broken_pairs_ == pairs[together != (labels == 1)]).all()
        scores[obey] = v_measure_score(y, found)
        if obey:
            assert len(clustering.broken_pairs_) == 0
            assert clustering.stability_ > 0.9
    assert scores[True] >= scores[False]
    assert scores[True] > 0.95


def test_broken_pairs_are_mostly_the_wrong_ones():
    n_broken = n_wrong = 0
    for seed in range(3):
        X, _, pairs, labels, turned = wine_pairs(400, seed, wrong=0.05)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that pairs contradict each other
            clustering = MetricSpectralClustering(
                3, HierarchyForest(30, alpha=4, random_state=0), random_state=0
            ).fit(X, pairs=pairs, pair_labels=labels)
        wrong = {tuple(pair) for pair in pairs[turned].tolist()}
        broken = [tuple(pair) for pair in clustering.broken_pairs_.tolist()]
        n_broken += len(broken)
        n_wrong += sum(pair in wrong for pair in broken)
    assert n_broken > 20
    assert n_wrong >= 0.8 * n_broken


def test_new_rows_join_the_clusters_of_their_neighbours():
    X, _, pairs, labels, _ = wine_pairs(300, 1)
    clustering = MetricSpectralClustering(3, HierarchyForest(30, random_state=0), random_state=0)
    clustering.fit(X, pairs=pairs, pair_labels=labels)
    assert clustering.membership_.shape == (len(X), 3)
    np.testing.assert_allclose(clustering.membership_.sum(axis=1), 1.0)
    near = clustering.predict(X + 1e-6)
    assert (near == clustering.labels_).mean() > 0.9
    assert (clustering.predict_membership(X[:5]).argmax(axis=1) == clustering.predict(X[:5])).all()


def test_a_frozen_metric_learns_nothing_but_pairs_are_kept():
    X, _, pairs, labels, _ = wine_pairs(200, 2)
    metric = HierarchyForest(20, random_state=0).fit(X)
    clustering = MetricSpectralClustering(3, FrozenEstimator(metric), random_state=0)
    clustering.fit(X, pairs=pairs, pair_labels=labels)
    assert len(clustering.broken_pairs_) == 0
    with pytest.raises(ValueError, match="frozen metric learns no more"):
        MetricSpectralClustering(3, FrozenEstimator(metric), obey=False).fit(
            X, pairs=pairs, pair_labels=labels
        )


def test_more_rows_apart_than_clusters_are_an_answer_that_names_what_is_broken():
    X, _ = load_wine(return_X_y=True)
    pairs = np.array(list(itertools.combinations(range(0, 178, 36), 2)))  # five rows, all different
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clustering = MetricSpectralClustering(
            3, HierarchyForest(10, random_state=0), random_state=0
        ).fit(X, pairs=pairs, pair_labels=np.full(len(pairs), -1))
    assert 0 < len(clustering.broken_pairs_) <= 3


# ----------------------------------------------------------------------------- pairs at their worst


@pytest.mark.parametrize("seed", range(8))
def test_consistent_pairs_are_never_broken_whatever_the_rows_say(seed):
    """Random graphs of pairs about classes that have nothing to do with the rows."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 5)), 40
    X, hidden = rng.normal(size=(n, 3)), rng.integers(0, k, n)
    a, b = np.triu_indices(n, 1)
    drawn = rng.choice(len(a), int(rng.integers(5, 200)), replace=False)
    pairs = np.column_stack([a[drawn], b[drawn]])
    same = hidden[pairs[:, 0]] == hidden[pairs[:, 1]]
    metric = FrozenEstimator(PlainEuclidean().fit(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such clusters are not stable
        clustering = MetricSpectralClustering(k, metric, 10, n_init=5, random_state=seed)
        found = clustering.fit_predict(X, pairs=pairs, pair_labels=same)
    assert len(clustering.broken_pairs_) == 0
    assert ((found[pairs[:, 0]] == found[pairs[:, 1]]) == same).all()


def test_a_triangle_of_same_same_different_breaks_one_pair():
    X, _ = blobs(2, 40)
    metric = FrozenEstimator(PlainEuclidean().fit(X))
    clustering = MetricSpectralClustering(2, metric, 8, random_state=0)
    clustering.fit(X, pairs=[[0, 2], [2, 4], [0, 4], [0, 1]], pair_labels=[1, 1, -1, -1])
    assert len(clustering.broken_pairs_) == 1


def test_must_links_that_join_half_the_table():
    X, blob = blobs(4, 80)
    half = np.flatnonzero(blob < 2)
    chain = np.column_stack([half[:-1], half[1:]])
    metric = FrozenEstimator(PlainEuclidean().fit(X))
    clustering = MetricSpectralClustering(3, metric, 8, random_state=0)
    found = clustering.fit_predict(X, pairs=chain, pair_labels=np.ones(len(chain)))
    assert v_measure_score(np.maximum(blob, 1), found) == pytest.approx(1.0)


def test_equal_rows_keep_their_pairs():
    pairs = np.array([[0, 1], [1, 2], [3, 4], [0, 3]])
    clustering = MetricSpectralClustering(2, forest(2), 5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing tells the other rows apart
        found = clustering.fit_predict(np.ones((20, 3)), pairs=pairs, pair_labels=[1, 1, 1, -1])
    assert len(clustering.broken_pairs_) == 0
    assert found[0] == found[1] == found[2] != found[3] == found[4]


def test_what_pairs_say_spreads_to_rows_nearby():
    X, blob = blobs(3, 60, spread=6.0)
    metric = PlainEuclidean().fit(X)
    graph = graph_cut.joined(points.adaptive_graph(*metric.kneighbors(None, 8)), metric, 1.0)
    rows = [np.flatnonzero(blob == b) for b in range(3)]
    nothing = facts_of(60, np.empty((0, 2), np.int64), np.empty(0))
    plain = points.spread(graph, nothing)
    np.testing.assert_array_equal(plain, graph.toarray())
    told = np.array([[rows[0][0], rows[1][0]], [rows[1][0], rows[2][0]]])
    alike = points.spread(graph, facts_of(60, told, np.array([1, -1])))
    np.testing.assert_array_equal(alike, alike.T)
    others = [r[1:] for r in rows]
    assert alike[np.ix_(others[0], others[1])].mean() > plain[np.ix_(others[0], others[1])].mean()
    assert alike[np.ix_(others[1], others[2])].mean() <= plain[np.ix_(others[1], others[2])].mean()


# ---------------------------------------------------------------------------- the number of clusters


def test_pairs_tell_the_number_of_clusters():
    X, y, pairs, labels, _ = wine_pairs(200, 0)
    clustering = MetricSpectralClustering("auto", HierarchyForest(30, alpha=4, random_state=0))
    clustering.set_params(random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    assert clustering.n_clusters_ == 3
    assert clustering.runner_up_ in (2, 4)
    assert set(clustering.n_clusters_scores_) >= {2, 3, 4}
    assert clustering.membership_.shape == (len(X), 3)
    assert v_measure_score(y, clustering.labels_) > 0.8


def test_without_pairs_a_threshold_or_the_graph_tells_the_number():
    X, blob = blobs(4, 120)
    metric = PlainEuclidean().fit(X)
    clustering = MetricSpectralClustering("auto", FrozenEstimator(metric), 8, random_state=0)
    for obey in (True, False):
        assert clustering.set_params(obey=obey).fit(X).n_clusters_ == 4
    assert clustering.n_clusters_scores_ == {}
    near = blob[:, None] == blob
    metric.threshold_ = float(metric.pairwise_distances(X)[near].max())
    clustering.set_params(obey=True).fit(X)
    assert clustering.n_clusters_ == 4
    assert clustering.n_clusters_scores_[4] > clustering.n_clusters_scores_[3]
