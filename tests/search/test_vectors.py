"""Features of the upper splits and the projection that makes them dense."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from threadpoolctl import threadpool_limits

import naive
from metricforest import HierarchyForest
from metricforest.core.forest import LEAF
from metricforest.search import index_over, proposals, vectors
from metricforest.search.paths import paths_of


def sparse(forest, nodes, rows, alpha):
    known = vectors.features(forest, nodes, rows, alpha, 1)
    row = np.tile(np.arange(len(rows)), forest.n_trees)
    place = np.repeat(row, np.diff(known.first).ravel()), known.column
    return sp.csr_matrix((known.value, place), shape=(len(rows), len(nodes)))


@pytest.fixture(scope="module")
def grown():
    """A forest over 900 rows in clusters: more landmarks than are decomposed as they are."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 6)) + 3 * rng.normal(size=(9, 6))[np.arange(900) % 9]
    return HierarchyForest(40, min_node_size=8, random_state=0).fit(X, np.arange(900) % 9)


@pytest.mark.parametrize("alpha", [0.5, 4.0])
@pytest.mark.parametrize("share", [0.03, 0.2])
def test_features_are_the_plain_loops(small_forest, small, alpha, share, monkeypatch):
    monkeypatch.setattr(vectors, "SHARE", share)
    forest, rows = small_forest.forest_, small_forest._prepare(small[0])
    nodes = vectors.upper_nodes(forest, 8)
    S = sparse(forest, nodes, rows, alpha)
    for i, x in enumerate(rows):
        expected = naive.soft_features(forest, x, alpha, share)
        row = S[i : i + 1]
        assert sorted(nodes[row.indices].tolist()) == sorted(expected)
        np.testing.assert_allclose(row.data, [expected[j] for j in nodes[row.indices]], rtol=1e-5)


def test_vectors_are_features_times_the_matrix(grown):
    """G V'f and R'f - R'V V'f, written as dense matrices."""
    forest, rows = grown.forest_, grown._rows[::7]
    P = vectors.learn(forest, grown._rows, 0.5, 12, 70, seed=5, n_threads=1)
    z = vectors.place(forest, vectors.placer(forest, P), rows, 1)
    S = sparse(forest, P.nodes, rows, 0.5).toarray().astype(float)
    R = np.zeros((len(P.nodes), 70), np.float32)
    vectors.draw_signs(P.nodes, np.uint64(5), R)
    V = P.directions.astype(float)
    factor = np.linalg.norm(V, axis=0)
    assert factor[0] == pytest.approx(1.0, abs=1e-3)
    assert (np.diff(factor) > -1e-3).all()
    np.testing.assert_allclose(z[:, :12], S @ V, atol=1e-5)
    V /= factor
    np.testing.assert_allclose(z[:, 12:], (S - S @ V @ V.T) @ R, atol=2e-4)


def test_random_signs_are_balanced_and_apart():
    R = np.zeros((4000, 130), np.float32)
    vectors.draw_signs(np.arange(4000, dtype=np.int32), np.uint64(1), R)
    np.testing.assert_allclose(np.abs(R), 1 / np.sqrt(130), rtol=1e-6)
    assert np.abs((R > 0).mean(axis=0) - 0.5).max() < 0.05
    gram = R.T @ R / 4000 * 130
    assert np.abs(gram - np.eye(130)).max() < 0.1
    few = np.zeros((4000, 3), np.float32)
    vectors.draw_signs(np.arange(4000, dtype=np.int32), np.uint64(1), few)
    np.testing.assert_array_equal(few > 0, R[:, :3] > 0)  # fewer numbers are the first of more


@pytest.mark.parametrize("n_rows", [60, 900])
def test_directions_are_those_of_scikit_learn(grown, n_rows):
    """Few landmarks are decomposed as they are, many through a Krylov space."""
    forest, rows = grown.forest_, grown._rows[:n_rows]
    k = 10
    P = vectors.learn(forest, rows, 0.5, k, 0, seed=0, n_threads=1)
    S = sparse(forest, P.nodes, rows, 0.5).astype(float)
    svd = TruncatedSVD(k, algorithm="arpack", random_state=0).fit(S)
    V = P.directions.astype(float)
    factor = (svd.singular_values_[0] / svd.singular_values_) ** vectors.LEVELLED
    np.testing.assert_allclose(np.linalg.norm(V, axis=0), factor, rtol=1e-3)
    V /= np.linalg.norm(V, axis=0)
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(S @ V, axis=0), svd.singular_values_, rtol=1e-3)
    # the same space, up to directions of nearly equal size at its end
    overlap = np.linalg.svd(svd.components_[: k // 2] @ V, compute_uv=False)
    assert overlap.min() > 0.999


def test_many_directions_hold_as_much_as_the_best(grown):
    """Where sizes hardly differ, directions are not unique: what they hold is."""
    forest, rows = grown.forest_, grown._rows
    P = vectors.learn(forest, rows, 0.5, 150, 0, seed=0, n_threads=1)
    S = sparse(forest, P.nodes, rows, 0.5).toarray().astype(float)
    with threadpool_limits(1):
        best = np.linalg.eigvalsh(S @ S.T)[-150:]
    V = P.directions.astype(float)
    held = np.linalg.norm(S @ V, axis=0) / np.linalg.norm(V, axis=0)
    assert (held**2).sum() > 0.999 * best.sum()


@pytest.mark.parametrize("n_rows", [100, 900])
def test_a_part_of_the_trees_tells_the_directions(grown, monkeypatch, n_rows):
    """Sought in 20 of 40 trees, they hold nearly as much of all features as the best."""
    monkeypatch.setattr(vectors, "TREES", 20)
    forest, rows = grown.forest_, grown._rows[:n_rows]
    P = vectors.learn(forest, rows, 0.5, 10, 0, seed=0, n_threads=1)
    S = sparse(forest, P.nodes, rows, 0.5).astype(float)
    svd = TruncatedSVD(10, algorithm="arpack", random_state=0).fit(S)
    V = P.directions.astype(float)
    V /= np.linalg.norm(V, axis=0)
    np.testing.assert_allclose(V.T @ V, np.eye(10), atol=2e-3)
    held = np.square(np.linalg.norm(S @ V, axis=0)).sum()
    assert 0.98 < held / np.square(svd.singular_values_).sum() <= 1.001


def test_queries_are_placed_by_their_ways_as_rows_are(grown):
    forest, rows = grown.forest_, grown._rows
    P = vectors.learn(forest, rows, 4.0, 12, 5, seed=1, n_threads=1)
    ready = vectors.placer(forest, P)
    index = index_over(forest, rows[:300], 4.0, 1)
    turn, own = np.arange(250, 350), np.r_[np.arange(250, 300), np.full(50, -1)]
    paths = paths_of(forest, index, rows, turn, own)
    z = np.zeros((100, P.n_numbers), np.float32)
    vectors.place_queries(forest, *ready[:3], ready.shortened, index, paths, z)
    expected = vectors.place(forest, ready, rows[turn], 1)
    np.testing.assert_allclose(z, expected, atol=1e-4 * np.abs(expected).max())


def test_signs_of_directions_are_fixed(grown):
    V = vectors.learn(grown.forest_, grown._rows, 0.5, 9, 0, seed=0, n_threads=1).directions
    assert (V[np.abs(V).argmax(axis=0), np.arange(9)] > 0).all()


def test_large_splits_only_where_there_are_many(grown, monkeypatch):
    forest = grown.forest_
    size = forest.stop - forest.start
    every = vectors.upper_nodes(forest, 16)
    assert (size[every] >= vectors.SHARE * forest.n_points).all()
    monkeypatch.setattr(vectors, "MOST_BYTES", 2 * 16 * 100)
    few = vectors.upper_nodes(forest, 16)
    assert 40 <= len(few) <= 100
    assert set(few) <= set(every)
    parents = forest.parent[few]
    assert set(parents[parents != LEAF]) <= set(few)


def test_points_are_measured_without_rounding():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(700, 37)).astype(np.float32)
    z[5] *= 40  # longer than any landmark: shortened
    longest = float(np.linalg.norm(z[6:], axis=1).max())
    points = proposals.points_of(z, longest)
    value = points.value.astype(np.int64)
    assert np.abs(value).max() <= proposals.REACH
    np.testing.assert_array_equal(points.square, (value**2).sum(axis=1))
    own = np.full(50, -1)
    own[:20] = np.arange(20)
    dead = np.zeros(700, bool)
    dead[30:60] = True
    asked = proposals.pick(points, np.arange(50))
    D = ((value[:50, None] - value[None]) ** 2).sum(axis=2)
    D[np.arange(20), np.arange(20)] = np.iinfo(np.int64).max
    none = np.zeros(700, bool)
    rank = proposals.ranks(points, none, asked, own, np.tile(np.arange(100, 110), (50, 1)))
    np.testing.assert_array_equal(
        rank, [[(row < row[j]).sum() for j in range(100, 110)] for row in D]
    )
    D[:, dead] = np.iinfo(np.int64).max
    for threads in (1, 3):
        found = proposals.nearest(points, dead, asked, own, 25, threads)
        expected = np.argsort(D, axis=1, kind="stable")[:, :25]
        np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(expected, axis=1))


def test_points_that_are_too_few():
    points = proposals.points_of(np.eye(4, dtype=np.float32), 1.0)
    found = proposals.nearest(points, np.zeros(4, bool), points, np.arange(4), 6, 1)
    for i, row in enumerate(found):
        assert sorted(row) == [-1, -1, -1, *(j for j in range(4) if j != i)]
