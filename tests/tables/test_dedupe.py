"""`Deduplication` on made tables whose groups are known, and the command around it."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score
from test_pair_model import shops

from metricforest import Deduplication, PairModel
from metricforest.cli import main
from metricforest.tables import dedupe
from metricforest.tables.dedupe import missing_pairs


def people(n_things=40, seed=0):
    """(frame with ids, thing of every row): one to four spellings of each thing, in random order."""
    rng = np.random.default_rng(seed)
    spellings = shops(2 * n_things, seed)
    rows = []
    for thing in range(n_things):
        for copy in range(1 + thing % 4):
            row = {name: values[2 * thing] for name, values in spellings[copy % 2].items()}
            at = int(rng.integers(len(row["name"])))
            row["name"] = row["name"][:at] + row["name"][at + 1 :]
            rows.append({"key": f"k{len(rows)}", **row, "thing": thing})
    frame = pd.DataFrame(rows).sample(frac=1, random_state=seed, ignore_index=True)
    return frame, frame.pop("thing").to_numpy()


def labelled(frame, thing, m=120, seed=0):
    """m labelled pairs of keys: half the same thing, half neighbours in its list."""
    rng = np.random.default_rng(seed)
    keys, pairs = frame["key"].to_numpy(), []
    while len(pairs) < m:
        a = int(rng.integers(len(keys)))
        near = np.flatnonzero(thing == thing[a] if len(pairs) % 2 else thing == thing[a] ^ 1)
        b = int(rng.choice(near)) if len(near) else a
        if a != b:
            pairs.append((keys[a], keys[b], int(thing[a] == thing[b])))
    return pairs


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def model(table):
    frame, thing = table
    return PairModel(id="key", n_estimators=50, random_state=0).fit(
        frame, pairs=labelled(frame, thing)
    )


def test_groups_are_things_and_labelled_pairs_are_kept(table, model):
    frame, thing = table
    pairs = labelled(frame, thing)
    found = Deduplication(FrozenEstimator(model)).fit(frame, pairs=pairs)
    score = adjusted_rand_score(thing, found.labels_)
    matches = model.match()
    row = {key: i for i, key in enumerate(frame["key"])}
    a, b = ([row[key] for key in matches[side]] for side in "ab")
    graph = sp.csr_matrix((np.ones(len(a)), (a, b)), (len(frame), len(frame)))
    chained = connected_components(graph, directed=False)[1]
    assert score > 0.8
    assert score > adjusted_rand_score(thing, chained)
    group = dict(zip(found.ids_, found.labels_, strict=True))
    assert all((group[a] == group[b]) == bool(same) for a, b, same in pairs)
    assert len(found.broken_pairs_) == 0
    own = pd.DataFrame(found.table())
    assert sorted(own["id"]) == sorted(frame["key"])
    assert own.groupby("group")["representative"].sum().eq(1).all()
    assert own.groupby("group")["representative"].first().all()
    assert own["confidence"].between(0, 1).all()


def test_learning_is_that_of_the_model(table, model):
    frame, thing = table
    pairs = labelled(frame, thing)
    whole = Deduplication(clone(model)).fit(frame, pairs=pairs)
    frozen = Deduplication(FrozenEstimator(model)).fit(frame, pairs=pairs)
    np.testing.assert_array_equal(whole.labels_, frozen.labels_)
    assert whole.threshold_ == model.threshold_
    np.testing.assert_array_equal(clone(whole).fit(frame, pairs=pairs).labels_, whole.labels_)


def test_of_contradicting_labels_the_unlikely_one_is_broken(table, model):
    frame, thing = table
    a, b = frame["key"][np.flatnonzero(thing == 2)[:2]]
    found = Deduplication(FrozenEstimator(model)).fit(frame, pairs=[(a, b, 1), (b, a, 0)])
    assert found.broken_pairs_.tolist() == [[b, a]]
    assert found.labels_[frame["key"] == a] == found.labels_[frame["key"] == b]


def test_questions_are_close_decisions_that_nobody_labelled(table, model):
    frame, thing = table
    pairs = labelled(frame, thing)
    asked = Deduplication(FrozenEstimator(model)).fit(frame, pairs=pairs).questions(8)
    told = {frozenset(pair[:2]) for pair in pairs}
    named = [frozenset(pair) for pair in zip(asked["a"], asked["b"], strict=True)]
    assert 0 < len(named) == len(set(named)) <= 8
    assert not told & set(named)


def test_a_threshold_of_one_joins_only_what_is_labelled(table, model):
    frame, _ = table
    a, b = frame["key"][:2]
    found = Deduplication(FrozenEstimator(model), threshold=1.0).fit(frame, pairs=[(a, b, 1)])
    assert found.labels_[0] == found.labels_[1]
    assert np.bincount(found.labels_).max() <= 2


def test_pairs_of_a_piece_are_compared_with_each_other():
    likely = np.array([[0, 1], [1, 2], [2, 3], [5, 6]])
    found, drawn, large = missing_pairs(8, likely, np.array([[2, 0], [0, 1], [1, 2], [2, 3]]))
    assert sorted(map(tuple, found.tolist())) == [(0, 3), (1, 3)]
    assert not drawn.any()
    assert not large.any()


def test_pairs_of_a_piece_too_large_are_drawn(monkeypatch):
    monkeypatch.setattr(dedupe, "LEAST_COMPLETED", 300)
    monkeypatch.setattr(dedupe, "COMPLETED", 1)
    chain = np.column_stack([np.arange(59), np.arange(1, 60)])
    likely = np.concatenate([chain[chain[:, 1] != 20], [[60, 61]]])  # 20 rows, 40 rows, 2 rows
    found, drawn, large = missing_pairs(62, likely, likely)
    assert large.tolist() == [False] * 20 + [True] * 40 + [False] * 2
    assert len(found) == len({tuple(sorted(pair)) for pair in found.tolist()})
    assert large[found[drawn]].all()
    assert (~drawn).sum() == 20 * 19 // 2 - 19
    assert 300 < drawn.sum() < 40 * dedupe.DRAWN


def test_one_row(table, model):
    frame, _ = table
    found = Deduplication(FrozenEstimator(model)).fit(frame[:1])
    assert (found.labels_.tolist(), found.confidence_.tolist()) == ([0], [1.0])
    assert len(found.questions()["a"]) == 0


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"threshold": 0.0}, ValueError, r"threshold must be in \(0.0, 1.0\], got 0.0"),
        ({"candidates": 0}, ValueError, "candidates must be at least 1, got 0"),
        ({"model": "forest"}, TypeError, "model must be a PairModel or None, got 'forest'"),
        ({}, ValueError, "labelled pairs are needed"),
    ],
)
def test_refused(table, params, error, match):
    with pytest.raises(error, match=match):
        Deduplication(**params).fit(table[0])


def test_the_command(table, tmp_path):
    frame, thing = table
    rows, pairs = tmp_path / "rows.csv", tmp_path / "pairs.csv"
    frame.to_csv(rows, index=False)
    pd.DataFrame(labelled(frame, thing), columns=["a", "b", "same"]).to_csv(pairs, index=False)
    out, ask = tmp_path / "groups.csv", tmp_path / "ask.csv"
    call = ["dedupe", str(rows), "--id", "key", "--pairs", str(pairs), "--jobs", "1"]
    done = CliRunner().invoke(main, [*call, "--ask", str(ask), "-n", "5", "-o", str(out)])
    assert done.exit_code == 0, done.output
    groups = pd.read_csv(out)
    assert list(groups.columns) == ["id", "group", "confidence", "representative"]
    of = dict(zip(groups["id"], groups["group"], strict=True))
    assert adjusted_rand_score(thing, [of[key] for key in frame["key"]]) > 0.8
    assert list(pd.read_csv(ask).columns) == ["left", "right", "answer"]
    missing = CliRunner().invoke(main, [*call[:3], "sku", *call[4:]])
    assert missing.exit_code == 2
    assert "no column 'sku'" in missing.output
    again = CliRunner().invoke(main, [*call, "--json"])
    assert len(json.loads(again.stdout)) == len(frame)
