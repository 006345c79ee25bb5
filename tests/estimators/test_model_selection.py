"""Cross-validation that carries pairs along."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from conftest import three_clusters
from metricforest import HierarchyForest, PairKFold, TableMetric, cross_val_pair_score, pair_auc
from metricforest.rivals import Euclidean, RandomForestDistance


class Euclid:
    """The simplest metric there is."""

    def pair_score(self, A, B):
        return -np.linalg.norm(np.asarray(A) - np.asarray(B), axis=1)


def renumbered(rows, pairs, labels):
    """Plain loops: the pairs whose both ends are in `rows`, by their places in it."""
    place = {int(row): i for i, row in enumerate(rows)}
    kept = []
    for (a, b), label in zip(pairs, labels, strict=True):
        if int(a) in place and int(b) in place:
            kept.append((place[int(a)], place[int(b)], int(label)))
    return kept


@pytest.mark.parametrize("shuffle", [True, False])
def test_folds_against_plain_loops(small, shuffle):
    X, _, pairs, labels = small
    folds = list(PairKFold(4, shuffle=shuffle, random_state=3).split(X, pairs, labels))
    assert len(folds) == 4
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested) == list(range(len(X)))
    n_kept = 0
    for fold in folds:
        assert set(fold.train) | set(fold.test) == set(range(len(X)))
        assert not set(fold.train) & set(fold.test)
        for rows, its_pairs, its_labels in (
            (fold.train, fold.train_pairs, fold.train_labels),
            (fold.test, fold.test_pairs, fold.test_labels),
        ):
            found = [(*p, v) for p, v in zip(its_pairs.tolist(), its_labels, strict=True)]
            assert found == renumbered(rows, pairs, labels)
            n_kept += len(found)
    across = sum(len(set(fold.test) & {int(a), int(b)}) == 1 for fold in folds for a, b in pairs)
    assert n_kept + across == 4 * len(pairs)
    assert across > 0


def test_pairs_point_at_the_same_rows(small):
    X, classes, pairs, labels = small
    for fold in PairKFold(3, random_state=0).split(X, pairs, labels):
        inside = classes[fold.train][fold.train_pairs]
        np.testing.assert_array_equal(inside[:, 0] == inside[:, 1], fold.train_labels == 1)


def test_same_seed_same_folds(small):
    X, _, pairs, labels = small
    first = PairKFold(3, random_state=5).split(X, pairs, labels)
    again = PairKFold(3, random_state=5).split(X, pairs, labels)
    other = PairKFold(3, random_state=6).split(X, pairs, labels)
    a, b, c = next(first), next(again), next(other)
    np.testing.assert_array_equal(a.test, b.test)
    assert not np.array_equal(a.test, c.test)
    assert PairKFold(3).get_n_splits() == 3


def test_bool_labels_come_out_as_signs(small):
    X, _, pairs, labels = small
    fold = next(PairKFold(3, random_state=0).split(X, pairs, labels == 1))
    assert set(fold.train_labels) == {-1, 1}


@pytest.mark.parametrize(
    ("pairs", "labels", "match"),
    [
        ([[0, 99]], [1], "out of range: X has 60 rows"),
        ([[-1, 2]], [1], "out of range"),
        ([[0, 1]], [1, -1], "one entry per pair"),
        ([[0, 1]], None, "without pair_labels"),
        ([[0, 1]], [2], r"pair_labels must be \+1 and -1.*got 2"),
    ],
)
def test_folds_of_pairs_that_do_not_fit_raise(small, pairs, labels, match):
    with pytest.raises(ValueError, match=match):
        next(PairKFold(3).split(small[0], pairs, labels))


def test_more_folds_than_rows_raise():
    with pytest.raises(ValueError, match="n_splits=5"):
        next(PairKFold(5).split(np.zeros((3, 1)), [[0, 1]], [1]))


def test_pair_auc_by_hand():
    X = np.array([[0.0], [1.0], [3.0], [10.0]])
    # must 0-1 (1), 0-2 (3); cannot 1-2 (2), 0-3 (10): three of four comparisons are right.
    pairs, labels = [[0, 1], [0, 2], [1, 2], [0, 3]], [1, 1, -1, -1]
    assert pair_auc(Euclid(), X, pairs, labels) == 0.75
    with pytest.raises(
        ValueError, match="at least one pair labelled same and one labelled different"
    ):
        pair_auc(Euclid(), X, pairs[:2], labels[:2])


def test_cross_validated_score_is_that_of_each_fold():
    X, _, pairs, labels = three_clusters(1, 90, 400)
    metric = HierarchyForest(n_estimators=8, random_state=0)
    folds = PairKFold(3, random_state=1)
    scores = cross_val_pair_score(metric, X, pairs, labels, cv=folds)
    expected = []
    for fold in folds.split(X, pairs, labels):
        learned = HierarchyForest(n_estimators=8, random_state=0).fit(
            X[fold.train], pairs=fold.train_pairs, pair_labels=fold.train_labels
        )
        expected.append(pair_auc(learned, X[fold.test], fold.test_pairs, fold.test_labels))
    np.testing.assert_array_equal(scores, expected)
    assert scores.min() > 0.8
    assert not hasattr(metric, "forest_")
    assert cross_val_pair_score(metric, X, pairs, labels, cv=2).shape == (2,)


def test_poor_folds_score_nan():
    X, _classes, pairs, labels = three_clusters(2, 30, 60)
    few = [*np.flatnonzero(labels == 1), np.flatnonzero(labels == -1)[0]]
    forest = HierarchyForest(n_estimators=2, random_state=0)
    for metric in (forest, RandomForestDistance(5, random_state=0), Euclidean()):
        with pytest.warns(UserWarning, match="3 of 3 folds lack pairs of one kind"):
            scores = cross_val_pair_score(metric, X, pairs[few], labels[few], cv=3)
        assert np.isnan(scores).all()
    must = labels == 1
    with pytest.raises(ValueError, match=rf"same and different, got {must.sum()} and 0"):
        cross_val_pair_score(forest, X, pairs[must], labels[must], cv=3)
    with pytest.raises(ValueError, match="got 0 and 0"):
        cross_val_pair_score(forest, X, np.empty((0, 2), int), [], cv=3)


def as_frames(X):
    """The same rows in tables with every kind of index."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    n = len(X)
    yield "range", frame, None
    yield "backwards", frame.set_index(np.arange(n)[::-1]), None
    yield "shuffled", frame.set_index(np.random.default_rng(0).permutation(n)), None
    yield "from 1,000", frame.set_index(np.arange(1_000, 1_000 + n)), None
    yield "text", frame.set_index(np.array([f"r{i}" for i in range(n)])), None
    ids = np.random.default_rng(1).permutation(n)
    yield "a column of ids", frame.assign(sku=ids).set_index(np.zeros(n, int)), "sku"
    yield "polars", pl.DataFrame(frame.assign(sku=ids)), "sku"
    yield "columns", {**{name: frame[name].to_numpy() for name in frame}, "sku": ids}, "sku"


def test_pairs_of_a_table_are_row_numbers_whatever_its_index():
    """They were numbered by fold, then read as labels of the index: other rows, without an error."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 3))
    side = np.arange(90) % 2
    X[:, 0] += 6.0 * side
    pairs = rng.integers(0, 90, (300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = np.where(side[pairs[:, 0]] == side[pairs[:, 1]], 1, -1)

    def metric(id_):
        return TableMetric(HierarchyForest(8, random_state=0), id=id_, cv=0)

    want = cross_val_pair_score(metric(None), X, pairs, same, cv=3)
    assert want.mean() > 0.9
    for name, table, id_ in as_frames(X):
        score = cross_val_pair_score(metric(id_), table, pairs, same, cv=3)
        np.testing.assert_array_equal(score, want, err_msg=name)
        learned = metric(id_).fit(table)
        assert pair_auc(learned, table, pairs, same) == pair_auc(
            metric(None).fit(X), X, pairs, same
        )
