"""Comparisons of two rows, tested against plain loops (naive_tables) and by what must hold for any text."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_tables as naive
from metricforest.tables import bags, cells, comparison
from metricforest.tables.comparison import MISSING, WHOLE, PairComparison

few_letters = st.text("abc ", max_size=12).map(lambda text: " ".join(text.split()))
texts = st.lists(few_letters, min_size=1, max_size=8)
any_text = st.text(max_size=30)


def as_numbers(found):
    return np.full(len(bags.IN_COMMON), np.nan) if found is None else np.array(found)


def pairs_of(n):
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)


@settings(deadline=None)
@given(texts, st.sampled_from([0, 1, 3]))
def test_what_bags_have_in_common_is_that_of_plain_loops(corpus, length):
    of = bags.bags(corpus, length)
    weight = bags.weights(of, bags.rarity(of))
    a, b = pairs_of(len(corpus))
    found = bags.in_common(of, weight, a, of, weight, b)
    plain = naive.weight_of(corpus, length)
    for i in range(len(a)):
        wanted = as_numbers(naive.in_common(corpus[a[i]], corpus[b[i]], length, plain))
        np.testing.assert_allclose(found[i], wanted, rtol=1e-12)


@settings(deadline=None)
@given(texts)
def test_words_found_in_another_text_are_those_of_plain_loops(corpus):
    of = bags.words(corpus)
    a, b = pairs_of(len(corpus))
    share, rest = bags.found_in(of, bags.weights(of, bags.rarity(of)), a, of, b)
    plain = naive.weight_of(corpus, 0)
    for i in range(len(a)):
        wanted = naive.found_in(corpus[a[i]], corpus[b[i]], plain) or (math.nan, math.nan)
        np.testing.assert_allclose((share[i], rest[i]), wanted, rtol=1e-12)


@settings(deadline=None)
@given(texts, texts, st.booleans())
def test_the_two_nearest_texts_are_those_of_measuring_all(queries, among, themselves):
    among = queries if themselves else among
    of, known = bags.words(queries), bags.words(among)
    rare = bags.rarity(known)
    own = np.arange(len(queries)) if themselves else np.full(len(queries), -1)
    turned = bags.postings(known, bags.weights(known, rare))
    found, cosine = bags.nearest_texts(
        of, bags.weights(of, rare), turned, len(among), own, 2, 10**6
    )
    weight = naive.weight_of(among, 0)
    barred = [{i} if themselves else set() for i in range(len(queries))]
    first = naive.best_other(queries, among, 0, weight, barred)
    np.testing.assert_allclose(cosine[:, 0], first, atol=1e-12)
    for i, text in enumerate(queries):
        if found[i, 0] >= 0:
            assert naive.cosine(text, among[found[i, 0]], 0, weight) == pytest.approx(first[i])
            barred[i].add(int(found[i, 0]))
    second = naive.best_other(queries, among, 0, weight, barred)
    np.testing.assert_allclose(cosine[:, 1], second, atol=1e-12)


def test_a_search_for_partners_stops_at_its_bound():
    among = bags.words(["rare common"] + ["common"] * 50)
    weight = bags.weights(among, bags.rarity(among))
    turned = bags.postings(among, weight)
    query = bags.words(["rare common"])
    w = bags.weights(query, bags.rarity(among))
    found, cosine = bags.nearest_texts(query, w, turned, 51, np.array([-1]), 2, 10)
    assert found.tolist() == [[0, -1]]  # "common" stands in more texts than may be followed
    assert 0.5 < cosine[0, 0] < 1.0


@given(few_letters.filter(bool), few_letters.filter(bool))
def test_letters_alike_are_those_of_plain_loops(one, two):
    found = comparison.alike([one], np.array([0]), [two], np.array([0]))[0]
    assert found[0] == pytest.approx(naive.letters_alike(one, two))


def compared(left, right=None, pairs=None, **options):
    """(names, comparisons) of pairs of rows, all of them where none are given."""
    made = PairComparison(**options).fit(left, right)
    A, B = made.tables[0], made.tables[-1]
    a, b = pairs if pairs is not None else pairs_of(A.n)
    names = [f"{column}: {what}" for column, what in made.comparison_names()]
    X = made.compare(A, np.asarray(a), B, np.asarray(b))
    assert X.shape == (len(a), len(names))
    assert np.isfinite(X).all()
    return names, X


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(any_text, any_text), min_size=2, max_size=5))
def test_a_pair_and_the_pair_the_other_way_round_are_one(rows):
    table = {"name": [row[0] for row in rows], "made by": [row[1] for row in rows]}
    a, b = pairs_of(len(rows))
    names, X = compared(table, pairs=(a, b))
    _, Y = compared(table, pairs=(b, a))
    assert np.array_equal(X, Y), [names[j] for j in np.flatnonzero((X != Y).any(axis=0))]


@settings(deadline=None, max_examples=40)
@given(st.lists(any_text, min_size=2, max_size=6))
def test_equal_rows_look_equal(values):
    table = {"name": values}
    n = len(values)
    names, X = compared(table, pairs=(np.arange(n), np.arange(n)))
    row = dict(zip(names, X.T, strict=True))
    there = np.array([bool(cells.plain(value.strip())) for value in values])
    assert (row["name: missing"] == 2.0 * ~there).all()
    for similarity in ("letters", "sorted words", "set of words", "part", "glued"):
        alike = row[f"name: {similarity}"]
        assert (alike[~there] == MISSING).all()
        assert (alike[there] == 100.0).all()
    np.testing.assert_allclose(row["name: words: cosine"], np.where(there, 1.0, MISSING))
    np.testing.assert_allclose(row["name: words: lesser share"], np.where(there, 1.0, MISSING))


def test_what_is_missing_on_one_side_or_both_is_told_apart():
    table = {"name": ["a b", None, None, "a c"], "size": [1.0, None, 3.0, 4.0]}
    names, X = compared(table, pairs=([0, 0, 1], [3, 1, 2]))
    row = dict(zip(names, X.T, strict=True))
    assert row["name: missing"].tolist() == [0.0, 1.0, 2.0]
    assert row["size: apart"].tolist() == [3.0, MISSING, MISSING]
    assert row["name: words: cosine"][1:].tolist() == [MISSING, MISSING]


def test_rare_words_weigh_more():
    table = {"name": ["common thing", "common rare", "other rare", *["common thing"] * 20]}
    names, X = compared(table, pairs=([1, 1], [2, 0]))
    rare, common = X[:, names.index("name: words: cosine")]
    assert rare > 2 * common


def test_values_that_wander_between_columns_are_found():
    left = {"name": ["dorn chair", "echo desk"], "maker": ["", "echo"]}
    right = {"name": ["chair", "lamp"], "maker": ["dorn", "sol"]}
    names, X = compared(left, right, pairs=([0, 0], [0, 1]))
    row = dict(zip(names, X.T, strict=True))
    assert row["name: words anywhere: lesser share"].tolist() == [1.0, 0.0]
    assert row["name: words: lesser share"][0] < 1.0


def test_a_better_partner_elsewhere_is_seen():
    left = {"name": ["red chair 12", "blue table 7"]}
    right = {"name": ["red chair 12", "red chair 13", "blue desk 7"]}
    names, X = compared(left, right, pairs=([0, 0], [0, 1]))
    ahead = X[:, names.index(f"{WHOLE}: words: ahead of both best other")]
    assert ahead[0] > 0.0 > ahead[1]


@settings(deadline=None)
@given(texts, st.integers(1, 6))
def test_so_many_texts_are_found_as_are_wanted(corpus, k):
    of = bags.words(corpus)
    weight = bags.weights(of, bags.rarity(of))
    turned, nobody = bags.postings(of, weight), np.full(len(corpus), -1)
    found, cosine = bags.nearest_texts(of, weight, turned, len(corpus), nobody, k, 10**6)
    plain = naive.weight_of(corpus, 0)
    for i, text in enumerate(corpus):
        every = [naive.cosine(text, other, 0, plain) for other in corpus]
        wanted = sorted((c for c in every if c > 0.0), reverse=True)[:k]
        np.testing.assert_allclose(cosine[i, : len(wanted)], wanted)
        assert (found[i, len(wanted) :] == -1).all()
        assert len(set(found[i, : len(wanted)].tolist())) == len(wanted)


def test_in_one_table_no_row_is_its_own_partner():
    table = {"name": ["red chair 12", "red chair 13", "blue desk 7", "green lamp"]}
    made = PairComparison().fit(table)
    (A,) = made.tables
    texts = made._plain(A.columns)[-1]
    weight = naive.weight_of(texts, 0)
    for b in (1, 2):
        at = np.arange(4)
        found = made._best_other(0, A, texts, at, np.full(4, b))
        wanted = naive.best_other(texts, texts, 0, weight, [{i, b} for i in range(4)])
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    table = {"name": [" ".join(rng.choice(list("abcdefgh"), 3)) for _ in range(30)]}
    a, b = rng.integers(30, size=(2, 200))
    _, X = compared(table, pairs=(a, b))
    monkeypatch.setattr(comparison, "BLOCK", 7)
    _, Y = compared(table, pairs=(a, b))
    assert np.array_equal(X, Y)


@pytest.mark.parametrize(
    "column",
    [
        ["", "", ""],
        ["x", "x", "x"],
        ["\U0001f600\U0001f680", "\U0001f600", "\u2603"],
        ["שלום עולם", "עולם", "مرحبا بالعالم"],
        ["a" * 1_000_000, "b " * 500_000, "a"],
        ["\ud800 half a letter", "\x00\x01", "\u202eturned"],
        ["東京都", "東京", "京都"],
        [1, 2.5, None],
    ],
    ids=[
        "empty",
        "one value",
        "emoji",
        "right to left",
        "megabyte",
        "broken",
        "no spaces",
        "mixed",
    ],
)
def test_any_column_can_be_compared(column):
    names, X = compared({"odd": column, "name": ["dorn", "echo", "dorn"]})
    same = X[:, names.index("name: letters")].reshape(3, 3)
    assert (same == 100.0).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("  Café—Müller & Söhne_GmbH ", "cafe muller sohne gmbh"),
        ("v. 4.2.1, 7.", "v 4.2.1 7"),
        ("R85WH1/85 in", "r85wh1 85 in"),
        ("AC&#40;DC&#41;", "ac dc"),
        ("\U0001f600", "\U0001f600"),
        ("--", "--"),
        ("", ""),
    ],
)
def test_plain_text(text, wanted):
    assert cells.plain(text) == wanted


def test_numbers_are_read_in_one_way_of_writing():
    assert cells.numbers_in("007 7.0 7.50 r85wh1 1.2.3 0") == "7 7 7.5 85 1 1.2.3 0"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("$ 1.29", 1.29), ("8.10 %", 8.1), ("-3", -3.0), ("6:30", 390.0), ("1:02:03", 3723.0),
     ("1,234,567", 1234567.0), ("two", math.nan), ("3 of 4", math.nan), ("", math.nan),
     ("a long text with 1 number", math.nan), ("9" * 400, math.nan)],
)  # fmt: skip
def test_numbers(text, wanted):
    assert cells.read_number(text) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1970-01-11", 10.0), ("1970/1/11 12:00", 10.0), ("11-Jan-70", 10.0),
     ("January 11 , 1970", 10.0), ("11 January 1970", 10.0), ("31-Dec-69", 36524.0),
     ("1970-13-01", math.nan), ("30 Feb 2001", math.nan), ("may", math.nan), ("", math.nan)],
)  # fmt: skip
def test_dates(text, wanted):
    assert cells.read_date(text) == pytest.approx(wanted, nan_ok=True)


def test_kinds_can_be_given():
    table = {"code": ["17", "18", "19"], "name": ["a", "b", "c"]}
    assert "code: apart" in compared(table)[0]
    names, _ = compared(table, kinds={"code": "category"})
    assert "code: apart" not in names
    assert "code: letters" in names
    names, _ = compared(table, kinds={"code": "drop"})
    assert not any(name.startswith("code") for name in names)


def test_tables_without_a_column_in_common_are_refused():
    with pytest.raises(ValueError, match="no column is left to compare by: the table has a and"):
        PairComparison().fit({"a": ["x"]}, {"b": ["y"]})
