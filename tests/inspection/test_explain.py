"""What distances are made of, against plain loops over the forest's arrays."""

import json
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import metricforest
import naive
from metricforest import HierarchyForest, MetricNeighborsTransformer
from metricforest.core.ssmmc import CANNOT
from metricforest.inspection.explain import WEIGH_BLOCK, different_rows, importances


def loop_shares(metric, a, b):
    """(H by tree, distance by depth, distance by feature) of prepared rows, summed over trees."""
    forest = metric.forest_
    parts, by_depth, by_feature = [], defaultdict(float), defaultdict(float)
    for t in range(forest.n_trees):
        part = naive.tree_distance(forest, t, a, b, metric.alpha)
        parts.append(part)
        node = naive.lowest_common_node(forest, t, a, b)
        if naive.is_leaf(forest, node):
            continue
        by_depth[naive.path(forest, t, a).index(node)] += part
        row = forest.split[node]
        moved = defaultdict(float)
        for weight, j in zip(forest.weights[row], np.cumsum(forest.gaps[row]), strict=False):
            moved[int(j)] += abs(float(weight) * (float(a[j]) - float(b[j])))
        for j, value in moved.items():
            by_feature[j] += part * value / sum(moved.values())
    return np.array(parts), by_depth, by_feature


def spread_out(shares, size):
    out = np.zeros(size)
    for j, value in shares.items():
        out[j] = value
    return out


@pytest.mark.parametrize("pair", [(0, 1), (0, 3), (7, 41), (12, 59)])
def test_shares_are_those_of_plain_loops(small_forest, pair):
    a, b = small_forest._rows[pair[0]], small_forest._rows[pair[1]]
    parts, by_depth, by_feature = loop_shares(small_forest, a, b)
    why = small_forest.explain_pair(*pair)
    total = parts.sum()
    assert why.distance == pytest.approx(parts.mean(), rel=1e-6)
    assert why.spread == pytest.approx(parts.std(ddof=1), rel=1e-6)
    assert why.standard_error == pytest.approx(why.spread / np.sqrt(12))
    assert why.n_separating == sum(part > 0 for part in parts)
    expected = spread_out(by_depth, len(why.by_depth)) / total
    np.testing.assert_allclose(why.by_depth, expected, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(why.by_feature, spread_out(by_feature, 5) / total, rtol=1e-5)


@given(i=st.integers(0, 59), j=st.integers(0, 59))
def test_shares_sum_to_one_and_do_not_ask_who_is_first(small, small_forest, i, j):
    X = small[0]
    there, back = small_forest.explain_pair(i, X[j]), small_forest.explain_pair(j, X[i])
    assert there.distance == back.distance == small_forest.pair_distance(X[[i]], X[[j]])[0]
    total = 1.0 if there.distance else 0.0
    for name in ("by_depth", "by_feature"):
        assert getattr(there, name).sum() == pytest.approx(total)
        assert (getattr(there, name) >= 0).all()
        np.testing.assert_allclose(getattr(there, name), getattr(back, name))
    np.testing.assert_allclose(there.difference, X[i] - X[j], atol=1e-5)
    np.testing.assert_allclose(there.difference, -back.difference)
    assert [near.gap for near in there.nearest_pairs] == [near.gap for near in back.nearest_pairs]
    assert (
        [near.rows for near in there.nearest_pairs]
        == [near.rows[::-1] for near in back.nearest_pairs]
        or len({near.gap for near in there.nearest_pairs}) < 3
        or i == j
    )


def test_nearest_judged_pairs(small, small_forest):
    X, _, pairs, labels = small
    D = small_forest.pairwise_distances(X)
    a, b = 5, 17
    gaps = []
    for (u, v), label in zip(pairs, labels, strict=True):
        gap = min((D[a, u] + D[b, v]) / 2, (D[a, v] + D[b, u]) / 2)
        gaps.append((gap, label == 1, D[u, v]))
    gaps.sort(key=lambda item: item[0])
    found = small_forest.explain_pair(a, b, n_pairs=6).nearest_pairs
    assert [near.gap for near in found] == pytest.approx([gap for gap, _, _ in gaps[:6]])
    for near in found:
        u, v = near.rows
        assert near.gap == pytest.approx((D[a, u] + D[b, v]) / 2)
        assert near.distance == pytest.approx(D[u, v])
        known = {
            tuple(sorted(pair)): label for pair, label in zip(pairs.tolist(), labels, strict=True)
        }
        assert near.same == (known[tuple(sorted(near.rows))] == 1)
    assert small_forest.explain_pair(a, b, n_pairs=0).nearest_pairs == []


def test_a_judged_pair_is_nearest_to_itself(small, small_forest):
    pairs = small[2]
    near = small_forest.explain_pair(*pairs[3].tolist()).nearest_pairs[0]
    assert near.rows == tuple(pairs[3])
    assert near.gap == 0.0


def test_equal_rows_share_nothing(small_forest):
    why = small_forest.explain_pair(4, 4)
    assert (why.distance, why.spread, why.n_separating) == (0.0, 0.0, 0)
    assert why.by_feature.sum() == why.by_depth.sum() == 0.0
    assert "0 of 12 trees separate the two rows" in why.summary()


def test_text_and_json(small):
    X, _, pairs, labels = small
    frame = pd.DataFrame(X, columns=["height", "weight", "age", "noise a", "noise b"])
    metric = HierarchyForest(20, random_state=0).fit(frame, pairs=pairs, pair_labels=labels)
    why = metric.explain_pair(frame.iloc[[0]], frame.iloc[[1]])
    assert why.to_dict() == metric.explain_pair(0, 1).to_dict()
    text = why.summary(n_features=2, n_levels=1)
    first = why.feature_names[int(why.by_feature.argmax())]
    assert first in text
    assert "others" in text
    assert "root" in text
    assert "labelled" in text
    back = json.loads(json.dumps(why.to_dict(), allow_nan=False))
    assert back["by_feature"].keys() == set(frame.columns)
    assert back["nearest_pairs"][0].keys() == {"rows", "same", "distance", "gap"}
    alone = HierarchyForest(1, random_state=0).fit(frame)
    assert json.loads(json.dumps(alone.explain_pair(0, 1).to_dict()))["spread"] is None
    assert "±" not in alone.explain_pair(0, 1).summary()


# -------------------------------------------------------------------------------------- importances


def test_importances_are_the_shares_of_judged_different_rows(small, small_forest):
    _, _, pairs, labels = small
    total = np.zeros(5)
    for i, j in pairs[labels == -1]:
        rows = small_forest._rows
        total += spread_out(loop_shares(small_forest, rows[i], rows[j])[2], 5)
    np.testing.assert_allclose(small_forest.feature_importances_, total / total.sum(), rtol=1e-5)


def test_noise_is_unimportant(small_forest):
    importance = small_forest.feature_importances_
    assert importance.sum() == pytest.approx(1.0)
    assert importance[3:].max() < importance[:3].min()


def test_a_constant_feature_has_no_importance(small):
    X, _, pairs, labels = small
    X = np.column_stack([X, np.ones(len(X))])
    metric = HierarchyForest(8, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    assert metric.feature_importances_[5] == 0.0


def test_importances_count_triplets_and_do_without_labelled_pairs(small):
    X, _classes, _, _ = small
    same = [(i, i + 3, i + 1) for i in range(0, 54)]
    metric = HierarchyForest(20, random_state=0).fit(X, triplets=same)
    a, b = different_rows(metric.constraints_, 60, 0)
    assert {tuple(sorted(p)) for p in zip(a.tolist(), b.tolist(), strict=True)} == {
        (i, i + 1) for i in range(0, 54)
    }
    for labelled in ({}, {"pairs": [[0, 3]], "pair_labels": [1]}):
        metric = HierarchyForest(5, random_state=0).fit(X, **labelled)
        assert metric.feature_importances_.sum() == pytest.approx(1.0)
        assert (metric.feature_importances_ == metric.feature_importances_).all()
    alone = HierarchyForest(3, random_state=0).fit(np.ones((4, 2)))
    assert alone.feature_importances_.tolist() == [0.0, 0.0]


def test_many_judged_rows_are_taken_evenly(small_forest):
    table = small_forest.constraints_
    cannot = table.members[table.kind == CANNOT]
    a, b = different_rows(table, 60, 0, most=5)
    assert len(a) == 5
    assert (a[0], b[0]) == tuple(cannot[0, :2])
    assert (a[-1], b[-1]) == tuple(cannot[-1, :2])


def test_the_bits_do_not_depend_on_the_number_of_threads(small, small_forest):
    rng = np.random.default_rng(0)
    rows = small_forest._rows
    a, b = rng.integers(60, size=(2, 3 * WEIGH_BLOCK + 7))
    one, four = (
        importances(small_forest.forest_, rows[a], rows[b], 0.5, threads) for threads in (1, 4)
    )
    assert (one == four).all()
    X = small[0]
    small_forest.set_params(n_jobs=4)
    four = small_forest.uncertainty(X[a], X[b])
    small_forest.set_params(n_jobs=None)
    assert (four == small_forest.uncertainty(X[a], X[b])).all()


# -------------------------------------------------------------------------------------- uncertainty


def test_uncertainty_is_the_deviation_of_the_trees(small, small_forest):
    X, rows = small[0], small_forest._rows
    spread = small_forest.uncertainty(X[:10], X[20:30], kind="spread")
    for i in range(10):
        parts = [
            naive.tree_distance(small_forest.forest_, t, rows[i], rows[20 + i], 0.5)
            for t in range(12)
        ]
        assert spread[i] == pytest.approx(np.std(parts, ddof=1), rel=1e-5)
    error = small_forest.uncertainty(X[:10], X[20:30])
    np.testing.assert_allclose(error, spread / np.sqrt(12))


def test_more_trees_leave_less_doubt(small):
    X, _, pairs, labels = small
    few, many = (
        HierarchyForest(T, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
        for T in (10, 160)
    )
    error = few.uncertainty(X[:30], X[30:]).mean() / many.uncertainty(X[:30], X[30:]).mean()
    assert 3 < error < 5


# --------------------------------------------------------------------------- files, added rows, errors


def test_after_loading(small, small_forest, tmp_path):
    X = small[0]
    small_forest.save(tmp_path / "m.mf")
    loaded = metricforest.load(tmp_path / "m.mf")
    assert (loaded.feature_importances_ == small_forest.feature_importances_).all()
    assert loaded.explain_pair(0, 9).to_dict() == small_forest.explain_pair(0, 9).to_dict()
    assert (loaded.uncertainty(X[:3], X[3:6]) == small_forest.uncertainty(X[:3], X[3:6])).all()


def test_after_adding_and_removing(small):
    X, _, pairs, labels = small
    metric = HierarchyForest(12, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    before, importance = metric.explain_pair(0, 9), metric.feature_importances_
    (new,) = metric.add(X[:1] + 0.01)
    metric.remove([9])
    assert metric.explain_pair(0, X[9]).to_dict() == before.to_dict()
    assert (metric.feature_importances_ == importance).all()
    assert (
        metric.explain_pair(int(new), 1).to_dict() == metric.explain_pair(X[0] + 0.01, 1).to_dict()
    )
    with pytest.raises(ValueError, match="b = 9 is not an id of the 60 rows"):
        metric.explain_pair(0, 9)


def test_a_metric_over_other_rows_says_so(small, small_forest):
    X, _, pairs, labels = small
    other = small_forest._over(small_forest._prepare(X[::-1].copy()))
    assert other.explain_pair(0, 1).distance == small_forest.explain_pair(59, 58).distance
    assert other.explain_pair(0, 1).nearest_pairs == []
    with pytest.raises(ValueError, match="about the rows of fit"):
        _ = other.feature_importances_
    transformer = MetricNeighborsTransformer(HierarchyForest(4, random_state=0), n_neighbors=3)
    transformer.fit(X, pairs=pairs, pair_labels=labels)
    assert transformer.metric_.feature_importances_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 60), ValueError, "b = 60 is not an id of the 60 rows"),
        ((-1, 0), ValueError, "a = -1 is not an id"),
        ((0, [1.0, 2.0]), ValueError, "2 features"),
        ((np.zeros((2, 5)), 0), ValueError, r"a must be an id or one row, got shape \(2, 5\)"),
        ((True, 0), ValueError, "a must be an id or one row"),
        (([np.nan] * 5, 0), ValueError, "NaN"),
    ],
)
def test_bad_rows(small_forest, arguments, error, message):
    with pytest.raises(error, match=message):
        small_forest.explain_pair(*arguments)


def test_bad_options(small, small_forest):
    X = small[0]
    with pytest.raises(ValueError, match="n_pairs must be at least 0, got -1"):
        small_forest.explain_pair(0, 1, n_pairs=-1)
    with pytest.raises(TypeError, match=r"n_pairs must be an int, got 1\.5"):
        small_forest.explain_pair(0, 1, n_pairs=1.5)
    with pytest.raises(ValueError, match=r"kind must be .* got 'range'"):
        small_forest.uncertainty(X, X, kind="range")
    with pytest.raises(ValueError, match="A has 3 rows, B has 2"):
        small_forest.uncertainty(X[:3], X[:2])
    with pytest.raises(ValueError, match="at least 2 trees, the forest has 1"):
        HierarchyForest(1, random_state=0).fit(X).uncertainty(X, X)
    with pytest.raises(NotFittedError):
        _ = HierarchyForest().feature_importances_
    with pytest.raises(NotFittedError):
        HierarchyForest().explain_pair(0, 1)
