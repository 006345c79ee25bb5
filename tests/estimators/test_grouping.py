"""Groups from probabilities of pairs: against plain loops, against chains, and labelled pairs kept."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_facts import drawn

from metricforest.estimators.facts import facts_of
from metricforest.estimators.grouping import _Graph, group_rows, moved, numbered

NONE = np.empty((0, 2), np.int64), np.empty(0, np.int64)


def random_graph(n, seed, share=0.5):
    """(pairs, probabilities) of a random share of all pairs, likelier in hidden groups."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, max(2, n // 3), n)
    every = np.array(list(itertools.combinations(range(n), 2)))
    pairs = every[rng.random(len(every)) < share]
    same = hidden[pairs[:, 0]] == hidden[pairs[:, 1]]
    return pairs, np.clip(rng.beta(2, 5, len(pairs)) + 0.5 * same, 0.0, 1.0)


def plain_groups(n, pairs, probability, threshold, facts):
    """The likeliest two groups that may be joined, again and again, from all pairs each time."""
    P = np.zeros((n, n))
    P[pairs[:, 0], pairs[:, 1]] = P[pairs[:, 1], pairs[:, 0]] = probability
    groups = [np.flatnonzero(facts.group == g).tolist() for g in range(facts.n_groups)]
    apart = {frozenset(pair) for pair in facts.apart.tolist()}

    def allowed(A, B):
        return not any(
            frozenset((int(facts.group[a]), int(facts.group[b]))) in apart for a in A for b in B
        )

    while True:
        best, which = threshold, None
        for A, B in itertools.combinations(groups, 2):
            mean = np.mean([P[a, b] for a in A for b in B])
            if mean >= best and allowed(A, B):
                best, which = mean, (A, B)
        if which is None:
            break
        groups = [g for g in groups if g not in which] + [which[0] + which[1]]
    return {frozenset(g) for g in groups}


def as_sets(group):
    return {frozenset(np.flatnonzero(group == g).tolist()) for g in range(group.max() + 1)}


@given(st.integers(3, 16), st.integers(0, 10**6), st.floats(0.2, 0.8))
def test_joining_against_plain_loops(n, seed, threshold):
    pairs, probability = random_graph(n, seed)
    _, known, labels = drawn(n, 4, seed, m=n // 3)
    facts = facts_of(n, known, labels)
    every = np.arange(len(pairs))
    graph = _Graph(pairs, probability, every, facts, np.zeros(len(pairs), bool))
    graph.agglomerate(threshold)
    joined = numbered(graph.groups()[facts.group])
    assert as_sets(joined) == plain_groups(n, pairs, probability, threshold, facts)
    first = [int(np.flatnonzero(joined == g)[0]) for g in range(joined.max() + 1)]
    assert first == sorted(first)


def gain(group, pairs, probability, threshold):
    """The sum over all pairs within groups of the probability less the threshold."""
    inside = group[pairs[:, 0]] == group[pairs[:, 1]]
    size = np.bincount(group)
    return probability[inside].sum() - threshold * (size * (size - 1) // 2).sum()


@given(st.integers(3, 16), st.integers(0, 10**6), st.floats(0.2, 0.8))
def test_no_move_of_a_row_is_better_and_labelled_pairs_are_kept(n, seed, threshold):
    pairs, probability = random_graph(n, seed)
    _, known, labels = drawn(n, 4, seed, m=n // 3)
    facts = facts_of(n, known, labels)
    start = np.random.default_rng(seed).permutation(facts.n_groups)  # every unit alone
    group = numbered(moved(start, pairs, probability, threshold, facts)[facts.group])
    before = gain(start[facts.group], pairs, probability, threshold)
    after = gain(group, pairs, probability, threshold)
    assert after >= before - 1e-9
    full = group_rows(n, pairs, probability, threshold, facts).group
    for found in (group, full):
        together = found[known[:, 0]] == found[known[:, 1]]
        assert (together == (labels == 1)).all()
        kept = gain(found, pairs, probability, threshold)
        for unit in range(facts.n_groups):
            for other in range(found.max() + 2):
                moved_one = np.where(facts.group == unit, other, found)
                together = moved_one[known[:, 0]] == moved_one[known[:, 1]]
                if (together == (labels == 1)).all():
                    assert gain(moved_one, pairs, probability, threshold) <= kept + 1e-6


def test_one_false_match_joins_nothing():
    """Two cliques of four and one sure pair between them: connected components would make one group."""
    cliques = [*itertools.combinations(range(4), 2), *itertools.combinations(range(4, 8), 2)]
    pairs = np.array([*cliques, (3, 4)])
    probability = np.append(np.full(len(cliques), 0.9), 0.99)
    found = group_rows(8, pairs, probability, 0.5, facts_of(8, *NONE))
    assert found.group.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found.confidence[3] < found.confidence[0]
    assert found.confidence.min() > 0.5


def test_a_chain_is_no_group():
    """Every row is like the next one only: a hundred rows are not one thing."""
    pairs = np.column_stack([np.arange(99), np.arange(1, 100)])
    found = group_rows(100, pairs, np.full(99, 0.9), 0.5, facts_of(100, *NONE))
    assert np.bincount(found.group).max() <= 2


def test_a_label_outweighs_probabilities():
    pairs, probability = np.array([[0, 1], [1, 2], [0, 2]]), np.array([0.9, 0.9, 0.1])
    facts = facts_of(4, np.array([[0, 1], [2, 3]]), np.array([-1, 1]))
    found = group_rows(4, pairs, probability, 0.4, facts)
    assert found.group[0] != found.group[1]
    assert found.group[2] == found.group[3]


def test_representatives_and_doubts():
    pairs = np.array([[0, 1], [0, 2], [1, 2], [2, 3]])
    probability = np.array([0.9, 0.6, 0.8, 0.45])
    found = group_rows(5, pairs, probability, 0.5, facts_of(5, *NONE))
    assert found.group.tolist() == [0, 0, 0, 1, 2]
    assert found.representative.tolist() == [1, 3, 4]
    assert found.confidence[4] == 1.0
    margins = [abs(doubt.margin) for doubt in found.doubts]
    assert margins == sorted(margins)
    assert found.doubts[0].margin == pytest.approx((0.6 + 0.8) / 2 - 0.5)


def test_no_pairs_and_one_row():
    none = np.empty(0)
    assert group_rows(3, NONE[0], none, 0.5, facts_of(3, *NONE)).group.tolist() == [0, 1, 2]
    one = group_rows(1, NONE[0], none, 0.5, facts_of(1, *NONE))
    assert (one.group.tolist(), one.confidence.tolist(), one.doubts) == ([0], [1.0], [])


def test_drawn_pairs_speak_for_those_that_nobody_compared():
    """Two groups of 150 rows, some of whose pairs are candidates, chained by three false matches."""
    rng = np.random.default_rng(0)
    n = 300
    true = np.arange(n) // 150
    step = np.arange(1, 6)
    near = (np.arange(n)[:, None] % 150 + step) % 150 + 150 * true[:, None]
    candidates = np.column_stack([np.repeat(np.arange(n), 5), near.ravel()])
    candidates = np.concatenate([candidates, [[0, 200], [50, 250], [100, 160]]])
    draws = np.column_stack([np.repeat(np.arange(n), 20), rng.integers(0, n, 20 * n)])
    pairs = np.unique(np.sort(np.concatenate([candidates, draws]), axis=1), axis=0)
    known = {tuple(pair) for pair in np.sort(candidates, axis=1).tolist()}
    drawn = np.array([tuple(pair) not in known for pair in pairs.tolist()])
    same = true[pairs[:, 0]] == true[pairs[:, 1]]
    probability = np.where(same | ~drawn, 0.9, 0.05)
    facts, large = facts_of(n, *NONE), np.full(n, True)
    found = group_rows(n, pairs, probability, 0.5, facts, drawn, large)
    assert (found.group == true).all()
    assert found.confidence.min() > 0.6
    plain = pairs[~drawn], probability[~drawn]
    assert group_rows(n, *plain, 0.5, facts).group.max() > 1  # what nobody compared counts 0
