"""DCA against its formulas in plain loops, in both of its equivalent forms."""

import numpy as np
import pytest

import naive_pairs as naive
from conftest import three_clusters
from metricforest.rivals import DCA, Euclidean
from metricforest.rivals.dca import discriminate, scatters


def tangle(seed, n=40, d=4, n_must=14, n_cannot=40):
    """Rows, must-links and cannot-links, none of which contradict each other."""
    rng = np.random.default_rng(seed)
    must = np.array([rng.choice(n, 2, replace=False) for _ in range(n_must)])
    where = {r: k for k, c in enumerate(naive.chunklets(n, must.tolist())) for r in c}
    cannot = [rng.choice(n, 2, replace=False) for _ in range(n_cannot)]
    cannot = np.array([p for p in cannot if where[p[0]] != where[p[1]]])
    return rng.normal(size=(n, d)) * np.arange(1, d + 1), must, cannot


@pytest.mark.parametrize("seed", range(4))
def test_scatters_are_those_of_the_formulas(seed):
    rows, must, cannot = tangle(seed)
    Cb, Cw, n_chunklets = scatters(rows, must, cannot)
    want_b, want_w = naive.scatters(rows, must.tolist(), cannot.tolist())
    np.testing.assert_allclose(Cb, want_b, atol=1e-12)
    np.testing.assert_allclose(Cw, want_w, atol=1e-12)
    assert n_chunklets == sum(len(c) >= 2 for c in naive.chunklets(40, must.tolist()))


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_both_forms_agree(r):
    rows, must, cannot = tangle(1)
    Cb, Cw, _ = scatters(rows, must, cannot)
    assert np.linalg.matrix_rank(Cb) == 4
    L = discriminate(Cb, Cw, 0.0, r)
    np.testing.assert_allclose(L @ Cw @ L.T, np.eye(r), atol=1e-9)
    want = naive.dca_matrix(Cb, Cw, r)
    np.testing.assert_allclose(L.T @ L, want, atol=1e-8 * np.abs(want).max())


@pytest.mark.parametrize("r", [1, 2, 3])
def test_without_full_rank_it_is_the_maximum_that_the_other_form_misses(r):
    rows, must, cannot = tangle(0, d=6, n_cannot=3)
    Cb, Cw, _ = scatters(rows, must, cannot)
    assert np.linalg.matrix_rank(Cb) == 3

    def ratio(M):
        values, V = np.linalg.eigh(M)
        L = V[:, -r:].T * np.sqrt(values[-r:])[:, None]
        return np.linalg.det(L @ Cb @ L.T) / np.linalg.det(L @ Cw @ L.T)

    L = discriminate(Cb, Cw, 0.0, 6)
    assert len(L) == 3
    reached = ratio(L[:r].T @ L[:r])
    assert reached > 1.01 * ratio(naive.dca_matrix(Cb, Cw, r))
    rng = np.random.default_rng(0)
    for _ in range(50):
        tried = L[:r] + 0.1 * rng.normal(size=(r, 6)) * np.abs(L[:r]).mean()
        assert ratio(tried.T @ tried) <= reached


def test_cannot_links_do_not_matter_when_all_directions_are_kept():
    rows, must, cannot = tangle(2)
    Cb, Cw, _ = scatters(rows, must, cannot)
    assert np.linalg.matrix_rank(Cb) == 4
    L = discriminate(Cb, Cw, 0.0, 4)
    np.testing.assert_allclose(L.T @ L, np.linalg.inv(Cw), rtol=1e-8)
    pairs = np.vstack([must, cannot])
    labels = np.repeat([1, -1], [len(must), len(cannot)])
    fewer = len(must) + 8
    D, same = (
        DCA().fit(rows, pairs=pairs[:m], pair_labels=labels[:m]).pairwise_distances(rows)
        for m in (len(pairs), fewer)
    )
    np.testing.assert_allclose(same, D, rtol=1e-6)
    D, other = (
        DCA(2).fit(rows, pairs=pairs[:m], pair_labels=labels[:m]).pairwise_distances(rows)
        for m in (len(pairs), fewer)
    )
    assert not np.allclose(other, D, rtol=0.05)


def test_by_hand():
    """Chunklets {0, 1} and {2, 3} two apart on the first axis, spread by 1 and 2 on the second."""
    X = np.array([[0.0, -1], [0, 1], [2, -2], [2, 2]])
    m = DCA(ridge=0.5, standardize=False)
    m.fit(X, pairs=[[0, 1], [2, 3], [0, 2]], pair_labels=[1, 1, -1])
    # Cw = diag(0, (1 + 4) / 2); ridge .5 * 2.5 / 2 = .625; Cb = diag(4, 0), so the first axis alone.
    np.testing.assert_allclose(
        m.components_.T @ m.components_, [[1 / 0.625, 0], [0, 0]], atol=1e-12
    )
    np.testing.assert_allclose(m.pair_distance(X[[0]], X[[2]]), 2 / np.sqrt(0.625))
    assert m.n_chunklets_ == 2


def test_a_contradiction_through_a_chain_is_left_out():
    X, *_ = three_clusters()
    must, cannot = [[0, 1], [1, 2], [4, 5]], [[0, 4], [2, 5], [3, 5]]
    want = DCA().fit(X, pairs=must + cannot, pair_labels=[1] * 3 + [-1] * 3)
    with pytest.warns(UserWarning, match="1 of 4 cannot-links join rows that must-links join"):
        got = DCA().fit(X, pairs=must + cannot + [[0, 2]], pair_labels=[1] * 3 + [-1] * 4)
    np.testing.assert_array_equal(got.components_, want.components_)


def test_only_one_kind_of_pair():
    X, *_ = three_clusters()
    only_must = DCA().fit(X, pairs=[[i, i + 3] for i in range(50)], pair_labels=np.ones(50))
    Z = Euclidean().fit(X).transform(X)
    Cw = naive.scatters(Z, [[i, i + 3] for i in range(50)], [])[1]
    Cw += 0.1 * np.trace(Cw) / 5 * np.eye(5)
    got = only_must.components_.T @ only_must.components_
    np.testing.assert_allclose(got, np.linalg.inv(Cw), rtol=1e-8)
    # Two cannot-links span two directions, and without must-links no other length is known.
    only_cannot = DCA().fit(X, pairs=[[0, 1], [1, 2]], pair_labels=[-1, -1])
    M = only_cannot.components_.T @ only_cannot.components_
    span = np.linalg.qr((Z[[0, 1]] - Z[[1, 2]]).T)[0]
    np.testing.assert_allclose(M, span @ span.T, atol=1e-9)


def test_parameters_are_checked():
    X, y, *_ = three_clusters()
    with pytest.raises(ValueError, match=r"ridge must be in \[0.0, inf\), got -1"):
        DCA(ridge=-1).fit(X, y)
    with pytest.raises(ValueError, match="n_components must be at least 1, got 0"):
        DCA(n_components=0).fit(X, y)
    with pytest.raises(ValueError, match="n_components=6 is more than the 5 features"):
        DCA(n_components=6).fit(X, y)
    with pytest.raises(ValueError, match=r"singular with ridge=0\.0: give a larger ridge"):
        DCA(ridge=0).fit(X, pairs=[[0, 1], [0, 2]], pair_labels=[1, -1])


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_an_offset_changes_nothing(shift):
    rows, must, cannot = tangle(3)
    for got, want in zip(
        scatters(rows + shift, must, cannot)[:2], scatters(rows, must, cannot)[:2], strict=True
    ):
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_fewer_directions_than_asked_for_warn():
    X = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.warns(
        UserWarning, match="n_components=4, but the cannot-links span only 1 directions"
    ):
        metric = DCA(4, random_state=0).fit(X, X[:, 0] > 0)
    assert metric.components_.shape == (1, 4)
