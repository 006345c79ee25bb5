"""Growing trees: seeds, features, constraints passed down, nodes that will not split."""

import numpy as np
import pytest

from conftest import balance_scale, fruit_and_cycles, three_clusters
from metricforest.core import grow
from metricforest.core.forest import LEAF, check_forest
from metricforest.core.ssmmc import CANNOT, MUST
from metricforest.core.tree import grow_tree
from metricforest.supervision.constraints import Constraints, gather


def settings(**changes):
    given = {
        "d_k": 2,
        "min_size": 5,
        "lam": 0.01,
        "C": 1.0,
        "fraction": 0.25,
        "tol": 0.01,
        "max_rounds": 20,
        "max_iter": 100,
        "max_rounds_unsupervised": 5,
    }
    return grow.Settings(**{**given, **changes})


def tree(X, table=None, seed=0, subgradient=None, **changes):
    table = gather(len(X)) if table is None else table
    rows = np.ascontiguousarray(X, np.float32)
    forest, stats = grow_tree(
        rows, table.members, table.kind, seed, settings(**changes), subgradient
    )
    check_forest(forest, rows.shape[1])
    return forest, dict(zip(grow.STATISTICS, stats, strict=True))


def depth(forest):
    found = np.zeros(len(forest.left), int)
    for node in range(1, len(found)):
        found[node] = found[forest.parent[node]] + 1
    return found


def leaves(forest):
    return np.flatnonzero(forest.left == LEAF)


def test_seed_decides_everything():
    X, _, pairs, labels = three_clusters()
    table = gather(len(X), pairs, labels)
    first, again, other = (tree(X, table, seed)[0] for seed in (2**63 + 7, 2**63 + 7, 8))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.weights, other.weights)


@pytest.mark.parametrize("min_size", [1, 2, 5, 20, 60])
def test_nodes_stop_at_their_least_size(min_size):
    X = np.random.default_rng(0).normal(size=(60, 4))
    forest, _ = tree(X, min_size=min_size)
    size = forest.stop - forest.start
    assert (size[leaves(forest)] <= min_size).all()
    assert (size[forest.left != LEAF] > min_size).all()


def test_features_vary_ascend_and_are_padded():
    rng = np.random.default_rng(0)
    X = np.zeros((80, 9))
    X[:, [2, 5, 7]] = rng.normal(size=(80, 3))
    forest, _ = tree(X, d_k=4, min_size=2)
    assert forest.n_splits > 10
    for row, weights in zip(forest.features, forest.weights, strict=True):
        assert row.tolist() == [2, 5, 7, 7]
        assert weights[3] == 0


def test_every_feature_gets_its_turn():
    X = np.random.default_rng(0).normal(size=(200, 12))
    counts = np.zeros(12)
    for seed in range(20):
        forest, _ = tree(X, seed=seed, d_k=3)
        counts += np.bincount(forest.features.ravel(), minlength=12)
    assert (np.diff(forest.features.astype(int), axis=1) > 0).all()
    expected = counts.sum() / 12
    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_statistics_add_up():
    X, _, pairs, labels = three_clusters(0, 120, 300)
    forest, stats = tree(X, gather(len(X), pairs, labels))
    assert stats["n_constrained"] > 0
    assert stats["n_unconstrained"] > 0
    assert stats["n_constrained"] + stats["n_unconstrained"] >= forest.n_splits
    assert stats["constrained_rounds"] >= stats["n_constrained"]
    assert stats["constrained_passes"] > stats["constrained_rounds"]
    assert stats["constrained_unfinished"] == 0


def test_must_links_alone_do_not_call_the_constrained_solver():
    X, _, pairs, labels = three_clusters(0, 60, 100)
    _, stats = tree(X, gather(len(X), pairs[labels == 1], labels[labels == 1]))
    assert stats["n_constrained"] == 0
    assert stats["n_unconstrained"] > 0


def test_constraints_go_where_all_their_ends_went():
    """A node is split by the constrained solver if a cannot-link is inside it: count them."""
    X, _, pairs, labels = three_clusters(0, 100, 150)
    table = gather(len(X), pairs, labels, np.array([[0, 3, 1], [6, 9, 4], [2, 5, 7]]))
    forest, stats = tree(X, table)
    expected = 0
    for node in np.flatnonzero(forest.left != LEAF):
        inside = set(forest.order[0, forest.start[node] : forest.stop[node]].tolist())
        expected += any(
            kind != MUST and all(int(e) in inside or e < 0 for e in ends)
            for ends, kind in zip(table.members, table.kind, strict=True)
        )
    # A node that needed another draw of features is counted once per attempt.
    assert expected <= stats["n_constrained"] <= expected + 3


@pytest.mark.parametrize("subgradient", [None, True])
def test_cannot_link_between_equal_rows_ends_well(subgradient):
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 4, axis=0)
    pairs = np.array([[4 * i, 4 * i + 1] for i in range(10)])
    table = gather(len(X), pairs, np.full(10, -1))
    forest, _ = tree(X, table, min_size=1, subgradient=subgradient)
    assert len(leaves(forest)) == 10
    assert ((forest.stop - forest.start)[leaves(forest)] == 4).all()


@pytest.mark.parametrize("n", [1, 2, 5, 6, 50])
def test_equal_rows_are_one_leaf(n):
    forest, _ = tree(np.ones((n, 3)), min_size=1)
    assert forest.n_splits == 0
    assert len(forest.left) == 1


def test_two_and_three_rows_are_told_apart():
    for n in (2, 3):
        for seed in range(10):
            X = np.random.default_rng(seed).normal(size=(n, 3))
            forest, _ = tree(X, min_size=1, seed=seed)
            assert len(leaves(forest)) == n


def test_distinct_rows_all_part_with_nodes_of_one():
    X, _ = balance_scale()
    forest, _ = tree(X, d_k=4, min_size=1)
    assert len(leaves(forest)) == len(X)


def test_deep_trees_need_no_recursion():
    """Points on a geometric ladder: each split takes little, the tree is deep."""
    X = np.exp(np.linspace(0, 20, 1_500))[:, None]
    forest, _ = tree(X, d_k=1, min_size=1)
    assert depth(forest).max() >= 20
    assert len(leaves(forest)) == len(np.unique(X.astype(np.float32)))


@pytest.mark.parametrize("own_directions", [True, False])
def test_four_classes_split_between_the_two_kinds_first(own_directions):
    """Apples, oranges, bicycles, motorcycles: the root of nearly every tree parts fruit from cycles,
    and of fewer trees, or no more, if all cannot-links are to be satisfied at once."""
    clean = {0.25: [], 1.0: []}
    for seed in range(15):
        X, is_cycle, table = fruit_and_cycles(seed, own_directions)
        for fraction in clean:
            forest, _ = tree(X, table, seed=seed, d_k=4, fraction=fraction)
            p = X[:, forest.features[0]] @ forest.weights[0, :-1] + forest.weights[0, -1]
            agreement = ((p > 0) == is_cycle).mean()
            clean[fraction].append(max(agreement, 1 - agreement) > 0.98)
    assert np.mean(clean[0.25]) >= 0.9
    assert np.mean(clean[1.0]) <= np.mean(clean[0.25])


def test_read_only_and_writable_inputs_give_the_same_tree():
    X, _, pairs, labels = three_clusters()
    table = gather(len(X), pairs, labels)
    X = np.ascontiguousarray(X, np.float32)
    frozen = X.copy()
    frozen.flags.writeable = False
    first, _ = grow_tree(X, *table, 3, settings())
    second, _ = grow_tree(frozen, *table, 3, settings())
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(X, frozen)
    assert X.flags.writeable


def test_one_cannot_link_is_one_constrained_split():
    table = Constraints(
        np.array([[0, 1, -1], [0, 2, -1]], np.int32), np.array([MUST, CANNOT], "i1")
    )
    X = np.random.default_rng(0).normal(size=(12, 2))
    _, stats = tree(X, table)
    assert stats["n_constrained"] == 1


def test_trees_differ_when_every_feature_is_used():
    X, y = balance_scale()
    X = ((X - X.mean(0)) / X.std(0)).astype(np.float32)
    rng = np.random.default_rng(0)
    pairs = rng.choice(len(X), (300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    labels = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    table = gather(len(X), pairs, labels)
    roots = [tree(X, table, seed=seed, d_k=4)[0].weights[0] for seed in range(8)]
    assert len({root.tobytes() for root in roots}) > 4
