"""A pair model, labelled by planted matches, by scikit-learn's own answers, and by what a file gives back."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import logit
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import average_precision_score

from metricforest import PairModel, load
from metricforest.storage import format as storage
from metricforest.storage import sklearn_trees
from metricforest.tables import pair_scorer
from metricforest.tables.pair_matches import kept

SYLLABLES = ["ba", "do", "ki", "lu", "mer", "nos", "ra", "sil", "ton", "vex"]
THINGS = ["chair", "table", "lamp", "desk", "sofa", "shelf"]


def shops(n, seed=0):
    """(left, right) where row i of both is one article: other words, typing errors, gaps."""
    rng = np.random.default_rng(seed)

    def word():
        return "".join(rng.choice(SYLLABLES, 3))

    def mistyped(text):
        i = rng.integers(len(text))
        return text[:i] + text[i + 1 :]

    makers = [word() for _ in range(max(4, n // 8))]
    left, right = {"name": [], "maker": [], "price": []}, {"name": [], "maker": [], "price": []}
    for i in range(n):
        if i % 2 == 0:  # the next article differs from it in its number and price only
            maker, kind = rng.choice(makers), f"{word()} {rng.choice(THINGS)}"
        name, price = f"{kind} {int(rng.integers(100, 999))}", float(rng.integers(10, 500))
        left["name"].append(name)
        left["maker"].append(maker)
        left["price"].append(price)
        words = name.split()
        right["name"].append(" ".join([maker, *[mistyped(w) if rng.random() < 0.3 else w
                                                for w in rng.permutation(words)]]))  # fmt: skip
        right["maker"].append(None if rng.random() < 0.5 else maker)
        right["price"].append(None if rng.random() < 0.3 else price + float(rng.integers(3)))
    return left, right


def labelled(n, m, seed=1):
    """m pairs [m, 3]: a third the same, the others near misses or anything."""
    rng = np.random.default_rng(seed)
    a = rng.choice(n, m, replace=m > n)
    b = np.choose(np.arange(m) % 3, [a, a ^ 1, rng.integers(n, size=m)])
    return np.column_stack([a, b, a == b])


@pytest.fixture(scope="module")
def learned():
    left, right = shops(120)
    pairs = labelled(120, 150)
    return left, right, pairs, PairModel(random_state=0).fit(left, right, pairs=pairs)


def test_pairs_it_was_not_shown_are_told_apart(learned):
    *_, model = learned
    left, right = shops(100, seed=7)
    pairs = labelled(100, 300, seed=8)
    answer = model.predict(pairs[:, :2], left, right)
    assert (answer == pairs[:, 2]).mean() >= 0.98
    assert model.probability(pairs[:, :2], left, right)[answer].min() >= model.threshold_


def test_fifty_pairs_are_not_worse_than_none():
    left, right = shops(200)
    pairs = labelled(200, 250, seed=3)
    for seed in range(3):
        told = pairs[np.random.default_rng(seed).permutation(250)]
        model = PairModel(n_estimators=50, random_state=seed).fit(left, right, pairs=told[:50])
        rows = told[50:, :2].astype(int)
        names = [f"{column}: {what}" for column, what in model.comparison_.comparison_names()]
        A, B = model.comparison_.tables
        X = model.comparison_.compare(A, rows[:, 0], B, rows[:, 1])
        untaught = X[:, names.index("the row: words: cosine")]
        taught = model.probability(rows)
        none, fifty = (average_precision_score(told[50:, 2], x) for x in (untaught, taught))
        assert none < 0.99  # or nothing could be learned
        assert fifty > none


def test_the_order_of_a_pair_in_one_table_is_of_no_matter():
    left, right = shops(40)
    table = {name: left[name] + right[name] for name in left}
    pairs = labelled(40, 60)
    pairs[:, 1] += 40
    model = PairModel(n_estimators=20, random_state=0).fit(table, pairs=pairs)
    turned = pairs[:, [1, 0]]
    assert np.array_equal(model.probability(pairs[:, :2]), model.probability(turned))


def test_trees_answer_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)).round(1), rng.random(200) < 0.4
    scorer = pair_scorer.learn(X, y, 30, 0, None)
    forest = ExtraTreesClassifier(
        30, min_samples_leaf=pair_scorer.LEAF, max_features=pair_scorer.TRIED, random_state=0
    ).fit(X, y)
    wanted = forest.predict_proba(X)[:, 1]
    t = scorer.trees
    share = np.zeros(len(X))
    value = np.ascontiguousarray(t.value[:, 0, 1])
    pair_scorer.leaf_share(
        X.astype(np.float32), t.root, t.left, t.right, t.feature, t.threshold, value, share
    )
    assert np.array_equal(share, wanted)
    again = sklearn_trees.unpack(t, ExtraTreesClassifier(min_samples_leaf=2, max_features=0.3))
    assert np.array_equal(again.predict_proba(X)[:, 1], wanted)


def test_ranks_are_those_of_counting():
    knots = np.array([[0.0], [1.0], [1.0], [3.0]])
    found = pair_scorer.ranks(np.array([[-1.0], [0.0], [1.0], [2.0], [9.0]]), knots)
    wanted = np.array([0.0, 0.125, 0.5, 0.75, 1.0]) - 0.5
    np.testing.assert_allclose(found[:, 0], wanted * np.sqrt(12))


def test_the_threshold_has_the_best_expected_f1():
    rng = np.random.default_rng(0)
    probability, counts = rng.random(40), rng.random(40)
    cut = pair_scorer.best_cut(probability, counts)

    def expected(threshold):
        called, hits = probability >= threshold, probability * counts
        return 2 * hits[called].sum() / (counts[called].sum() + hits.sum())

    assert expected(cut) == pytest.approx(max(map(expected, probability)))


def test_held_out_pairs_say_how_much_the_trees_count():
    same = np.arange(200) % 2 == 0
    rng = np.random.default_rng(0)
    good, bad = np.where(same, 1.0, -1.0) + rng.normal(size=200), rng.normal(size=200)
    scorer = pair_scorer.learn(rng.normal(size=(20, 2)), np.arange(20) < 10, 2, 0, None)
    assert pair_scorer.weigh(scorer, np.stack([good, bad]), same).share == 0.0
    assert pair_scorer.weigh(scorer, np.stack([bad, good]), same).share == 1.0
    assert pair_scorer.weigh(scorer, np.stack([good, good]), same).share == 0.5


def test_probabilities_of_held_out_pairs_are_calibrated(learned):
    *_, model = learned
    expected, found = model.held_out_probability_.mean(), model.held_out_same_.mean()
    assert expected == pytest.approx(found, abs=0.02)


def test_a_match_rate_moves_odds_and_makes_the_threshold_fit_it(learned):
    left, right, pairs, model = learned
    rare = PairModel(match_rate=0.05, random_state=0).fit(left, right, pairs=pairs)
    share = pairs[:, 2].mean()
    moved = logit(rare.probability(pairs[:, :2])) - logit(model.probability(pairs[:, :2]))
    np.testing.assert_allclose(moved, logit(0.05) - logit(share))
    same, counts = rare.held_out_same_, np.where(pairs[:, 2], 0.05 / share, 0.95 / (1 - share))
    expected = (rare.held_out_probability_ * counts).sum() / counts.sum()
    assert expected == pytest.approx(0.05, abs=0.02)
    called = rare.held_out_probability_ >= rare.threshold_
    assert (called & same).sum() / called.sum() > 0.9
    with pytest.raises(ValueError, match=r"match_rate must be in \(0.0, 1.0\), got 1"):
        PairModel(match_rate=1.0).fit(left, right, pairs=pairs)


def test_same_seed_same_bits_for_any_number_of_jobs(learned):
    left, right, pairs, model = learned
    again = PairModel(n_jobs=2, random_state=0).fit(left, right, pairs=pairs)
    every = pairs[:, :2]
    assert np.array_equal(again.probability(every), model.probability(every))
    assert again.threshold_ == model.threshold_


def test_a_file_gives_back_the_same_answers(learned, tmp_path):
    left, right, pairs, model = learned
    model.save(tmp_path / "pairs.mf")
    again = load(tmp_path / "pairs.mf")
    assert isinstance(again, PairModel)
    assert again.get_params() == model.get_params()
    for tables in ((), (left, right), shops(20, seed=5)):
        rows = pairs[:, :2] % 20
        assert np.array_equal(again.probability(rows, *tables), model.probability(rows, *tables))
    assert str(again.explain([0, 1])) == str(model.explain([0, 1]))
    assert np.array_equal(again.held_out_probability_, model.held_out_probability_)


@pytest.mark.parametrize(
    ("part", "change", "match"),
    [
        ("scorer_", lambda s: s.update(weights=s["weights"][1:]), "weights is float64"),
        ("scorer_", lambda s: s.update(bias=float("nan")), "not finite"),
        ("scorer_", lambda s: s["trees"].feature.__setitem__(slice(None), 9999), "not valid trees"),
        ("comparison_", lambda s: s.update(names=s["names"][1:]), "read is object"),
        ("comparison_", lambda s: s["n_tokens"].__setitem__(0, 1), "n_tokens says"),
        ("comparison_", lambda s: s["rows"].append(s["rows"][0]), "3 tables, not one or two"),
        ("comparison_", lambda s: s["rows"].pop(), "differ in number"),
    ],
)
def test_a_file_that_does_not_fit_together_is_refused(learned, tmp_path, part, change, match):
    *_, model = learned
    path = tmp_path / "pairs.mf"
    model.save(path)
    content = storage.read(path, mmap=False)
    change(content.state[part])
    storage.write(path, content)
    with pytest.raises(ValueError, match=match):
        load(path)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_ids(learned, frame):
    left, right, pairs, model = learned
    ids = [[f"{side}{i}" for i in range(120)] for side in "lr"]
    left, right = frame({"sku": ids[0], **left}), frame({"sku": ids[1], **right})
    named = frame({
        "one": [ids[0][i] for i in pairs[:, 0]],
        "two": [ids[1][i] for i in pairs[:, 1]],
        "answer": ["same" if same else "different" for same in pairs[:, 2]],
    })  # fmt: skip
    again = PairModel(id="sku", random_state=0).fit(left, right, pairs=named)
    assert np.array_equal(again.probability(named), model.probability(pairs[:, :2]))


def test_reasons_are_in_words_of_columns_and_values():
    left = {"name": ["Dorn chair", "Echo desk", "Sol lamp", "Rio sofa"] * 5,
            "maker": ["Dorn", "Echo", None, "Rio"] * 5, "price": [349.0, 20.0, 30.0, 40.0] * 5}  # fmt: skip
    right = {"name": ["Dorn chair XL", "Echo desk", "Sol lamp", "Rio sofa"] * 5,
             "maker": ["Echo", "Echo", None, "Rio"] * 5, "price": [329.0, 20.0, 30.0, 40.0] * 5}  # fmt: skip
    pairs = [[i, j, int(i == j)] for i in range(8) for j in (i, (i + 1) % 8)]
    model = PairModel(n_estimators=10, random_state=0).fit(left, right, pairs=pairs)
    answer = model.explain([0, 0])
    words = {reason.column: reason.words for reason in answer.reasons}
    assert words["maker"] == "Dorn / Echo, 0 of 2 words in common"
    assert words["price"] == "349 / 329, 20 apart"
    assert words["name"] == "Dorn chair / Dorn chair XL, 2 of 3 words in common"
    assert model.explain([2, 2]).reasons[-1].weight is not None
    assert "maker: missing in both" in str(model.explain([2, 2]))
    assert "maker: missing / Rio" in str(model.explain([2, 3]))
    assert "price: 20 in both" in str(model.explain([1, 1]))
    assert str(answer).startswith("same" if answer.same else "different")
    assert answer.probability == pytest.approx(model.probability([[0, 0]])[0])


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ([[0, 0, 1], [1, 1, 1], [0, 1, 0]], "of 3 pairs 2 are the same"),
        ([[0, 5, 1]], "pair 1: no row of the second table is called 5; there are 2 rows: 0, 1"),
        ([[0, 1]], "pairs need 3 columns, two ids and a label, got 2"),
        ([[0, 1, 7]], "the label of pair 1 is '7'"),
    ],
)
def test_pairs_that_nothing_can_be_learned_from_are_refused(pairs, match):
    table = {"name": ["a b", "b c"]}
    with pytest.raises(ValueError, match=match):
        PairModel().fit(table, table, pairs=pairs)


def test_a_refused_fit_leaves_the_model_as_it_was(learned):
    left, right, pairs, model = learned
    before = model.probability(pairs[:5, :2])
    with pytest.raises(ValueError, match="no row of the first table is called 999"):
        model.fit(left, right, pairs=[[999, 0, 1]])
    assert np.array_equal(model.probability(pairs[:5, :2]), before)


def test_planted_matches_of_whole_tables_are_found(learned):
    *_, model = learned
    left, right = shops(300, seed=11)
    found = model.match(left, right, keep="one-to-one")
    right_ones = found["a"] == found["b"]
    assert right_ones.mean() >= 0.95
    assert right_ones.sum() >= 0.9 * 300
    assert len(set(found["a"].tolist())) == len(set(found["b"].tolist())) == len(found["a"])
    assert (np.diff(found["probability"]) <= 0.0).all()
    np.testing.assert_allclose(
        model.probability(np.column_stack([found["a"], found["b"]]), left, right),
        found["probability"],
    )


def test_a_table_is_matched_with_itself_every_pair_once(learned):
    *_, model = learned
    left, right = shops(60, seed=12)
    table = {name: left[name] + right[name] for name in left}
    found = model.match(table)
    pairs = np.column_stack([found["a"], found["b"]])
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    assert (pairs[:, 1] - pairs[:, 0] == 60).sum() >= 50


@pytest.mark.parametrize("one_table", [False, True])
@pytest.mark.parametrize("keep", ["best", "one-to-one"])
def test_what_is_kept_is_that_of_plain_loops(keep, one_table):
    rng = np.random.default_rng(0)
    for _ in range(30):
        pairs = np.unique(rng.integers(6, size=(12, 2)), axis=0)
        pairs = pairs[pairs[:, 0] < pairs[:, 1]] if one_table else pairs
        likely = rng.integers(4, size=len(pairs)) / 4
        order = sorted(range(len(pairs)), key=lambda i: (-likely[i], *pairs[i]))
        ends = [{("a", a), ("a" if one_table else "b", b)} for a, b in pairs.tolist()]
        wanted = []
        for place, i in enumerate(order):
            before = set().union(
                *[ends[j] for j in (wanted if keep == "one-to-one" else order[:place])]
            )
            mine = ends[i] if one_table or keep == "one-to-one" else {("a", int(pairs[i, 0]))}
            fresh = mine - before
            if fresh == mine or (fresh and keep == "best"):
                wanted.append(i)
        assert kept(pairs, likely, keep, one_table).tolist() == wanted


def test_a_stricter_threshold_matches_no_more(learned):
    *_, model = learned
    counts = [len(model.match(threshold=t)["a"]) for t in (0.0, 0.3, 0.6, 0.9)]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"keep": "some"}, "keep must be one of every, best, one-to-one, got 'some'"),
        ({"threshold": 1.5}, r"threshold must be in \[0, 1\], got 1.5"),
        ({"candidates": 0}, "candidates must be a whole number of at least 1, got 0"),
        ({"also": [[0, 10_000]]}, "also names rows that are not there"),
        ({"also": [0, 1]}, "also must be pairs of row numbers"),
    ],
)
def test_matching_refuses_what_means_nothing(learned, options, match):
    *_, model = learned
    with pytest.raises(ValueError, match=match):
        model.match(**options)
