"""First questions about tables that are made here: many are matches, many are not, rows do not come again."""

import numpy as np
import pytest

from metricforest.tables.first_questions import first_questions, growing_ranks

SOUNDS = ("ba", "do", "fe", "gu", "ki", "lo", "ma", "ne", "po", "ra", "si", "tu", "ve", "wo", "zi")


def made(n, n_twice, seed):
    """(left, right): n rows each, of which the first n_twice are the same with slips of the pen."""
    rng = np.random.default_rng(seed)

    def word():
        return "".join(rng.choice(SOUNDS, 3))

    towns = [word() for _ in range(8)]
    left = [f"{word()} {word()} {rng.choice(towns)}" for _ in range(n)]
    right = [f"{word()} {word()} {rng.choice(towns)}" for _ in range(n)]
    for i in range(n_twice):
        letters = list(left[i])
        letters[rng.integers(len(letters))] = "x"
        right[i] = "".join(letters)
    return left, right


@pytest.mark.parametrize("n_twice", [6, 30, 300])
@pytest.mark.parametrize("one_table", [True, False])
def test_many_questions_are_matches_and_many_are_not(n_twice, one_table):
    left, right = made(300, n_twice, 3)
    tables = [{"name": left + right}] if one_table else [{"name": left}, {"name": right}]
    asked = first_questions(*tables, random_state=0)
    shift = 300 if one_table else 0
    same = (asked["b"] == asked["a"] + shift) & (asked["a"] < n_twice)
    assert len(same) == 50
    assert same.sum() >= min(15, 0.8 * n_twice)
    assert (~same).sum() >= 15


def test_no_row_comes_twice_where_there_are_enough():
    left, right = made(200, 50, 1)
    asked = first_questions({"name": left + right}, random_state=0)
    rows = np.concatenate([asked["a"], asked["b"]])
    assert len(np.unique(rows)) == len(rows)
    two = first_questions({"name": left}, {"name": right}, random_state=0)
    for side in ("a", "b"):
        assert len(np.unique(two[side])) == 50


def test_a_small_table_is_asked_about_whole_and_each_pair_once():
    names = ["one", "two", "three", "one"]
    asked = first_questions({"name": names}, n=50, random_state=0)
    assert sorted(zip(asked["a"].tolist(), asked["b"].tolist(), strict=True)) == [
        (a, b) for a in range(4) for b in range(a + 1, 4)
    ]
    across = first_questions({"name": names}, {"name": names[:2]}, n=50, random_state=0)
    assert len(set(zip(across["a"].tolist(), across["b"].tolist(), strict=True))) == 8


def test_questions_name_rows_by_their_ids_which_are_not_compared():
    left, right = made(60, 30, 2)
    keys = [f"k{i}" for i in range(60)]
    one = first_questions(
        {"key": keys, "name": left}, {"key": keys, "name": right}, id="key", random_state=0, n=20
    )
    plain = first_questions({"name": left}, {"name": right}, random_state=0, n=20)
    assert one["a"].tolist() == [f"k{i}" for i in plain["a"]]
    assert one["b"].tolist() == [f"k{i}" for i in plain["b"]]


def test_the_same_seed_asks_the_same():
    left, right = made(100, 20, 5)
    one, again, other = (first_questions({"name": left + right}, random_state=s) for s in (1, 1, 2))
    assert one["a"].tolist() == again["a"].tolist()
    assert one["b"].tolist() == again["b"].tolist()
    assert one["a"].tolist() != other["a"].tolist()


@pytest.mark.parametrize(("m", "n"), [(1, 30), (29, 30), (31, 30), (10_000, 30), (0, 5)])
def test_ranks_grow_and_stay_in_range(m, n):
    ranks = growing_ranks(m, n, np.random.default_rng(0))
    assert (np.diff(ranks) > 0).all()
    assert not len(ranks) or (ranks[0] >= 0 and ranks[-1] < m)
    if m == 10_000:
        assert (ranks < 100).sum() == pytest.approx(n / 2, abs=8)


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        ([{"name": ["a", "b"]}], {"n": 1}, "n must be a whole number of at least 2, got 1"),
        ([{"name": ["a", "b"]}], {"n": 2.5}, "got 2.5"),
        ([{"name": ["a"]}], {}, "no pair to ask about in a table of 1 rows"),
        ([{"name": ["a"]}, {"name": []}], {}, "no pair to ask about in a table of 0 rows"),
        ([{"name": ["a", "b"]}], {"id": "key"}, "no column 'key'"),
        ([{"name": ["a", "b"]}], {"kinds": {"x": "drop"}}, "no column 'x'"),
        ([{"name": ["a", "b"]}, {"other": ["a"]}], {}, "no column is left to compare by"),
    ],
)
def test_bad_input_is_named(tables, options, message):
    with pytest.raises(ValueError, match=message):
        first_questions(*tables, **options)
