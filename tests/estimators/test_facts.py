"""What labelled pairs imply: groups, differences, and which of contradicting pairs are broken."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricforest.estimators.facts import facts_of

pairs_of_classes = st.tuples(st.integers(2, 25), st.integers(1, 5), st.integers(0, 10**6))


def drawn(n, k, seed, m=None):
    """(classes, pairs, labels) that are consistent."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    every = np.array(list(itertools.combinations(range(n), 2)))
    pairs = every[rng.permutation(len(every))[: m or rng.integers(0, len(every) + 1)]]
    turned = rng.random(len(pairs)) < 0.5
    pairs[turned] = pairs[turned, ::-1]
    return y, pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


@given(pairs_of_classes)
def test_consistent_pairs_are_all_kept(case):
    _, pairs, labels = drawn(*case)
    n = case[0]
    facts = facts_of(n, pairs, labels, np.random.default_rng(case[2]).random(len(pairs)))
    assert not facts.broken.any()
    reach = np.eye(n, dtype=bool)  # the closure in plain loops
    for a, b in pairs[labels == 1]:
        reach[a, b] = reach[b, a] = True
    for k in range(n):
        reach |= reach[:, [k]] & reach[[k]]
    assert (reach == (facts.group[:, None] == facts.group)).all()
    expected = {
        tuple(sorted((int(facts.group[a]), int(facts.group[b])))) for a, b in pairs[labels == -1]
    }
    assert {tuple(pair) for pair in facts.apart.tolist()} == expected
    assert len(facts.apart) == len(expected)


@given(pairs_of_classes, st.floats(0.05, 0.5))
def test_what_is_kept_of_contradicting_pairs_is_consistent(case, share):
    _, pairs, labels = drawn(*case)
    rng = np.random.default_rng(case[2] + 1)
    labels = np.where(rng.random(len(labels)) < share, -labels, labels)
    facts = facts_of(case[0], pairs, labels, rng.random(len(pairs)))
    kept = ~facts.broken
    a, b = facts.group[pairs[kept]].T
    assert ((a == b) == (labels[kept] == 1)).all()
    assert (facts.apart[:, 0] < facts.apart[:, 1]).all()
    again = facts_of(case[0], pairs[kept], labels[kept])
    assert not again.broken.any()


@pytest.mark.parametrize("least_credible", [0, 1, 2])
def test_of_a_triangle_the_least_credible_pair_is_broken(least_credible):
    doubt = np.full(3, 0.1)
    doubt[least_credible] = 0.9
    facts = facts_of(3, np.array([[0, 1], [1, 2], [0, 2]]), np.array([1, 1, -1]), doubt)
    assert np.flatnonzero(facts.broken).tolist() == [least_credible]


def test_a_pair_labelled_both_ways_breaks_one():
    facts = facts_of(2, np.array([[0, 1], [1, 0]]), np.array([1, -1]), np.array([0.8, 0.2]))
    assert facts.broken.tolist() == [True, False]
    assert facts.n_groups == 2


def test_no_pairs():
    facts = facts_of(4, np.empty((0, 2), np.int64), np.empty(0, np.int64))
    assert facts.group.tolist() == [0, 1, 2, 3]
    assert facts.apart.shape == (0, 2)
