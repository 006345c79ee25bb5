"""Learned heights: what they minimise, what they may not see, and when they are not learned."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from metricforest import HierarchyForest, load
from metricforest.core import LEAF, check_forest
from metricforest.demo import labelled_pairs
from metricforest.forest_fit import GROUPS, MIXED, THIRD, supervision_of
from metricforest.supervision import heights
from metricforest.supervision.constraints import collect
from metricforest.supervision.left_out import unseen_rows
from naive import lowest_common_node, tree_distance


@pytest.fixture(scope="module")
def rings():
    """Two noisy rings among columns of noise: labelled pairs know more than clusters' sizes."""
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 150)
    angle = rng.uniform(0, 2 * np.pi, len(y))
    X = np.stack([(1 + 2 * y) * np.cos(angle), (1 + 2 * y) * np.sin(angle)], axis=1)
    return np.hstack([X + rng.normal(0, 0.3, X.shape), rng.normal(size=(len(y), 4))]), y


@pytest.fixture(scope="module")
def taught(rings):
    X, y = rings
    pairs, labels = labelled_pairs(y[:200], 600, seed=0)
    return HierarchyForest(60, random_state=0).fit(X[:200], pairs=pairs, pair_labels=labels)


def held_out_auc(metric, X, y):
    i, j = np.triu_indices(100, 1)
    distance = metric.pair_distance(X[200:][i], X[200:][j])
    return roc_auc_score(y[200:][i] != y[200:][j], distance)


def test_learned_heights_order_held_out_pairs_better(rings, taught):
    X, y = rings
    pairs, labels = labelled_pairs(y[:200], 600, seed=0)
    plain = HierarchyForest(60, heights="size", max_features=THIRD, random_state=0)
    plain.fit(X[:200], pairs=pairs, pair_labels=labels)
    assert taught.chosen_["heights"] == "learned"
    assert held_out_auc(taught, X, y) > held_out_auc(plain, X, y) + 0.03
    assert taught.oob_gain_ > 0.02
    assert 0.5 < taught.oob_auc_ <= 1
    assert 0 < taught.oob_auc_se_ < 0.1
    line = taught.what_was_chosen()
    assert f"pair AUC {taught.oob_auc_:.3f}" in line
    assert "heights learned" in line


def test_distances_are_those_of_the_heights_and_at_most_1(rings, taught):
    X, _ = rings
    forest = taught.forest_
    check_forest(forest, X.shape[1])
    D = taught.pairwise_distances(X)
    assert D.min() >= 0
    assert D.max() <= 1
    a, b = taught._prepare(X[:1])[0], taught._prepare(X[299:])[0]
    want = np.mean([tree_distance(forest, t, a, b, 4.0) for t in range(forest.n_trees)])
    np.testing.assert_allclose(D[0, 299], want, rtol=1e-6)


def test_no_tree_sees_what_teaches_it():
    rng = np.random.default_rng(1)
    pairs = np.unique(np.sort(rng.integers(0, 300, (400, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    labels = np.where(rng.random(len(pairs)) < 0.4, 1, -1)
    table = collect(300, None, pairs, labels, seed=0)
    known = supervision_of(HierarchyForest(), table, 300, 5)
    assert len(known.seen) == len(known.parts) == GROUPS
    for seen, part in zip(known.seen, known.parts, strict=True):
        own = {tuple(pair) for pair in known.pairs[part.own].tolist()}
        assert own
        assert not own & {tuple(pair) for pair in seen.members[:, :2].tolist()}
        assert len(own) + len(seen.kind) == len(table.kind)
    for seen, judged in unseen_rows(known.pairs, known.differ, GROUPS, 0):
        assert not set(known.pairs[judged].ravel()) & set(known.pairs[seen].ravel())


def measured(metric, m=80):
    X = metric._rows
    rng = np.random.default_rng(2)
    pairs = np.stack([rng.permutation(len(X))[:m], rng.permutation(len(X))[:m]], axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int32)
    differ = pairs[:, 0] % 2 != pairs[:, 1] % 2
    trees = np.arange(0, 9, 3)
    return pairs, heights.measured(metric.forest_, trees, X, pairs, differ, 4.0, 1)


def test_measured_pairs_are_at_the_distance_of_their_trees(taught):
    pairs, found = measured(taught)
    forest, X = taught.forest_, taught._rows
    height = forest.height[found.splits]
    for i in (0, 7, 30):
        a, b = X[pairs[i]]
        want = np.mean([tree_distance(forest, t, a, b, 4.0) for t in found.trees])
        np.testing.assert_allclose((found.parts[[i]] @ height)[0], want, rtol=1e-6)
        nodes = {lowest_common_node(forest, t, a, b) for t in found.trees}
        nodes = {n for n in nodes if forest.left[n] != LEAF}
        assert nodes == set(found.splits[found.parts[[i]].indices])


def test_learned_weights_are_at_the_minimum(taught):
    """No step to another w of at least 0 lowers the loss that the module states."""
    _, known = measured(taught)
    penalty = 1e-2
    w, unit = heights.learned(known, np.arange(len(known.differ)), penalty, 500)
    assert (w >= 0).all()
    factor = known.size**heights.POWER * np.sqrt(len(known.trees)) / known.plain.mean()
    sign = np.where(known.differ, 1.0, -1.0)
    weight = np.where(known.differ, 0.5 / known.differ.sum(), 0.5 / (~known.differ).sum())

    def best_b(w):
        low, high = -50.0, 50.0
        for _ in range(80):
            b = (low + high) / 2
            slope = (weight * sign * expit(-sign * (known.parts @ w - b))).sum()
            low, high = (b, high) if slope < 0 else (low, b)
        return b

    def loss(w):
        margin = sign * (known.parts @ w - best_b(w))
        away = (w - unit * known.size) / factor
        return weight @ np.logaddexp(0, -margin) + penalty * away @ away

    rng = np.random.default_rng(0)
    least = loss(w)
    for _ in range(40):
        other = np.maximum(w + 0.05 * factor * rng.normal(size=len(w)), 0)
        assert loss(other) > least - 1e-6
        assert loss(w + 0.01 * (other - w)) > least - 1e-6


def test_gain_of_auc_and_its_error():
    rng = np.random.default_rng(3)
    differ = rng.random(400) < 0.5
    old = differ + rng.normal(size=400)
    new = 2 * differ + rng.normal(size=400)
    gain, variance = heights.auc_gain(differ, new, old)
    np.testing.assert_allclose(gain, roc_auc_score(differ, new) - roc_auc_score(differ, old))
    draws = []
    for _ in range(300):
        i = rng.integers(0, 400, 400)
        draws.append(roc_auc_score(differ[i], new[i]) - roc_auc_score(differ[i], old[i]))
    assert 0.7 < np.var(draws) / variance < 1.4
    assert heights.auc_gain(differ, old, old) == (0.0, 0.0)


@pytest.mark.parametrize("case", ["few", "one kind", "none", "triplets"])
def test_too_little_to_learn_from_leaves_sizes(rings, case):
    X, y = rings
    pairs, labels = labelled_pairs(y, 60, seed=0)
    given = {
        "few": {"pairs": pairs, "pair_labels": labels},
        "one kind": {"pairs": pairs, "pair_labels": np.ones(len(pairs))},
        "none": {},
        "triplets": {"triplets": [[0, 1, 200], [2, 3, 250]]},
    }[case]
    kind = MIXED if case == "few" else THIRD  # of few features a third is too few
    metric = HierarchyForest(24, random_state=0).fit(X, **given)
    size = HierarchyForest(24, heights="size", max_features=kind, random_state=0).fit(X, **given)
    np.testing.assert_array_equal(metric.pairwise_distances(X), size.pairwise_distances(X))
    assert metric.chosen_ == {"max_features": kind, "heights": "size", "penalty": None}
    assert np.isnan(metric.oob_auc_)
    assert ("too few labelled pairs" in metric.what_was_chosen()) == (case != "none")


def test_contradictory_pairs_choose_nothing(rings):
    X, _ = rings
    rng = np.random.default_rng(0)
    chosen = []
    for seed in range(3):
        pairs = rng.permutation(np.stack(np.triu_indices(300, 1), axis=1))[:300]
        metric = HierarchyForest(30, random_state=seed)
        metric.fit(X, pairs=pairs, pair_labels=np.where(rng.random(300) < 0.5, 1, -1))
        chosen.append(metric.chosen_)
        assert metric.oob_auc_ < 0.6
    plain = [each for each in chosen if each["penalty"] is None]
    assert len(plain) >= 2
    assert all(each["max_features"] == MIXED for each in chosen)  # what six features get unchosen


def test_all_features_are_chosen_where_splits_require_them():
    """The classes differ by the sum of all columns, of which a third says little."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X.sum(axis=1) > 0).astype(int)
    pairs, labels = labelled_pairs(y, 900, seed=0)
    metric = HierarchyForest(36, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    assert metric.chosen_["max_features"] == MIXED
    assert "half of the trees split by all features" in metric.what_was_chosen()
    again = HierarchyForest(36, max_features=MIXED, random_state=0)
    again.fit(X, pairs=pairs, pair_labels=labels)
    np.testing.assert_array_equal(metric.pairwise_distances(X), again.pairwise_distances(X))


def test_the_same_bits_for_any_jobs_and_more_trees_later(rings):
    X, y = rings
    pairs, labels = labelled_pairs(y, 400, seed=0)
    given = {"pairs": pairs, "pair_labels": labels}
    metric = HierarchyForest(30, random_state=0).fit(X, **given)
    threads = HierarchyForest(30, random_state=0, n_jobs=3).fit(X, **given)
    for mine, theirs in zip(metric.forest_, threads.forest_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    later = HierarchyForest(25, random_state=0, warm_start=True).fit(X, **given)
    later.set_params(n_estimators=30).fit(X, **given)
    for mine, theirs in zip(metric.forest_, later.forest_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_files_keep_heights_and_what_was_chosen(taught, rings, tmp_path):
    taught.save(tmp_path / "taught.mf")
    again = load(tmp_path / "taught.mf")
    np.testing.assert_array_equal(again.forest_.height, taught.forest_.height)
    assert again.what_was_chosen() == taught.what_was_chosen()
    X, _ = rings
    np.testing.assert_array_equal(again.pairwise_distances(X), taught.pairwise_distances(X))
