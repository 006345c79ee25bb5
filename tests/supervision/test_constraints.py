"""Constraints: checking, drawing from labels, one table."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from metricforest.core.ssmmc import CANNOT, MUST, TRIPLET
from metricforest.supervision import constraints as cn


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ([[0, 10]], r"pairs\[0\] = \[0, 10\] is out of range: X has 10 rows.*from 0 to 9"),
        ([[0, 1], [2, -1]], r"pairs\[1\] = \[2, -1\] is out of range"),
        ([[0, 1.5]], r"pairs\[0\] = \[0.0, 1.5\] is not integral"),
        ([[0, np.nan]], "is not integral"),
        ([[0, np.inf]], "is not integral"),
        ([["a", "b"]], "integer row numbers of X, got dtype <U1"),
        ([[True, False]], "integer row numbers of X, got dtype bool"),
        (np.array([[0, 1]], object), "integer row numbers of X, got dtype object"),
        ([[0, 1, 2]], r"shape \(m, 2\), got shape \(1, 3\)"),
        ([0, 1], r"shape \(m, 2\), got shape \(2,\)"),
        ([[3, 3]], r"pairs\[0\] = \[3, 3\] pairs a row with itself \(1 such pairs\)"),
    ],
)
def test_bad_pairs_raise(pairs, match):
    with pytest.raises(ValueError, match=match):
        cn.check_pairs(pairs, np.ones(len(pairs)), 10)


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([1], r"2 pairs, pair_labels of shape \(1,\)"),
        ([[1], [1]], r"pair_labels of shape \(2, 1\)"),
        ([1, 2], r"must be \+1 and -1 \(or bool, or 1 and 0\), got 2"),
        ([1, 0.5], "got 0.5"),
        ([0, -1], "a mix of -1 and 0"),
        ([1, np.nan], "got nan"),
        (["same", "other"], "got 'same'"),
        (None, "without pair_labels"),
    ],
)
def test_bad_pair_labels_raise(labels, match):
    with pytest.raises(ValueError, match=match):
        cn.check_pairs([[0, 1], [2, 3]], labels, 10)


@pytest.mark.parametrize("labels", [[1, -1], [True, False], [1, 0], [1.0, -1.0], np.uint8([1, 0])])
def test_labels_in_every_spelling(labels):
    pairs, signs = cn.check_pairs(np.array([[0, 1], [2.0, 3]]), labels, 10)
    assert signs.tolist() == [1, -1]
    assert pairs.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("pairs", [[], np.empty((0, 2)), np.empty((0, 2), int)])
def test_no_pairs_are_fine(pairs):
    found, labels = cn.check_pairs(pairs, [], 10)
    assert found.shape == (0, 2)
    assert labels.shape == (0,)


@pytest.mark.parametrize(
    ("triplets", "match"),
    [
        ([[0, 1, 10]], r"triplets\[0\] = \[0, 1, 10\] is out of range"),
        ([[0, 1]], r"shape \(m, 3\), got shape \(1, 2\)"),
        ([[0, 1, 0]], r"triplets\[0\] = \[0, 1, 0\] names a row twice \(1 such triplets\)"),
        ([[0, 1, 2], [4, 4, 1]], r"triplets\[1\] = \[4, 4, 1\] names a row twice"),
    ],
)
def test_bad_triplets_raise(triplets, match):
    with pytest.raises(ValueError, match=match):
        cn.check_triplets(triplets, 10)


def test_labels_become_codes():
    assert cn.check_labels([5, 7, 5], 3).tolist() == [0, 1, 0]
    assert cn.check_labels([-1, 7, 5, -1], 4).tolist() == [-1, 1, 0, -1]
    assert cn.check_labels(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert cn.check_labels([True, False], 2).tolist() == [1, 0]
    assert cn.check_labels([-1, -1], 2).tolist() == [-1, -1]
    assert cn.check_labels([-1, 0, 1], 3).tolist() == [-1, 0, 1]
    assert cn.check_labels([-3, -1, 4, -2], 4).tolist() == [0, -1, 2, 1]
    assert cn.check_labels([None, np.nan, -1], 3).tolist() == [-1, -1, -1]
    assert cn.check_labels(np.array([True, None, np.False_], dtype=object), 3).tolist() == [
        1,
        -1,
        0,
    ]


@pytest.mark.parametrize(
    "y",
    [
        ["b", -1, "a", "b"],
        np.array(["b", -1, "a", "b"]),  # texts, "-1" among them
        np.array(["b", -1, "a", "b"], dtype=object),
        ["b", None, "a", "b"],
        ["b", np.nan, "a", "b"],
        pd.Series(["b", None, "a", "b"]),
        pd.Series(["b", pd.NA, "a", "b"], dtype="string"),
        pd.Categorical(["b", None, "a", "b"]),
        [2, None, 1, 2],
        ["b", -1, "!", "b"],  # sorts before "-1"
        ["b", "", "a", "b"],
        np.array(["b", "  ", "a", "b"]),
    ],
)
def test_rows_without_a_label_beside_names(y):
    assert cn.check_labels(y, 4).tolist() == [1, -1, 0, 1]


def test_labels_of_minus_one_and_one_warn():
    with pytest.warns(UserWarning, match="only -1 and 1, and -1 means unlabelled"):
        codes = cn.check_labels([1, -1, 1], 3)
    assert codes.tolist() == [0, -1, 0]
    with pytest.warns(UserWarning, match="only -1 and 1, and -1 means unlabelled"):
        cn.check_labels(["+1", "-1"], 2)


def test_a_column_of_labels_warns():
    with pytest.warns(UserWarning, match=r"shape \(n, 1\)"):
        assert cn.check_labels([[1], [0]], 2).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("y", "match"),
    [
        ([0, 1], "y has 2 labels, X has 3 rows"),
        (np.zeros((3, 2)), r"y must have shape \(n,\), got \(3, 2\)"),
        ([0.5, 1.25, 3.0], "Unknown label type: continuous"),
        ([0.0, np.nan, 1.0], "NaN"),
        (["a", 3, None], "y holds 3 and 'a': class labels must be all numbers or all texts"),
        ([{}, "a", "b"], "y holds 'a' and {}: class labels must be all numbers or all texts"),
    ],
)
def test_bad_labels_raise(y, match):
    with pytest.raises(ValueError, match=match):
        cn.check_labels(y, 3)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([20, 30, 10], 3_000),
        ([2_500, 2_499], 2_000),
        ([2_500, 2_500], 30_000),
        ([200] * 100, 100_000),
        ([20_000, 20_000], 600_000),
    ],
)
def test_automatic_counts_are_the_papers(sizes, expected):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    assert cn.auto_count(codes) == expected
    assert cn.auto_count(np.concatenate([codes, np.full(100_000, -1)])) == expected


def test_automatic_count_of_nothing():
    assert cn.auto_count(np.full(5, -1)) == 0


def drawn(sizes, n, seed=0, unlabelled=0):
    codes = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.full(unlabelled, -1)])
    rng = np.random.default_rng(seed)
    codes = rng.permutation(codes)
    return codes, *cn.draw_pairs(codes, n, rng)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 300, 1_000])
def test_drawn_pairs_agree_with_the_labels(n):
    codes, pairs, labels = drawn([40, 50, 30], n, unlabelled=20)
    assert pairs.shape == (len(labels), 2)
    assert len(labels) == n
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert (codes[pairs] >= 0).all()
    same = codes[pairs[:, 0]] == codes[pairs[:, 1]]
    np.testing.assert_array_equal(same, labels == 1)
    for c in range(3):
        n_must = ((codes[pairs[:, 0]] == c) & (labels == 1)).sum()
        assert n_must == (n // 3 + (c < n % 3)) // 3
    must = np.sort(pairs[labels == 1], axis=1)
    assert len(np.unique(must, axis=0)) == len(must)
    for c in range(3):  # distinct within each class's own draw
        ours = pairs[(labels == -1) & (codes[pairs[:, 0]] == c)]
        assert len(np.unique(ours, axis=0)) == len(ours)


def test_every_pair_of_a_class_can_be_drawn():
    """All positions of the triangle, at once: each pair exactly once."""
    for m in (2, 3, 4, 7, 30):
        _codes, pairs, labels = drawn([m], 10_000)
        assert (labels == 1).all()
        found = {(int(min(p)), int(max(p))) for p in pairs}
        assert len(pairs) == len(found) == m * (m - 1) // 2


def test_triangle_positions_of_a_large_class():
    """Square roots of large numbers round; the pairs must be right all the same."""
    m = 60_000
    codes = np.zeros(m, int)
    pairs, _ = cn.draw_pairs(codes, 200_000, np.random.default_rng(0))
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert pairs.min() >= 0
    assert pairs.max() < m
    assert len(np.unique(pairs, axis=0)) == 200_000


@pytest.mark.parametrize("sizes", [[1], [1, 1], [2, 1], [1, 1, 1, 1], [3, 1]])
def test_tiny_classes_give_what_there_is(sizes):
    _codes, pairs, labels = drawn(sizes, 1_000_000)
    counts = np.array(sizes)
    assert (labels == 1).sum() == (counts * (counts - 1) // 2).sum()
    unordered = np.unique(np.sort(pairs[labels == -1], axis=1), axis=0)
    n = counts.sum()
    assert len(unordered) == (n * n - (counts**2).sum()) // 2


def test_no_labelled_rows_no_pairs():
    pairs, labels = cn.draw_pairs(np.full(4, -1), 100, np.random.default_rng(0))
    assert pairs.shape == (0, 2)
    assert labels.shape == (0,)


def test_drawing_is_seeded():
    first, again, other = (drawn([40, 50], 200, seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_drawn_pairs_are_spread_evenly():
    """No row may be favoured: counts of a uniform draw stay near their mean."""
    codes = np.zeros(50, int)
    counts = np.zeros(50)
    rng = np.random.default_rng(0)
    for _ in range(200):
        pairs, _ = cn.draw_pairs(codes, 100, rng)
        counts += np.bincount(pairs.ravel(), minlength=50)
    assert abs(counts / counts.mean() - 1).max() < 0.15  # standard error is about 3.5 %


def test_table_is_sorted_merged_and_typed():
    pairs = np.array([[4, 1], [1, 4], [0, 2], [3, 0], [0, 3], [4, 1]])
    labels = np.array([1, 1, -1, -1, -1, 1])
    table = cn.gather(6, pairs, labels, np.array([[5, 1, 0], [5, 1, 0], [1, 5, 0]]))
    assert table.members.tolist() == [[1, 4, -1], [0, 2, -1], [0, 3, -1], [1, 5, 0], [5, 1, 0]]
    assert table.kind.tolist() == [MUST, CANNOT, CANNOT, TRIPLET, TRIPLET]
    assert table.members.dtype == np.int32
    assert table.kind.dtype == np.int8
    found, signs = table.pairs()
    assert found.tolist() == [[1, 4], [0, 2], [0, 3]]
    assert signs.tolist() == [1, -1, -1]
    assert table.triplets().tolist() == [[1, 5, 0], [5, 1, 0]]


def test_contradictions_warn_with_their_count_and_stay():
    pairs = np.array([[0, 1], [1, 0], [2, 3], [3, 2], [4, 5]])
    with pytest.warns(UserWarning, match="2 pairs are labelled both must-link and cannot-link"):
        table = cn.gather(6, pairs, np.array([1, -1, -1, 1, 1]))
    assert table.kind.tolist() == [MUST, MUST, MUST, CANNOT, CANNOT]


def test_empty_table():
    table = cn.gather(3)
    assert table.members.shape == (0, 3)
    assert table.kind.shape == (0,)


def test_number_of_active_constraints():
    from metricforest.core.ssmmc import n_active

    for n in list(range(40)) + [100, 997, 10_000]:
        for fraction in (0.01, 0.1, 0.25, 0.3, 0.5, 0.7, 1.0):
            expected = naive.n_active(n, fraction)
            if abs(fraction * n - round(fraction * n)) < 1e-9:  # a whole number but for rounding
                expected = 0 if n == 0 else max(1, round(fraction * n))
            assert n_active(n, fraction) == expected


def test_class_neighbors_and_triplets_are_those_of_plain_loops():
    import naive_margins

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(-1, 4, 40)
    y[:2], y[2] = 5, 6  # classes of two rows and of one
    wanted = []
    for same in (True, False):
        near = cn.class_neighbors(X, y, 4, same)
        wanted.append(naive_margins.nearest_of_class(X, y, 4, same))
        assert near.dtype == np.int32
        assert [[j for j in row if j >= 0] for row in near.tolist()] == wanted[-1]
    triplets = cn.draw_triplets(X, y, 4)
    assert triplets.tolist() == [
        [i, j, k] for i in range(40) for j in wanted[0][i] for k in wanted[1][i]
    ]


def test_a_row_is_not_its_own_neighbour_among_identical_rows():
    near = cn.class_neighbors(np.zeros((6, 2)), np.array([0, 0, 0, 1, 1, 1]), 2, True)
    assert [sorted(row) for row in near.tolist()] == [
        [1, 2],
        [0, 2],
        [0, 1],
        [4, 5],
        [3, 5],
        [3, 4],
    ]


def test_no_triplets_where_there_is_one_class_or_none():
    X = np.arange(6.0).reshape(3, 2)
    assert cn.draw_triplets(X, np.zeros(3, int), 3).shape == (0, 3)
    assert cn.draw_triplets(X, np.full(3, cn.UNLABELLED), 3).shape == (0, 3)


def implied_by_loops(pairs, labels):
    """What follows from labelled pairs, by closing them under the two rules until nothing is new."""
    same = {tuple(sorted(p)) for p, label in zip(pairs, labels, strict=True) if label == 1}
    differ = {tuple(sorted(p)) for p, label in zip(pairs, labels, strict=True) if label == -1}
    while True:
        more_same, more_differ = set(), set()
        for a, b in same:
            for old, new in ((same, more_same), (differ, more_differ)):
                for c, d in old:
                    for x, y in ((a, b), (b, a)):
                        if x in (c, d):
                            far = d if c == x else c
                            if far != y:
                                new.add((min(y, far), max(y, far)))
        if more_same <= same and more_differ <= differ:
            return same, differ
        same |= more_same
        differ |= more_differ


@given(st.data(), st.integers(2, 12), st.integers(0, 2**31))
def test_implied_pairs_are_those_of_plain_loops(data, n_rows, seed):
    row = st.integers(0, n_rows - 1)
    pair = st.tuples(row, row).filter(lambda p: p[0] != p[1])
    labelled = data.draw(st.lists(pair, min_size=1, max_size=10, unique_by=lambda p: frozenset(p)))
    # Answers as of three classes, so that they do not contradict each other.
    labels = [1 if a % 3 == b % 3 else -1 for a, b in labelled]
    table = cn.gather(n_rows, np.array(labelled), np.array(labels))
    everything = cn.with_implied(table, n_rows, seed)
    cn.check_table(everything, n_rows)
    assert (np.diff(everything.kind) >= 0).all()
    pairs, found = everything.pairs()
    same, differ = implied_by_loops(labelled, labels)
    assert len(pairs) == len(same) + len(differ)  # none twice
    assert {tuple(p) for p in pairs[found == 1].tolist()} == same
    assert {tuple(p) for p in pairs[found == -1].tolist()} == differ


def test_implied_pairs_are_bounded_seeded_and_leave_what_was_judged():
    n = 40_000
    chain = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    chain = np.delete(chain, n // 2 - 1, axis=0)  # two groups of 20,000 rows: 2e8 pairs each way
    pairs = np.vstack([chain, [[0, n - 1]], [[3, 5]]])
    labels = np.append(np.ones(len(chain), int), [-1, -1])  # 3 and 5 differ though joined by chains
    triplets = np.array([[0, 1, 2]])
    table = cn.gather(n, pairs, labels, triplets)
    with pytest.warns(
        UserWarning, match="1 pairs are labelled different though other labelled pairs"
    ):
        one = cn.with_implied(table, n, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again, other = (cn.with_implied(table, n, seed) for seed in (0, 1))
    assert (one.members == again.members).all()
    assert not np.array_equal(one.members, other.members)
    cn.check_table(one, n)
    more, found = one.pairs()
    half = more // (n // 2)
    inside = (half[:, 0] == half[:, 1]) & ~((more[:, 0] == 3) & (more[:, 1] == 5))
    assert ((found == 1) == inside).all()
    for label in (1, -1):
        extra = (found == label).sum() - (labels == label).sum()
        assert 0.95 * cn.IMPLIED * n < extra <= cn.IMPLIED * n
    assert len(np.unique(more, axis=0)) == len(more)
    assert (one.triplets() == triplets).all()


def test_nothing_follows_from_nothing():
    for pairs, labels in (([], []), ([[0, 1]], [1]), ([[0, 1], [2, 3]], [-1, 1])):
        table = cn.gather(5, np.array(pairs, int).reshape(-1, 2), np.array(labels, int))
        same = cn.with_implied(table, 5, 0)
        assert (same.members == table.members).all()
        assert (same.kind == table.kind).all()
