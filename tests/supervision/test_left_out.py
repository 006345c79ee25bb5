"""Labelled pairs left out in turn: nothing is tested on what it has learned from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricforest.supervision import left_out
from metricforest.supervision.left_out import folds_of, leave_out


def drawn(seed, n_rows, n_pairs):
    rng = np.random.default_rng(seed)
    pairs = np.stack(np.triu_indices(n_rows, 1), axis=1)
    pairs = pairs[rng.permutation(len(pairs))[:n_pairs]]
    return pairs, rng.random(len(pairs)) < 0.6


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_parts_of_pairs(seed, n_parts):
    pairs, differ = drawn(seed, 80, 200)
    groups = leave_out(pairs, differ, n_parts, 1_000, seed)
    times = np.zeros(200, int)
    for group in groups:
        assert not group.seen[group.own].any()
        times[group.own] += 1
        for train, test in group.folds:
            assert not set(train) & set(test)
            assert set(train) | set(test) == set(range(len(group.own)))
        share = differ[group.own].mean()
        assert abs(share - differ.mean()) < 0.05
    assert (times == 1).all()
    assert (sum(group.seen.astype(int) for group in groups) == n_parts - 1).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_parts_of_rows_where_every_row_has_many_pairs(seed):
    pairs, differ = drawn(seed, 90, 3_000)
    groups = leave_out(pairs, differ, 3, 10_000, seed)
    judging = []
    for group in groups:
        own = pairs[group.own]
        strange = set(range(90)) - set(pairs[group.seen].ravel())  # to the trees
        assert set(np.flatnonzero(~group.seen)) == set(group.own)
        for train, test in group.folds:
            assert set(own[test].ravel()) <= strange
            assert not set(own[test].ravel()) & set(own[train].ravel())
            judging.append(set(own[test].ravel()))
            for part in (train, test):
                assert (
                    left_out.FEWEST <= differ[group.own[part]].sum() <= len(part) - left_out.FEWEST
                )
    assert set.union(*judging) == set(range(90))
    assert sum(map(len, judging)) == 90


def test_no_more_than_so_many_are_learned_from():
    for size in ((80, 200), (90, 3_000)):
        pairs, differ = drawn(0, *size)
        for group in leave_out(pairs, differ, 3, 40, 0)[:1]:
            assert len(group.own) == 40


def test_where_rows_leave_too_few_of_a_kind_pairs_are_drawn():
    pairs, differ = drawn(0, 40, 700)
    differ[:] = True
    differ[:60] = False
    by_rows = left_out.leave_rows_out(pairs, differ, 3, 10_000, 0)
    assert by_rows is None
    groups = leave_out(pairs, differ, 3, 10_000, 0)
    assert sum(len(group.own) for group in groups) == 700


@pytest.mark.parametrize("size", [(80, 200), (90, 3_000)])
def test_the_same_seed_draws_the_same(size):
    pairs, differ = drawn(0, *size)
    for one, other in zip(*(leave_out(pairs, differ, 3, 100, 5) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(one.own, other.own)
        np.testing.assert_array_equal(one.seen, other.seen)


def test_folds_of_pairs_and_folds_of_rows():
    pairs, differ = drawn(0, 80, 200)
    folds = folds_of(pairs, differ, 3, 0)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(200))
    assert all(set(train) == set(range(200)) - set(test) for train, test in folds)
    pairs, differ = drawn(0, 90, 3_000)
    folds = folds_of(pairs, differ, 3, 0)
    assert len(folds) == 3
    for train, test in folds:
        assert not set(pairs[train].ravel()) & set(pairs[test].ravel())
        assert len(test) > 100
    differ[:] = True
    differ[:40] = False
    folds = folds_of(pairs, differ, 3, 0)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(3_000))
