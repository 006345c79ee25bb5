"""Columns, their preparation, labelled pairs by ids, and the metric over tables."""

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import metricforest
from metricforest import HierarchyForest, TableMetric, TablePreparation, cli, rivals
from metricforest.storage.format import write
from metricforest.storage.registry import content_of
from metricforest.supervision import constraints
from metricforest.tables import columns, pair_labels
from metricforest.tables import metric as table_metric
from metricforest.tables.columns import as_text, kind_of, parse
from metricforest.tables.pair_labels import read_labelled_pairs
from metricforest.tables.preparation import UnreadableWarning

DATA = Path(__file__).parents[1] / "data"


def shop(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with every kind of column and gaps, and the group of every row."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "sku": [f"p{i:03d}" for i in range(n)],
            "price": 3.0 * group + rng.normal(size=n),
            "brand": np.array(["a", "b", "c"], object)[(group + (rng.random(n) < 0.2)) % 3],
            "listed": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
            "new": rng.random(n) < 0.5,
            "note": [f"a long remark about the article with number {i}" for i in range(n)],
            "region": "EU",
            "empty": np.nan,
        }
    )
    frame.loc[::9, "price"] = np.nan
    frame.loc[::11, "brand"] = None
    return frame, group


def labelled(group: np.ndarray, m: int = 150, seed: int = 1) -> pd.DataFrame:
    a, b = np.random.default_rng(seed).integers(0, len(group), (2, m))
    a, b = a[a != b], b[a != b]
    return pd.DataFrame(
        {
            "left": [f"p{i:03d}" for i in a],
            "right": [f"p{i:03d}" for i in b],
            "answer": np.where(group[a] == group[b], "same", "different"),
        }
    )


def small(**params) -> TableMetric:
    forest = HierarchyForest(15, standardize=False)
    return TableMetric(forest, id="sku", random_state=0, **{"kinds": {"note": "drop"}} | params)


@pytest.fixture(scope="module")
def learned():
    frame, group = shop()
    return small().fit(frame, pairs=labelled(group)), frame, group


# ---------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5, None, 2], "number"),
        (["1.5", "-2", "3e4", None] * 9, "number"),
        (["1", "2", "oops"] + ["3", "4"] * 40, "number"),  # one in 83 is no number
        (["1", "2", "oops", "what"] * 5, "category"),
        (["007", "012", "100"] * 5, "category"),
        ([True, None, False], "boolean"),
        (["yes", "no", "Yes", None], "boolean"),
        (["TRUE", "false"], "boolean"),
        (["2024-01-31", "2024-02-01T10:30", None], "date"),
        ([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "date"),
        (np.array(["2024-01-01", "2024-01-02", "NaT"], "datetime64[D]"), "date"),
        (["red", "blue", "red", "blue", None], "category"),
        (pd.Series([1, 2, 1, 2], dtype="category"), "category"),
        (pd.Series([1, 2, None], dtype="Int64"), "number"),
        (pd.Series([True, None, False], dtype="boolean"), "boolean"),
        (pd.Series(pd.date_range("2024", periods=3, tz="Europe/Oslo")), "date"),
        (pd.Series(["a", "b", None, "a", "b"], dtype="string"), "category"),
        (pd.to_timedelta(pd.Series([1, 2, 3]), "h"), "number"),
        (pl.Series([1, None, 3]), "number"),
        (pl.Series(["a", None, "b", "a", "b"]), "category"),
        (pl.Series(["a", "b", "a", "b"], dtype=pl.Categorical), "category"),
        (pl.Series([dt.datetime(2024, 1, 1, 12), None, dt.datetime(2024, 1, 2)]), "date"),
        (pl.Series([True, None, False]), "boolean"),
        ([["x"], ["y"], ["x"], ["y"]], "category"),
        (["a", "a", *(f"k{i}" for i in range(30))], "text"),
        ([f"a remark that is rather long, {i}" for i in range(30)], "text"),
        ([f"{i} Oak Street" for i in range(30)], "text"),
        (["19560409", "19561231", None, "20240101"], "date"),
        (np.array([19560409, 19561231, 20240101]), "date"),
        (["19560409", "19561331", "20240101"] * 5, "number"),  # no thirteenth month
        (["19560409"] * 5 + ["19990101"] * 5 + ["x"] * 9, "category"),
        (np.array([19560409.5, 19561231.0]), "number"),
    ],
)
def test_what_a_column_holds(values, kind):
    column = values
    if isinstance(values, list):
        column = np.empty(len(values), object)
        column[:] = values
    assert kind_of("column", column, least=2) == (kind, "")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([None] * 5, "all values are missing"),
        ([np.nan] * 5, "all values are missing"),
        ([np.inf] * 5, "all values are missing"),
        ([4.0] * 5, "constant: 4.0 in every row"),
        (["EU"] * 5, "constant: 'EU' in every row"),
        (list(range(7, 37)), "id-like: 30 different whole numbers"),
        ([f"k{i}" for i in range(30)], "id-like: 30 different texts in 30 rows"),
        ([f"{i}/01/2024" for i in range(1, 31)], "If they are dates, write '1/01/2024' as year"),
    ],
)
def test_why_a_column_is_of_no_use(values, why):
    """A category that the table calls one is no text."""
    declared = pd.Series(["a", "a", *(f"k{i}" for i in range(30))], dtype="category")
    assert "too many levels: 31 different texts in 32" in kind_of("column", declared, least=2)[1]
    column = np.empty(len(values), object)
    column[:] = values
    assert why in kind_of("column", column, least=2)[1]


def test_an_id_is_known_by_its_name_too():
    numbers = np.arange(30) * 7 + 3
    assert "id-like" in kind_of("customer_id", numbers, 2)[1]
    assert kind_of("weight", numbers, 2) == ("number", "")


def test_values_are_read_as_the_kind_that_is_known():
    column = np.array(["3", 4, None, "x", "inf"], object)
    numbers, bad = parse(column, "number")
    np.testing.assert_array_equal(numbers, [3, 4, np.nan, np.nan, np.nan])
    assert bad == ["x"]
    assert parse(np.array([1.0, 2.5, np.nan]), "category")[0].tolist() == ["1", "2.5", None]
    days, bad = parse(np.array(["1970-01-02", "1970-01-01T12:00+00:00", "soon", 5], object), "date")
    np.testing.assert_array_equal(days, [1.0, 0.5, np.nan, np.nan])
    assert bad == ["soon", "5"]
    assert parse(np.array(["yes", "FALSE", 1], object), "boolean")[0].tolist() == [1.0, 0.0, 1.0]
    assert [as_text(v) for v in (7, 7.0, "7", np.int8(7), 7.5, True)] == [*["7"] * 4, "7.5", "True"]


# ------------------------------------------------------------------------------------ preparation


def test_prepared_features_are_those_of_scikit_learn():
    frame, _ = shop(400)
    frame["brand"] = frame["brand"].where(np.arange(400) % 50 > 0, "rare")
    preparation = TablePreparation({"note": "drop"}, min_frequency=0.05).fit(frame)
    days = ((frame["listed"] - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")).to_frame()
    plain = pd.concat([frame[["price"]], days, frame[["new"]].astype(float)], axis=1)
    encoder = OneHotEncoder(
        min_frequency=20, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    level = frame[["brand"]].astype(object).where(frame[["brand"]].notna(), "z missing")
    oracle = ColumnTransformer(
        [
            (
                "price",
                make_union(
                    make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
                    MissingIndicator(),
                ),
                ["price"],
            ),
            ("listed", StandardScaler(), ["listed"]),
            ("new", "passthrough", ["new"]),
        ]
    )
    numbers = oracle.fit_transform(plain)
    levels = encoder.fit_transform(level)  # a, b, c, missing, rare ones
    assert encoder.get_feature_names_out().tolist()[-2:] == [
        "brand_z missing",
        "brand_infrequent_sklearn",
    ]
    want = np.column_stack([numbers[:, :2], levels[:, [0, 1, 2, 4, 3]], numbers[:, 2:]])
    np.testing.assert_allclose(preparation.transform(frame), want, atol=1e-12)
    assert preparation.get_feature_names_out().tolist() == [
        "price",
        "price is missing",
        "brand=a",
        "brand=b",
        "brand=c",
        "brand=(other)",
        "brand is missing",
        "listed",
        "new",
    ]


def test_useless_columns_are_named():
    frame, _ = shop()
    dropped = TablePreparation().fit(frame).dropped_
    assert {name: why.split(":")[0] for name, why in dropped.items()} == {
        "sku": "id-like",
        "region": "constant",
        "empty": "all values are missing",
    }


def test_set_output_gives_frames():
    frame, _ = shop()
    for kind, like in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        features = TablePreparation().set_output(transform=kind).fit_transform(frame)
        assert isinstance(features, like)
        assert "brand=a" in features.columns


def test_rows_asked_about_are_found_by_name_and_read_alike():
    frame, _ = shop()
    preparation = TablePreparation().fit(frame)
    want = preparation.transform(frame)
    shuffled = frame[["new", "listed", "brand", "note", "price"]].assign(more=1)
    np.testing.assert_array_equal(preparation.transform(shuffled), want)
    text = frame.astype(object).where(frame.notna(), None).map(lambda v: v if v is None else str(v))
    np.testing.assert_allclose(preparation.transform(text), want)
    np.testing.assert_array_equal(preparation.transform(pl.from_pandas(frame)), want)
    np.testing.assert_array_equal(preparation.transform(frame.to_dict("series")), want)


def test_levels_that_are_new_count_as_other_levels_or_as_none():
    frame = pd.DataFrame({"kind": ["a"] * 10 + ["b"] * 10})
    plain = TablePreparation().fit(frame)
    assert plain.transform({"kind": ["new", "a"]}).tolist() == [[0, 0], [1, 0]]
    frame.loc[20] = "c"
    joined = TablePreparation().fit(frame)
    assert joined.get_feature_names_out().tolist() == ["kind=a", "kind=b", "kind=(other)"]
    assert joined.transform({"kind": ["new", "c", None]}).tolist() == [[0, 0, 1]] * 2 + [[0, 0, 0]]


def test_a_value_that_cannot_be_read_is_missing_with_a_warning():
    preparation = TablePreparation().fit({"size": [1.0, 2.0, 4.0, np.nan]})
    with pytest.warns(
        UnreadableWarning, match="column 'size': 1 values are no number, such as 'x'"
    ):
        features = preparation.transform({"size": ["x", "2"]})
    np.testing.assert_array_equal(features, [[features[1, 0], 1], [features[1, 0], 0]])
    noted = TablePreparation().fit({"size": ["1", "2"] * 20 + ["x"]})
    assert noted.notes_ == [
        "column 'size': 1 values are no number, such as 'x', and count as missing"
    ]


def test_bad_tables_are_refused_by_name():
    frame, _ = shop()
    preparation = TablePreparation().fit(frame)
    with pytest.raises(ValueError, match="has no column 'price'; it has sku, brand"):
        preparation.transform(frame.drop(columns="price"))
    with pytest.raises(ValueError, match="no column of the table can be used: x: constant"):
        TablePreparation().fit({"x": [1, 1]})
    with pytest.raises(ValueError, match="the table has no rows"):
        TablePreparation().fit(frame[:0])
    with pytest.raises(ValueError, match="the column 'a' twice"):
        TablePreparation().fit(pd.DataFrame(np.eye(3), columns=["a", "a", "b"]))
    with pytest.raises(ValueError, match="columns differ in length"):
        TablePreparation().fit({"a": [1, 2], "b": [1]})
    with pytest.raises(ValueError, match=r"kinds\['price'\] must be one of number"):
        TablePreparation({"price": "money"}).fit(frame)
    with pytest.raises(ValueError, match="has no column 'cost'"):
        TablePreparation({"cost": "number"}).fit(frame)
    with pytest.raises(ValueError, match=r"min_frequency must be in \[0.0, 1.0\], got 2"):
        TablePreparation(min_frequency=2).fit(frame)
    with pytest.raises(ValueError, match="the table has 2 columns, fitted were 3"):
        TablePreparation().fit(np.random.default_rng(0).normal(size=(9, 3))).transform(np.eye(2))


def test_kinds_can_be_given():
    frame = pd.DataFrame({"code": [1, 2, 3] * 5, "x": np.arange(15) % 4, "y": np.arange(15) % 7})
    preparation = TablePreparation({"code": "category", "y": "drop"}).fit(frame)
    assert preparation.get_feature_names_out().tolist() == ["code=1", "code=2", "code=3", "x"]
    assert preparation.dropped_ == {"y": "as asked for"}


CELL = {
    "number": st.none() | st.floats(-1e6, 1e6).map(lambda x: round(x, 3)) | st.integers(-99, 99),
    "text": st.none() | st.sampled_from(["a", "b", "ä c", "", "7"]),
    "flag": st.none() | st.booleans(),
    "day": st.none() | st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(st.tuples(*CELL.values()), min_size=6, max_size=25), data=st.data())
def test_a_preparation_survives_its_file(rows, data, tmp_path):
    frame = pd.DataFrame(rows, columns=list(CELL), dtype=object)
    frame["x"] = np.arange(len(frame)) % 5
    forest = HierarchyForest(2, standardize=False, random_state=0)
    metric = TableMetric(forest, cv=0).fit(frame)
    metric.save(tmp_path / "table.mf")
    again = metricforest.load(tmp_path / "table.mf")
    assert again.preparation_.columns_ == metric.preparation_.columns_
    assert again.preparation_.dropped_ == metric.preparation_.dropped_
    queries = pd.DataFrame(
        data.draw(st.lists(st.tuples(*CELL.values()), min_size=1, max_size=5)),
        columns=list(CELL),
        dtype=object,
    ).assign(x=1)
    features = metric.preparation_.transform(queries)
    assert np.isfinite(features).all()
    np.testing.assert_array_equal(again.preparation_.transform(queries), features)


# ------------------------------------------------------------------------------------- labelled pairs


def test_labelled_pairs_are_merged_and_counted():
    ids = np.array(["a", "b", "c", "d"])
    given = [
        ["a", "b", "same"],
        ["b", "a", "1"],
        ["a", "c", "Different"],
        ["c", "a", "match"],
        ["a", "zz", "same"],
        ["q", "zz", "same"],
        ["d", "d", "same"],
        ["c", "d", "?"],
        ["b", "d", "-1"],
    ]
    found = read_labelled_pairs(given, None, ids)
    assert found.pairs.tolist() == [[0, 1], [0, 2], [0, 2], [1, 3]]
    assert found.labels.tolist() == [1, -1, 1, -1]
    assert (found.n_given, found.merged, found.n_unknown, found.selves, found.unsure) == (
        9,
        1,
        2,
        1,
        1,
    )
    assert found.contradictions == [("a", "c")]
    assert found.unknown == ["zz", "q"]


@pytest.mark.parametrize(
    "answers",
    [
        [1, 0],
        [1, -1],
        [True, False],
        ["true", "FALSE"],
        ["match", "distinct"],
        [1.0, 0.0],
        ["+1", "-1"],
    ],
)
def test_answers_come_in_many_words(answers):
    ids = np.arange(3)
    pairs = pd.DataFrame({"a": [0, 1], "b": [1, 2], "c": answers})
    assert read_labelled_pairs(pairs, None, ids).labels.tolist() == [1, -1]
    assert read_labelled_pairs([[0, 1], [1, 2]], answers, ids).labels.tolist() == [1, -1]


def test_bad_labelled_pairs_are_refused():
    ids = np.arange(3)
    with pytest.raises(ValueError, match="the label of pair 1 is 'perhaps'; labels are same or"):
        read_labelled_pairs([["0", "1", "perhaps"]], None, ids)
    with pytest.raises(ValueError, match="pairs need 3 columns, two ids and a label, got 2"):
        read_labelled_pairs([[0, 1]], None, ids)
    with pytest.raises(ValueError, match="1 pairs, but 2 pair_labels"):
        read_labelled_pairs([[0, 1]], [1, 0], ids)


# ------------------------------------------------------------------------------------- the metric


def test_a_table_is_learned_asked_and_answered_by_ids(learned):
    metric, frame, _ = learned
    assert np.nanmean(metric.cv_auc_) > 0.7
    assert metric.ids_.tolist() == frame["sku"].tolist()
    distance, ids = metric.kneighbors(frame[:5], 3)
    assert ids[:, 0].tolist() == frame["sku"].tolist()[:5]
    assert (distance[:, 0] == 0).all()
    table = metric.neighbors(frame[:5], 3)
    assert table.columns.tolist() == ["query", "rank", "neighbor", "distance", "probability"]
    assert table["neighbor"].tolist() == ids.ravel().tolist()
    assert table["query"].tolist() == np.repeat(frame["sku"][:5], 3).tolist()
    own = metric.neighbors(n_neighbors=2)
    assert (own["query"] != own["neighbor"]).all()


def test_polars_answers_in_polars_and_equally(learned):
    metric, frame, group = learned
    other = pl.from_pandas(frame)
    again = small().fit(other, pairs=pl.from_pandas(labelled(group)))
    np.testing.assert_array_equal(again.pairwise_distances(other), metric.pairwise_distances(frame))
    table = again.neighbors(other[:2], 2)
    assert isinstance(table, pl.DataFrame)
    assert table["query"].to_list() == ["p000", "p000", "p001", "p001"]
    assert isinstance(again.match(other, threshold=0.0), pl.DataFrame)


def test_a_file_keeps_everything_but_the_labelled_pairs(learned, tmp_path):
    metric, frame, _ = learned
    metric.save(tmp_path / "shop.mf")
    for mmap in (False, True):
        again = metricforest.load(tmp_path / "shop.mf", mmap=mmap)
        assert str(again.get_params()) == str(metric.get_params())
        np.testing.assert_array_equal(
            again.pairwise_distances(frame), metric.pairwise_distances(frame)
        )
        assert again.neighbors(frame[:9], 4).equals(metric.neighbors(frame[:9], 4))
        assert again.threshold_for(0.8) == metric.threshold_for(0.8)
        assert again.threshold_ == metric.threshold_
        assert again.feature_names_in_.tolist() == frame.columns.tolist()
        assert again.preparation_.notes_ == metric.preparation_.notes_
        assert again.labelled_pairs_ is None
    again.save(tmp_path / "again.mf")
    assert (tmp_path / "again.mf").read_bytes() == (tmp_path / "shop.mf").read_bytes()


def test_the_golden_file_still_loads():
    expected = json.loads((DATA / "table_metric_v1.json").read_text("utf-8"))
    metric = metricforest.load(DATA / "table_metric_v1.mf")
    frame = pd.DataFrame(expected["rows"])
    params = {k: v for k, v in metric.get_params().items() if k != "metric"}
    # younger than the file: as if nobody had asked for them
    younger = {"metric__implied_pairs": False, "metric__n_components": 64, "metric__tol": 0.01}
    younger |= {"pair_model": None, "metric__heights": "size"}
    assert params == expected["params"] | younger
    assert metric.ids_.tolist() == expected["ids"]
    assert metric.threshold_ == expected["threshold"]
    names = metric.preparation_.get_feature_names_out().tolist()
    assert names == expected["feature_names"]
    np.testing.assert_allclose(metric.preparation_.transform(frame), expected["features"])
    np.testing.assert_allclose(metric.pairwise_distances(frame), expected["distances"], rtol=1e-6)


@pytest.mark.parametrize("name", ["Euclidean", "ITML"])
def test_any_metric_may_stand_inside(name, tmp_path):
    frame, group = shop(60)
    metric = TableMetric(getattr(rivals, name)(), id="sku", random_state=0)
    metric.fit(frame, pairs=labelled(group, 60))
    metric.save(tmp_path / "other.mf")
    again = metricforest.load(tmp_path / "other.mf")
    np.testing.assert_array_equal(again.pairwise_distances(frame), metric.pairwise_distances(frame))
    assert type(again.metric) is getattr(rivals, name)
    assert metric.match(frame, precision=0.5).columns.tolist()[:2] == ["a", "b"]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("preparation_", "kinds"), np.array(["number"] * 3 + ["evil"], object), "of the kind"),
        (("preparation_", "scale"), np.zeros(4), "not positive"),
        (("preparation_", "n_levels"), np.array([0, 9, 0, 0]), "levels, but n_levels"),
        (("preparation_", "names"), np.array([], object), "without columns"),
        (("preparation_", "n_features_in_"), 1, "n_features_in_ is 1"),
        (("metric_", "class_name"), "TableMetric", "inside a TableMetric"),
        (("metric_", "class_name"), "os.system", "it holds a 'os.system'"),
        (("ids_",), np.arange(3), "3 ids for 120 rows"),
        (("ids_",), np.zeros(120), "no array of whole numbers or text"),
        (("held_out_same_",), np.zeros(2), "held_out_same_ is float64"),
    ],
)
def test_files_that_lie_are_refused(learned, tmp_path, monkeypatch, place, value, message):
    metric, _, _ = learned
    state = metric._state()
    inner = state
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    monkeypatch.setattr(TableMetric, "_state", lambda self: state)
    write(tmp_path / "bad.mf", content_of(metric))
    with pytest.raises(ValueError, match=f"cannot save to .*worse.mf, .*{message}"):
        metric.save(tmp_path / "worse.mf")
    with pytest.raises(ValueError, match=f"cannot load .*bad.mf: .*{message}"):
        metricforest.load(tmp_path / "bad.mf")


def test_labels_may_be_a_column(tmp_path):
    frame, group = shop()
    frame["group"] = np.where(np.arange(len(group)) % 2, "", np.array(["x", "y", "z"])[group])
    frame["group"] = frame["group"].replace("", None)
    metric = small().fit(frame, "group")
    assert metric.preparation_.dropped_["group"] == "holds the labels"
    assert np.nanmean(metric.cv_auc_) > 0.6
    same = small().fit(frame.drop(columns="group"), np.where(np.arange(len(group)) % 2, -1, group))
    np.testing.assert_array_equal(same.pairwise_distances(frame), metric.pairwise_distances(frame))


def test_ids_are_the_column_the_index_or_row_numbers():
    frame, group = shop(40)
    forest = HierarchyForest(3, standardize=False)
    pairs = labelled(group, 40)
    by_index = TableMetric(forest, cv=0).fit(frame.set_index("sku"), pairs=pairs)
    assert by_index.ids_.tolist() == frame["sku"].tolist()
    numbered = TableMetric(forest, cv=0).fit(frame, pairs=[[0, 1, 1], [0, 2, 0]])
    assert numbered.ids_.tolist() == list(range(40))
    assert TableMetric(forest, cv=0).fit(frame.to_dict("list")).ids_.tolist() == list(range(40))
    assert TableMetric(forest, cv=0).fit(frame[["price", "new"]].to_numpy(object)).ids_[3] == 3


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_long_whole_numbers_keep_their_last_digit(frame):
    ids = 2**62 + np.arange(30)
    table = frame({"key": ids, "x": np.arange(30) % 7})
    pairs = frame({"a": ids[[0, 2]], "b": ids[[1, 4]], "c": [1, 0]})
    metric = TableMetric(HierarchyForest(2), id="key", cv=0, random_state=0).fit(table, pairs=pairs)
    assert metric.ids_.tolist() == ids.tolist()
    assert metric.labelled_pairs_.pairs.tolist() == [[0, 1], [2, 4]]
    beyond = [2**64 + i for i in range(30)]
    assert metric.fit({"key": beyond, "x": np.arange(30) % 7}).ids_[0] == str(2**64)
    with pytest.raises(ValueError, match=r"ids have at most 200 characters, but 'aaaa.* has 300"):
        metric.fit({"key": ["a" * 300, "b"], "x": [1, 2]})


def test_fit_refuses_what_it_cannot_use():
    frame, group = shop(30)
    pairs = labelled(group, 20)
    with pytest.raises(ValueError, match="ids must differ, but 'p000' is the id of 2 rows"):
        small().fit(pd.concat([frame, frame[:1]]), pairs=pairs)
    with pytest.raises(ValueError, match="row 2 has no id in column 'sku'"):
        small().fit(frame.assign(sku=[*"a", None, *map(str, range(28))]), pairs=pairs)
    with pytest.raises(ValueError, match="has no column 'nope'"):
        TableMetric(id="nope").fit(frame)
    with pytest.raises(ValueError, match="has no column 'nope'"):
        small().fit(frame, "nope")
    with pytest.raises(ValueError, match="no labelled pair is left of 1: 1 with ids that are not"):
        small().fit(frame, pairs=[["x", "y", 1]])
    with pytest.raises(ValueError, match="pair_labels were given without pairs"):
        small().fit(frame, pair_labels=[1])
    with pytest.raises(ValueError, match="cv must be 0 or at least 2, got 1"):
        small(cv=1).fit(frame, pairs=pairs)
    with pytest.raises(TypeError, match="metric must be a metric of metricforest or None, got 3"):
        TableMetric(3).fit(frame)
    with pytest.raises(TypeError, match="got a TableMetric"):
        TableMetric(TableMetric()).fit(frame)
    with pytest.raises(ValueError, match="y has 2 labels, the table has 30 rows"):
        small().fit(frame, [1, 2])
    with pytest.warns(UserWarning, match="pairs left out: 1 with ids that are not in the table"):
        small(cv=0).fit(frame, pairs=pd.concat([pairs, pairs[:1].assign(left="who")]))


def test_a_refused_fit_leaves_the_metric_as_it_was(learned):
    metric, frame, _ = learned
    before = metric.neighbors(frame[:3])
    with pytest.raises(ValueError, match="no labelled pair is left"):
        metric.fit(frame, pairs=[["x", "y", 1]])
    assert metric.neighbors(frame[:3]).equals(before)
    assert hasattr(metric, "threshold_")


def test_matches_are_the_near_pairs(learned):
    metric, frame, _ = learned
    far = metric.pairwise_distances(frame)
    cut = 0.02
    a, b = np.nonzero(np.triu(far <= cut, 1))
    found = metric.match(frame, threshold=cut, max_matches=119)
    want = set(zip(frame["sku"].to_numpy()[a], frame["sku"].to_numpy()[b], strict=True))
    assert set(zip(found["a"], found["b"], strict=True)) == want
    assert found["distance"].is_monotonic_increasing
    across = metric.match(frame[:30], frame[30:], threshold=cut, max_matches=90)
    a, b = np.nonzero(far[:30, 30:] <= cut)
    assert len(across) == len(a)
    assert len(metric.match(frame[:1], threshold=cut)) == 0
    own = metric.match(threshold=cut, max_matches=119)
    assert set(zip(own["a"], own["b"], strict=True)) == want


def test_a_threshold_is_chosen_by_held_out_pairs(learned):
    metric, frame, _ = learned
    for precision in (0.5, 0.8):
        called = metric.held_out_distance_ <= metric.threshold_for(precision)
        assert metric.held_out_same_[called].mean() >= precision
    with pytest.raises(ValueError, match=r"min_rate must be in \[0, 1\], got 3"):
        metric.threshold_for(3)
    untold = small(cv=0).fit(frame)
    assert not hasattr(untold, "threshold_")
    with pytest.raises(ValueError, match="of 0 pairs held out 0 are the same: label more pairs"):
        untold.match(frame)
    assert (metric.predict_pairs(frame[:4], frame[:4]) == 1).all()


def test_a_threshold_may_be_calibrated_by_ids(learned):
    _, frame, group = learned
    metric = small(cv=0).fit(frame, pairs=labelled(group))
    metric.calibrate_threshold(labelled(group, seed=5), None, X=frame, strategy="accuracy")
    assert 0 < metric.threshold_ < 1
    assert len(metric.match(frame)) == len(metric.match(frame, threshold=metric.threshold_))


def test_searches_answer_with_ids_and_graphs_with_places(learned):
    metric, frame, _ = learned
    ids = metric.radius_neighbors(frame[:2], 0.05, return_distance=False)
    assert all(near[0] == own for near, own in zip(ids, frame["sku"], strict=False))
    graph = metric.kneighbors_graph(frame[:4], 3, mode="distance")
    found = metric.kneighbors(frame[:4], 3, return_distance=False)
    assert metric.ids_[graph.indices.reshape(4, 3)].tolist() == found.tolist()
    exact = metric.kneighbors(frame[:4], 3, n_candidates=None)[0]
    np.testing.assert_array_equal(
        np.sort(metric.pairwise_distances(frame[:4], frame))[:, :3], exact
    )
    with pytest.raises(ValueError, match="no row is called 'zz'; there are 120 rows: 'p000'"):
        metric.rows_of(["zz"])


def test_explanations_speak_of_the_table(learned):
    metric, frame, _ = learned
    answer = metric.explain_pair("p003", "p005")
    plain = metric.metric_.explain_pair(3, 5)
    assert answer.distance == plain.distance
    scale = metric.preparation_.columns_[0].scale
    assert answer.difference[0] == pytest.approx(plain.difference[0] * scale)
    known = set(metric.ids_.tolist())
    assert all(set(near.rows) <= known for near in answer.nearest_pairs)
    again = metric.explain_pair(frame[3:4], "p005")
    assert again.distance == pytest.approx(answer.distance)
    with pytest.raises(ValueError, match="one of the tables has 2"):
        metric.explain_pair(frame[:2], "p005")
    other = TableMetric(rivals.Euclidean(), id="sku", cv=0).fit(frame)
    with pytest.raises(TypeError, match="a Euclidean cannot say what to label next"):
        other.suggest_pairs(3)
    with pytest.raises(TypeError, match="a Euclidean cannot doubt labelled pairs"):
        other.suspect_pairs(3)
    with pytest.raises(TypeError, match="a Euclidean cannot explain its distances"):
        other.explain_pair("p003", "p005")


def test_a_table_metric_is_cloned_with_its_parameters(learned):
    metric, _, _ = learned
    assert str(clone(metric).get_params()) == str(metric.get_params())
    assert metric.get_params()["metric__n_estimators"] == 15


LONG = 2**60


@pytest.mark.parametrize("kind", ["list", "array", "pandas", "nullable", "polars"])
def test_long_whole_numbers_keep_their_digits(kind):
    numbers = [LONG + 1, LONG + 2, LONG + 3, LONG + 4]
    column = {
        "list": lambda: np.asarray(numbers, object),
        "array": lambda: np.array(numbers),
        "pandas": lambda: pd.Series(numbers),
        "nullable": lambda: pd.Series([*numbers, None], dtype="Int64"),
        "polars": lambda: pl.Series([*numbers, None]),
    }[kind]()
    assert pair_labels.label_codes(column, len(column))[:4].tolist() == [0, 1, 2, 3]
    assert columns.items_of(column)[:4] == numbers
    assert columns.parse(column, "category")[0][:4].tolist() == [str(n) for n in numbers]


def test_labels_of_a_table_are_missing_where_those_of_an_array_are():
    y = ["oak", None, "", " ", "-1", -1, float("nan"), "elm"]
    assert pair_labels.label_codes(y, len(y)).tolist() == [1, -1, -1, -1, -1, -1, -1, 0]
    assert constraints.check_labels(y, len(y)).tolist() == [1, -1, -1, -1, -1, -1, -1, 0]
    assert pair_labels.label_codes(["-1.0", "2.0", 2], 3).tolist() == [-1, 0, 0]


def test_a_number_and_its_text_are_one_level():
    assert [columns.as_text(v) for v in (7, 7.0, "7", "7.0", " 7.00 ")] == ["7"] * 5
    assert [columns.as_text(v) for v in ("07.0", "1.05", "v1.0", "1.0.0")] == [
        "07.0", "1.05", "v1.0", "1.0.0",
    ]  # fmt: skip


def test_what_is_missing_among_texts_of_a_dict():
    names = TablePreparation().fit({"c": ["red", "blue", float("nan")] * 5}).get_feature_names_out()
    assert names.tolist() == ["c=blue", "c=red", "c is missing"]
    with pytest.raises(ValueError, match=r"a column must be a list of values, got shape \(\)"):
        TablePreparation().fit({"a": 1.0})


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["1", "2"])])
def test_polars_categories_are_categories(dtype):
    frame = pl.DataFrame({"c": pl.Series(["1", "2"] * 10, dtype=dtype)})
    assert TablePreparation().fit(frame).get_feature_names_out().tolist() == ["c=1", "c=2"]


def test_arrow_dates_with_gaps_are_dates():
    dates = pd.Series(pd.to_datetime(["2020-01-01", "2020-02-01", "2020-03-01", None] * 5)).dt.date
    frame = pd.DataFrame({"d": dates.astype("date32[day][pyarrow]")})
    assert TablePreparation().fit(frame).get_feature_names_out().tolist() == ["d", "d is missing"]


def test_matches_of_the_rows_of_fit_in_another_table(learned):
    metric, frame, _ = learned
    found = metric.match(B=frame[:20], threshold=0.5)
    assert set(np.asarray(found["b"])) <= set(metric.ids_[:20])
    assert set(np.asarray(found["a"])) <= set(metric.ids_)


def test_questions_and_doubts_come_with_ids(learned):
    metric, *_ = learned
    asked = metric.suggest_pairs(6, random_state=3)
    plain = metric.metric_.suggest_pairs(6, random_state=3)
    assert asked.tolist() == metric.ids_[plain].tolist()
    doubted = metric.suspect_pairs(4)
    plain = metric.metric_.suspect_pairs(4)
    assert doubted["a"].tolist() == metric.ids_[plain.pairs[:, 0]].tolist()
    assert doubted["answer"].tolist() == [
        "same" if s == 1 else "different" for s in plain.pair_labels
    ]
    assert (np.diff(doubted["suspicion"]) <= 0).all()


def test_a_table_learns_with_an_alpha_for_pairs():
    assert TableMetric()._new_metric().alpha == table_metric.ALPHA
    (alpha,) = [option for option in cli.fit.fit.params if option.name == "alpha"]
    assert alpha.default == table_metric.ALPHA


@pytest.mark.parametrize("more", [3, 0])
def test_rows_that_came_by_the_back_door_have_no_ids(more, tmp_path):
    """Rows added to `metric_` itself: an error, not a file that does not load, nor wrong ids."""
    frame, group = shop()
    metric = TableMetric(HierarchyForest(5, random_state=0), id="sku", cv=0).fit(frame, group)
    metric.save(tmp_path / "m.mf")
    good = (tmp_path / "m.mf").read_bytes()
    if not more:
        metric.metric_.remove([0, 1, 2])
    inner = metric.metric_
    rows = metric.preparation_.transform(frame.iloc[:3])
    inner.add(pd.DataFrame(rows, columns=inner.feature_names_in_))
    for use in (
        lambda: metric.save(tmp_path / "m.mf"),
        lambda: metric.kneighbors(frame.iloc[:2], 2),
        lambda: metric.radius_neighbors(None, 0.1),
        lambda: metric.match(threshold=0.2),
    ):
        with pytest.raises(ValueError, match=rf"120 ids for {120 + more} rows.*Fit again"):
            use()
    assert (tmp_path / "m.mf").read_bytes() == good
