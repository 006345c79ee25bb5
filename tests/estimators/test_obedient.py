"""k-means that obeys: never a broken pair where none need be, and as good as k-means where there is none."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from test_facts import drawn

from metricforest.estimators.facts import facts_of
from metricforest.estimators.obedient import _neighbours, colour, obedient_kmeans


def solved(points, facts, k, n_init=5, seed=0):
    rng = np.random.default_rng(seed)
    return obedient_kmeans(points, facts.group, facts.apart, k, n_init, rng)


@given(st.integers(6, 40), st.integers(2, 5), st.integers(0, 10**6))
def test_consistent_pairs_are_never_broken(n, k, seed):
    y, pairs, labels = drawn(n, k, seed, m=3 * n)
    points = np.random.default_rng(seed).normal(size=(n, 3)) + 2.0 * y[:, None]
    facts = facts_of(n, pairs, labels)
    found = solved(points, facts, k)
    assert found.n_broken == 0
    label = found.label[facts.group]
    together = label[pairs[:, 0]] == label[pairs[:, 1]]
    assert (together == (labels == 1)).all()


@given(st.integers(0, 10**6), st.integers(2, 3))
def test_the_colouring_is_nearly_the_cheapest(seed, k):
    """Against all colourings of seven groups: none broken, and seldom dearer than the best."""
    rng = np.random.default_rng(seed)
    n = 7
    hidden = rng.integers(0, k, n)
    apart = np.array(
        [p for p in itertools.combinations(range(n), 2) if hidden[p[0]] != hidden[p[1]]]
    )
    apart = apart[rng.random(len(apart)) < 0.6].reshape(-1, 2)
    cost = rng.random((n, k))
    label = cost.argmin(axis=1)
    assert colour(cost, *_neighbours(apart, n), label) == 0
    legal = [
        z
        for z in itertools.product(range(k), repeat=n)
        if all(z[a] != z[b] for a, b in apart.tolist())
    ]
    best = min(sum(cost[i, c] for i, c in enumerate(z)) for z in legal)
    own = cost[np.arange(n), label].sum()
    assert own >= best - 1e-12
    if k == 2:  # chains are whole pieces of the graph then: the search is exact
        assert own <= best + 1e-12
    assert own <= best + 1.0


def test_without_pairs_it_is_kmeans():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(150, 2)) + 6.0 * np.arange(150)[:, None] % 3
    facts = facts_of(150, np.empty((0, 2), np.int64), np.empty(0, np.int64))
    theirs = KMeans(3, n_init=10, random_state=0).fit(points).inertia_
    assert solved(points, facts, 3, 10).inertia == pytest.approx(theirs, rel=1e-6)


def test_more_groups_apart_than_clusters_break_as_few_as_can_be():
    """Four rows, all different, in three clusters: one of six pairs must break."""
    pairs = np.array(list(itertools.combinations(range(4), 2)))
    facts = facts_of(4, pairs, np.full(6, -1))
    assert solved(np.eye(4), facts, 3).n_broken == 1


def test_equal_rows_and_one_row():
    none = np.empty((0, 2), np.int64), np.empty(0, np.int64)
    assert solved(np.zeros((5, 2)), facts_of(5, *none), 2).inertia == 0.0
    assert solved(np.zeros((1, 2)), facts_of(1, *none), 1).label.tolist() == [0]


def test_the_same_seed_gives_the_same_clusters():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(80, 4))
    _, pairs, labels = drawn(80, 3, 1, m=60)
    facts = facts_of(80, pairs, labels)
    assert (solved(points, facts, 3).label == solved(points, facts, 3).label).all()
