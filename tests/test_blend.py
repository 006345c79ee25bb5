"""A blend of metrics: its weights, what it measures and finds, its files, odd input."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import metricforest
from conftest import check_stored, three_clusters
from metricforest import Blend, HierarchyForest, pair_auc
from metricforest import blend as module
from metricforest.rivals import ITML, LMNN, Euclidean, RandomForestDistance


def small(**more):
    members = [HierarchyForest(6, min_node_size=3), Euclidean(), RandomForestDistance(8)]
    return Blend(members, random_state=0, **more)


@parametrize_with_checks([Blend([HierarchyForest(2), Euclidean()], n_constraints=60, n_folds=2)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "(?s).*(too few to weigh|left out of the blend|no member distinguishes)"
        )
        check(estimator)


@pytest.fixture(scope="module")
def fitted():
    X, _, pairs, labels = three_clusters(0, 90, 300)
    return X, pairs, labels, small().fit(X, pairs=pairs, pair_labels=labels)


def test_the_distance_is_the_weighted_sum_of_the_members(fitted):
    X, _, _, blend = fitted
    A, B = X[:20], X[30:50]
    odds = blend._weights.intercept + sum(
        w * m.pair_distance(A, B) for w, m in zip(blend._weights.each, blend.members_, strict=True)
    )
    np.testing.assert_allclose(blend.pair_distance(A, B), 1 / (1 + np.exp(-odds)), rtol=1e-12)
    D = blend.pairwise_distances(A, B)
    np.testing.assert_allclose(D.diagonal(), blend.pair_distance(A, B), rtol=1e-9)
    assert D.min() >= 0
    assert D.max() <= 1
    assert (blend.weights_ >= 0).all()
    assert ((blend.held_out_auc_ > 0.5) & (blend.held_out_auc_ <= 1)).all()


def test_pairs_are_measured_by_members_that_have_not_seen_them(monkeypatch):
    X, _, pairs, labels = three_clusters(0, 60, 120)
    seen, asked = [], []

    class Watched(Euclidean):
        def fit(self, X, y=None, *, pairs=None, pair_labels=None, triplets=None):
            self.told_ = set(map(tuple, pairs.tolist()))
            seen.append(self.told_)
            return super().fit(X, y, pairs=pairs, pair_labels=pair_labels)

        def pair_distance(self, A, B):
            ends = {tuple(row): i for i, row in enumerate(X.tolist())}
            now = {
                (ends[tuple(a)], ends[tuple(b)])
                for a, b in zip(A.tolist(), B.tolist(), strict=True)
            }
            assert not now & self.told_
            asked.append(now)
            return super().pair_distance(A, B)

    Blend([Watched()], random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    every = set(map(tuple, pairs.tolist()))
    assert len(seen) == 4
    assert sum(told == every for told in seen) == 1
    assert set.union(*asked) == every
    assert sum(map(len, asked)) == len(every)


def test_weights_minimise_what_they_say():
    rng = np.random.default_rng(0)
    differ = rng.random(200) < 0.6
    D = np.stack([differ + rng.normal(size=200), 5 * rng.normal(size=200) - differ], axis=1)
    found = module.learned_weights(D, differ)
    Z = (D - D.mean(axis=0)) / D.std(axis=0)

    def loss(p):
        p = np.asarray(p)
        chance = 1 / (1 + np.exp(-(Z @ p[:2] + p[2])))
        even = ((p[:2] - p[:2].mean()) ** 2).sum()
        return (
            -np.log(np.where(differ, chance, 1 - chance)).sum() + even + 0.01 * (p[:2] ** 2).sum()
        )

    at = np.append(found.each * D.std(axis=0), found.intercept + found.each @ D.mean(axis=0))
    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"maxiter": 4_000}).x
    grid = [loss([max(best[0], 0), w, best[2]]) for w in np.linspace(0, 1, 21)]
    assert loss(at) <= min(grid) + 1e-3
    assert found.each[1] == 0.0  # it would be negative: this member says the opposite
    assert found.each[0] > 0.0


def test_a_member_that_knows_nothing_weighs_little():
    rng = np.random.default_rng(0)
    X, _, pairs, labels = three_clusters(0, 90, 400)
    noisy = np.hstack([X, 30 * rng.normal(size=X.shape)])
    blend = Blend([ITML(), Euclidean(standardize=False)], random_state=0)
    blend.fit(noisy, pairs=pairs, pair_labels=labels)
    assert blend.weights_[1] < 0.2 * blend.weights_[0]
    Q, _, asked, answers = three_clusters(1, 90, 400)
    Q = np.hstack([Q, 30 * rng.normal(size=Q.shape)])
    scores = [pair_auc(m, Q, asked, answers) for m in (blend, *blend.members_)]
    assert scores[0] > max(scores[1:]) - 0.01


def test_neighbours_are_proposed_by_members_and_measured_in_full(fitted, monkeypatch):
    X, _, _, blend = fitted
    exact = blend.kneighbors(X[:9], 4)
    own = blend.kneighbors(n_neighbors=3)
    assert (own[1] != np.arange(len(X))[:, None]).all()
    monkeypatch.setattr(module, "EXACT", 10)
    monkeypatch.setattr(module, "BLOCK", 7)
    blend.set_params(n_candidates=60)
    try:
        distance, ids = blend.kneighbors(X[:9], 4)
        np.testing.assert_allclose(
            distance.ravel(), blend.pair_distance(np.repeat(X[:9], 4, axis=0), X[ids.ravel()])
        )
        assert (np.diff(distance, axis=1) >= 0).all()
        assert (np.sort(ids, axis=1)[:, 1:] != np.sort(ids, axis=1)[:, :-1]).all()
        assert np.mean([len(set(a) & set(b)) for a, b in zip(ids, exact[1], strict=True)]) > 3.5
        by_itself = blend.kneighbors(n_neighbors=3)[1]
        assert (by_itself != np.arange(len(X))[:, None]).all()
    finally:
        blend.set_params(n_candidates=100)


def test_rows_come_and_go_where_every_member_can():
    X, _, pairs, labels = three_clusters(0, 60, 120)
    blend = Blend([HierarchyForest(4), HierarchyForest(4, max_features=None)], random_state=0)
    blend.fit(
        X[:50], pairs=pairs[(pairs < 50).all(axis=1)], pair_labels=labels[(pairs < 50).all(axis=1)]
    )
    np.testing.assert_array_equal(blend.add(X[50:]), np.arange(50, 60))
    blend.remove([3, 55])
    left = np.setdiff1d(np.arange(60), [3, 55])
    np.testing.assert_array_equal(blend.ids_, left)
    want = blend.pairwise_distances(X[:5], X[left])
    distance, ids = blend.kneighbors(X[:5], 6)
    np.testing.assert_allclose(distance, np.sort(want, axis=1)[:, :6], rtol=1e-6)
    assert not {3, 55} & set(ids.ravel())
    graph = blend.kneighbors_graph(X[:5], 6, mode="distance")
    assert graph.shape == (5, 58)
    np.testing.assert_array_equal(left[graph.indices.reshape(5, 6)], ids)
    assert set(blend.radius_neighbors(X[:1], 1.0, return_distance=False)[0]) == set(left)
    for wrong, said in (([3], "id 3 is not in the index"), ([4, 4], "2 times")):
        with pytest.raises(ValueError, match=said):
            blend.remove(wrong)
    with pytest.raises(ValueError, match="id 4 is in use"):
        blend.add(X[:1], [4])
    np.testing.assert_array_equal(blend.add(X[:1]), [60])


def test_rows_stay_where_a_member_cannot(fitted):
    X, _, _, blend = fitted
    with pytest.raises(TypeError, match="cannot add rows: its member Euclidean cannot"):
        blend.add(X[:1])
    with pytest.raises(TypeError, match="cannot remove rows"):
        blend.remove([0])


@pytest.mark.parametrize("mmap", [False, True])
def test_a_file_holds_all_of_it(fitted, tmp_path, mmap):
    X, pairs, labels, blend = fitted
    blend.calibrate_threshold(pairs[:50], labels[:50])
    again = check_stored(blend, tmp_path / "blend.mf", mmap, X)
    np.testing.assert_array_equal(again.weights_, blend.weights_)
    assert again.threshold_ == blend.threshold_
    assert repr(again) == repr(blend)
    assert repr(clone(again)) == repr(clone(blend))


def test_a_damaged_state_is_refused(fitted):
    _, _, _, blend = fitted
    state = blend._state()
    for wrong, said in (
        ({"members_": []}, "members_ is"),
        ({"members_": state["members_"][:2]}, "_weights is"),
        ({"_weights": [-blend._weights.each, 0.0]}, "at least 0"),
        ({"_weights": [blend._weights.each, 1e300]}, "a weight is more than"),
        ({"_ids": state["_ids"][::-1].copy()}, "not ascending"),
        ({"_ids": state["_ids"] + 1, "_next_id": 1000}, "a member searches 90 rows other than"),
        ({"_next_id": 3}, "_next_id is 3"),
        ({"_next_id": 2**63 - 1}, "_next_id is 9"),
        ({"_rows": blend._rows[:, :2]}, "_rows is"),
    ):
        with pytest.raises(ValueError, match=said):
            Blend()._restore({**state, **wrong})


def test_same_seed_same_bits():
    X, _, pairs, labels = three_clusters(0, 60, 120)
    one, two = (
        small(n_jobs=n).fit(X, pairs=pairs, pair_labels=labels).pairwise_distances(X)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_few_pairs_and_one_kind_are_borne_and_said():
    X, _, pairs, labels = three_clusters(0, 60, 120)
    with pytest.warns(UserWarning, match=r"20 labelled pairs.*too few to weigh"):
        few = small().fit(X, pairs=pairs[:20], pair_labels=labels[:20])
    np.testing.assert_allclose(few.weights_, few.weights_[0])
    assert np.isnan(few.held_out_auc_).all()
    same = labels == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        one = small().fit(X, pairs=pairs[same], pair_labels=labels[same])
    said = " ".join(str(w.message) for w in caught)
    assert "RandomForestDistance is left out of the blend" in said
    assert "0 of the rarer kind, are too few" in said
    assert [type(m).__name__ for m in one.members_] == ["HierarchyForest", "Euclidean"]
    assert np.isfinite(one.pairwise_distances(X)).all()
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="no member of the blend can learn"),
    ):
        Blend([RandomForestDistance(3)]).fit(X, pairs=pairs[same], pair_labels=labels[same])


def test_contradictory_pairs_alone_never_fail():
    X, *_ = three_clusters()
    pairs = np.repeat([[i, i + 1] for i in range(0, 40, 2)], 2, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blend = small().fit(X, pairs=pairs, pair_labels=np.tile([1, -1], 20))
    assert np.isfinite(blend.pairwise_distances(X)).all()


def test_what_it_cannot_use_is_refused():
    X, _, pairs, labels = three_clusters()
    given = {"pairs": pairs, "pair_labels": labels}
    with pytest.raises(TypeError, match="cannot learn from triplets"):
        small().fit(X, **given, triplets=[[0, 1, 2]])
    with pytest.raises(ValueError, match="requires y to be passed"):
        small().fit(X)
    with pytest.raises(ValueError, match=r"members must be a list of metrics, got \[\]"):
        Blend([]).fit(X, **given)
    with pytest.raises(TypeError, match="members must be metrics of this library"):
        Blend(["forest"]).fit(X, **given)
    with pytest.raises(ValueError, match="n_estimators must be at least 1, got 0"):
        Blend([HierarchyForest(0)]).fit(X, **given)
    with pytest.raises(ValueError, match="n_folds must be at least 2, got 1"):
        small(n_folds=1).fit(X, **given)
    with pytest.raises(TypeError, match="LMNN cannot learn from pairs"):
        Blend([LMNN()]).fit(X, **given)


def test_the_default_members_are_the_kinds_that_win_somewhere(tmp_path):
    X, _, pairs, labels = three_clusters(0, 60, 300)
    members = [member.set_params(n_estimators=4) for member in Blend()._fresh(0)]
    kinds = ["VectorForest", "HierarchyForest", "RandomForestDistance", "BoostedTreesDistance"]
    assert [type(member).__name__ for member in members] == kinds
    blend = Blend(members, n_folds=2, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    assert (blend.held_out_auc_ > 0.6).all()
    Q, _, asked, answers = three_clusters(1, 60, 300)
    scores = [pair_auc(m, Q, asked, answers) for m in (blend, *blend.members_)]
    assert scores[0] > max(scores[1:]) - 0.03
    blend.save(tmp_path / "blend.mf")
    again = metricforest.load(tmp_path / "blend.mf")
    np.testing.assert_array_equal(again.pairwise_distances(Q), blend.pairwise_distances(Q))
