"""Pairs to label next: what they may not be, whom they depend on, what they aim at."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricforest
from conftest import three_clusters
from metricforest import HierarchyForest
from metricforest.core.ssmmc import MUST
from metricforest.inspection import suggest
from metricforest.supervision import constraints as cn


def fitted(seed=0, n=60, n_pairs=60, **options):
    X, classes, pairs, labels = three_clusters(seed, n, n_pairs)
    metric = HierarchyForest(8, random_state=0, **options)
    return metric.fit(X, pairs=pairs, pair_labels=labels), classes, pairs, labels


def as_set(pairs):
    return {tuple(sorted(pair)) for pair in np.asarray(pairs).tolist()}


@given(seed=st.integers(0, 50), n=st.integers(1, 40), n_pairs=st.integers(1, 60))
def test_neither_judged_nor_twice_nor_with_itself(seed, n, n_pairs):
    metric, _, labelled, _ = fitted(seed, 30, n_pairs)
    pairs = metric.suggest_pairs(n, random_state=seed)
    assert pairs.shape == (n, 2)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert pairs.min() >= 0
    assert pairs.max() < 30
    assert len(as_set(pairs)) == n
    assert not as_set(pairs) & as_set(labelled)
    if n <= 8:
        assert len(np.unique(pairs)) == 2 * n  # rows are many enough for each to come once


def test_the_last_pair_is_found_and_no_more():
    X, classes, _, _ = three_clusters(0, 9, 1)
    everything = np.array([(i, j) for i in range(9) for j in range(i)])
    left = everything[[3, 17]]
    labelled = np.delete(everything, [3, 17], axis=0)
    same = classes[labelled[:, 0]] == classes[labelled[:, 1]]
    metric = HierarchyForest(4, random_state=0).fit(X, pairs=labelled, pair_labels=same)
    assert as_set(metric.suggest_pairs(2)) == as_set(left)
    with pytest.raises(ValueError, match="n must be at most 2, the pairs not labelled yet, got 3"):
        metric.suggest_pairs(3)


def test_seeds():
    metric, *_ = fitted()
    assert (metric.suggest_pairs(8) == metric.suggest_pairs(8)).all()
    first, other = (metric.suggest_pairs(8, random_state=seed) for seed in (1, 2))
    assert (first == metric.suggest_pairs(8, random_state=1)).all()
    assert as_set(first) != as_set(other)


def test_same_bits_for_any_n_jobs_and_after_loading(tmp_path):
    metric, *_ = fitted()
    threads, *_ = fitted(n_jobs=4)
    expected = metric.suggest_pairs(12)
    assert (threads.suggest_pairs(12) == expected).all()
    metric.save(tmp_path / "m.mf")
    loaded = metricforest.load(tmp_path / "m.mf")
    loaded.remove([0, 1])
    loaded.add(np.zeros((3, 5)))
    assert (loaded.suggest_pairs(12) == expected).all()


def test_implied_pairs_come_last():
    pairs = np.array([[0, 1], [1, 2], [2, 3], [5, 6]])
    labels = np.array([1, 1, -1, 1])
    asked = np.array([[0, 1], [0, 2], [0, 3], [1, 3], [0, 4], [3, 4], [4, 5], [5, 6]])
    found = suggest.settled(asked, 8, pairs, labels)
    assert found.tolist() == [True, True, True, True, False, False, False, True]
    metric, _, labelled, same = fitted(n_pairs=25)
    pairs = metric.suggest_pairs(20)
    assert not suggest.settled(pairs, 60, labelled, same).any()


def test_answers_are_mixed_where_random_ones_are_not():
    rng = np.random.default_rng(0)
    classes = np.arange(300) % 15
    X = rng.normal(scale=0.5, size=(300, 6)) + 3 * rng.normal(size=(15, 6))[classes]
    labelled = np.sort([rng.choice(300, 2, replace=False) for _ in range(60)], axis=1)
    same = np.where(classes[labelled[:, 0]] == classes[labelled[:, 1]], 1, -1)
    metric = HierarchyForest(20, random_state=0).fit(X, pairs=labelled, pair_labels=same)
    pairs = metric.suggest_pairs(60)
    share = (classes[pairs[:, 0]] == classes[pairs[:, 1]]).mean()
    assert share > 3 / 15


@pytest.mark.parametrize("labelled", [{}, {"pairs": [[0, 1]], "pair_labels": [1]},
                                    {"pairs": [[0, 1]], "pair_labels": [-1]},
                                    {"triplets": [[0, 3, 1]]}])  # fmt: skip
def test_little_or_nothing_judged(small, labelled):
    metric = HierarchyForest(4, random_state=0).fit(small[0], **labelled)
    assert len(as_set(metric.suggest_pairs(10))) == 10


def test_rows_that_cannot_be_told_apart():
    metric = HierarchyForest(4, random_state=0).fit(np.ones((6, 2)))
    assert len(as_set(metric.suggest_pairs(15))) == 15
    two = HierarchyForest(2, random_state=0).fit([[0.0], [1.0]])
    assert two.suggest_pairs(1).tolist() == [[0, 1]]
    with pytest.raises(ValueError, match="n must be at most 0"):
        HierarchyForest(2, random_state=0).fit([[0.0]]).suggest_pairs(1)


def test_ten_thousand_rows_in_about_a_second():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 8))
    pairs = rng.permutation(10_000)[:400].reshape(200, 2)
    metric = HierarchyForest(10, min_node_size=200, random_state=0)
    metric.fit(X, pairs=pairs, pair_labels=np.where(X[pairs].sum(axis=2).prod(axis=1) > 0, 1, -1))
    metric.suggest_pairs(2)
    started = time.perf_counter()
    assert len(as_set(metric.suggest_pairs(100))) == 100
    assert time.perf_counter() - started < 5  # loose: a busy machine is not a failure


def test_refusals(small_forest):
    for arguments, error, message in (
        ({"n": 0}, ValueError, "n must be at least 1, got 0"),
        ({"n": 10_001}, ValueError, "n must be at most 10000, got 10001"),
        ({"n": 2.5}, TypeError, r"n must be an int, got 2\.5"),
        ({"random_state": -1}, ValueError, "random_state must be at least 0, got -1"),
    ):
        with pytest.raises(error, match=message):
            small_forest.suggest_pairs(**arguments)
    other = small_forest._over(small_forest._rows[::-1].copy())
    with pytest.raises(ValueError, match="suggest_pairs is about the rows of fit"):
        other.suggest_pairs(2)


@given(seed=st.integers(0, 50), n=st.integers(1, 40), n_pairs=st.integers(1, 60))
def test_linked_pairs_are_neither_judged_nor_implied(seed, n, n_pairs):
    metric, _, labelled, same = fitted(seed, 30, n_pairs, implied_pairs=True)
    pairs = metric.suggest_pairs(n, random_state=seed)
    assert pairs.shape == (n, 2)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(as_set(pairs)) == n
    assert not as_set(pairs) & as_set(labelled)
    linked = suggest.linked(n, 30, labelled, same, metric_of(metric), np.random.default_rng(seed))
    assert len(as_set(linked)) == len(linked) <= n
    assert not suggest.settled(linked, 30, labelled, same).any()


def metric_of(metric):
    return lambda a, b: metric._pairwise_distance(metric._rows[a], metric._rows[b])


@pytest.mark.parametrize("seed", range(5))
def test_large_groups_are_held_against_each_other_first(seed):
    rows = np.arange(12)
    chains = [np.column_stack([part[:-1], part[1:]]) for part in (rows[:5], rows[5:9], rows[9:])]
    pairs = np.concatenate(chains)
    metric, *_ = fitted(n=60)
    differ = np.arange(12, 24).reshape(6, 2)  # as many answers of the other kind, elsewhere
    pairs, answers = np.vstack([pairs, differ]), np.append(np.ones(len(pairs), int), [-1] * 6)
    rng = np.random.default_rng(seed)
    (question,) = suggest.linked(2, 60, pairs, answers, metric_of(metric), rng)[:1]
    assert question[0] < 5 <= question[1] < 9
    # 20 pairs follow from the answer: then the third group is held against the largest
    pairs, answers = np.vstack([pairs, question]), np.append(answers, -1)
    (question,) = suggest.linked(2, 60, pairs, answers, metric_of(metric), rng)[:1]
    assert question[0] < 5
    assert 9 <= question[1] < 12


def test_rows_judged_both_ways_join_no_groups():
    pairs = np.array([[0, 1], [1, 2], [3, 4], [2, 3], [2, 3]])
    labels = np.array([1, 1, 1, 1, -1])
    assert len(set(cn.groups_of(6, pairs, labels)[:5])) == 2
    assert len(set(cn.groups_of(6, pairs[:4], labels[:4])[:5])) == 1
    with pytest.warns(UserWarning, match="labelled both"):
        table = cn.gather(6, pairs, labels)
    everything, found = cn.with_implied(table, 6, 0).pairs()
    between = (everything[:, 0] < 3) & (everything[:, 1] >= 3)
    assert (found[between] == 1).sum() == 1  # as labelled; that the groups differ is implied
    assert (found[between] == -1).sum() == 6


def test_answers_stay_mixed_where_same_is_the_rule():
    rng = np.random.default_rng(0)
    classes = (np.arange(300) % 10 == 0).astype(int)
    X = rng.normal(size=(300, 4)) + 3 * classes[:, None]
    labelled = np.sort([rng.choice(300, 2, replace=False) for _ in range(40)], axis=1)
    same = np.where(classes[labelled[:, 0]] == classes[labelled[:, 1]], 1, -1)
    metric = HierarchyForest(20, alpha=4.0, implied_pairs=True, random_state=0)
    pairs = metric.fit(X, pairs=labelled, pair_labels=same).suggest_pairs(40)
    answers = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    assert answers.mean() < (same == 1).mean() - 0.1


def test_unanswered_questions_are_no_answers():
    """Where rows run out, the rest of a batch keeps the mix of the answers, not of the questions."""
    metric, classes, *_ = fitted(0, 40, 30, implied_pairs=True)
    pairs = metric.suggest_pairs(120)
    share = (classes[pairs[:, 0]] == classes[pairs[:, 1]]).mean()
    plain, *_ = fitted(0, 40, 30)
    others = plain.suggest_pairs(120)
    expected = (classes[others[:, 0]] == classes[others[:, 1]]).mean()
    assert abs(share - expected) < 0.2
    assert len(as_set(pairs)) == 120


def test_implied_pairs_same_bits_and_files(tmp_path):
    metric, *_ = fitted(implied_pairs=True)
    threads, *_ = fitted(implied_pairs=True, n_jobs=4)
    assert all((a == b).all() for a, b in zip(metric.forest_, threads.forest_, strict=True))
    expected = metric.suggest_pairs(12)
    assert (threads.suggest_pairs(12) == expected).all()
    metric.save(tmp_path / "m.mf")
    assert (metricforest.load(tmp_path / "m.mf").suggest_pairs(12) == expected).all()
    X, _, pairs, labels = three_clusters(0, 60, 60)
    more = HierarchyForest(5, implied_pairs=True, warm_start=True, random_state=0)
    more.fit(X, pairs=pairs, pair_labels=labels)
    more.set_params(n_estimators=8).fit(X, pairs=pairs, pair_labels=labels)
    assert all((a == b).all() for a, b in zip(metric.forest_, more.forest_, strict=True))


def test_linked_answers_imply_more_than_random_ones():
    rng = np.random.default_rng(0)
    classes = np.arange(300) % 6
    X = rng.normal(scale=0.7, size=(300, 6)) + 3 * rng.normal(size=(6, 6))[classes]
    implied = {}
    for kind in ("linked", "random"):
        labelled = np.sort([rng.choice(300, 2, replace=False) for _ in range(20)], axis=1)
        for _ in range(4):
            same = np.where(classes[labelled[:, 0]] == classes[labelled[:, 1]], 1, -1)
            metric = HierarchyForest(10, implied_pairs=True, random_state=0)
            metric.fit(X, pairs=labelled, pair_labels=same)
            more = np.sort([rng.choice(300, 2, replace=False) for _ in range(20)], axis=1)
            more = metric.suggest_pairs(20) if kind == "linked" else more
            labelled = np.unique(np.concatenate([labelled, more]), axis=0)
        assert (metric.constraints_.kind == MUST).sum() == (same == 1).sum()  # labelled ones only
        implied[kind] = cn.with_implied(metric.constraints_, 300, 0)
    linked, random = (len(implied[kind].kind) for kind in ("linked", "random"))
    assert linked > 3 * random
    assert 0.1 < (implied["linked"].kind == MUST).mean() < 0.9
