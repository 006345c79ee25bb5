"""Text as a kind of column: what becomes of names, titles and remarks, odd ones too."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import metricforest
from metricforest import (
    HierarchyForest,
    MetricKNeighborsClassifier,
    MetricNeighborsTransformer,
    MetricSpectralClustering,
    PairModel,
    TableMetric,
    TablePreparation,
)
from metricforest.rivals import Euclidean
from metricforest.tables import texts
from metricforest.tables.cells import plain

WORDS = ["chair", "desk", "lamp", "sofa", "table", "shelf", "oak", "pine", "steel", "glass"]


def catalogue(n=60, seed=0):
    """Things that are described twice, a letter and the order of words apart; (frame, thing)."""
    rng = np.random.default_rng(seed)
    titles = [" ".join(rng.choice(WORDS, 3, replace=False)) + f" {i}{i}" for i in range(n)]
    again = [" ".join(title.split()[::-1]).replace("a", "á", 1) for title in titles]
    frame = pd.DataFrame({"sku": [f"s{i}" for i in range(2 * n)], "title": titles + again})
    frame["price"] = np.tile(rng.normal(size=n).round(2), 2)
    return frame, np.tile(np.arange(n), 2)


def labelled(thing, m=60, seed=1):
    rng = np.random.default_rng(seed)
    n = len(thing) // 2
    a = rng.permutation(n)[: m // 2]
    pairs = np.concatenate([np.column_stack([a, a + n]), np.column_stack([a, np.roll(a, 1) + n])])
    return pd.DataFrame({
        "l": [f"s{i}" for i in pairs[:, 0]],
        "r": [f"s{i}" for i in pairs[:, 1]],
        "answer": np.where(thing[pairs[:, 0]] == thing[pairs[:, 1]], "y", "n"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def learned():
    frame, thing = catalogue()
    forest = HierarchyForest(10, standardize=False)
    pair_model = PairModel(n_estimators=20)
    metric = TableMetric(forest, id="sku", random_state=0, cv=0, pair_model=pair_model)
    return metric.fit(frame, pairs=labelled(thing)), frame, thing


def test_weights_are_those_of_scikit_learn():
    frame, _ = catalogue()
    read = [plain(text) for text in frame["title"]]
    found = texts.learn_texts(frame["title"].tolist())
    counts = HashingVectorizer(
        analyzer="char_wb", ngram_range=texts.RUNS, n_features=texts.BUCKETS, norm=None,
        alternate_sign=False,
    ).transform(read)  # fmt: skip
    want = TfidfTransformer(sublinear_tf=True).fit(counts)
    got = texts.weighed(texts.counts(frame["title"].tolist()), found.weight)
    np.testing.assert_allclose(got.toarray(), want.transform(counts).toarray(), atol=1e-6)
    features = found.features(frame["title"].tolist())
    np.testing.assert_allclose(features.mean(axis=0), 0.0, atol=1e-5)
    assert features.var(axis=0).sum() == pytest.approx(texts.VARIANCE, rel=1e-4)


def test_rows_that_say_the_same_are_near():
    frame, thing = catalogue()
    rows = TablePreparation({"sku": "drop", "price": "drop"}).fit_transform(frame)
    _, nearest = Euclidean().fit(rows).kneighbors(None, 1)
    assert (thing[nearest[:, 0]] == thing).mean() > 0.9


def test_a_text_is_read_alike_later_and_from_a_file(tmp_path):
    frame, _ = catalogue()
    preparation = TablePreparation({"title": "text", "sku": "drop"}).fit(frame)
    names = preparation.get_feature_names_out().tolist()
    assert names[0] == "title: text 1"
    assert len([name for name in names if name.startswith("title")]) == texts.FEATURES
    alone = np.vstack([preparation.transform(frame[i : i + 1]) for i in range(9)])
    np.testing.assert_array_equal(alone, preparation.transform(frame)[:9])
    metric = TableMetric(Euclidean(), id="sku", cv=0).fit(frame, np.arange(120) % 2)
    metric.save(tmp_path / "m.mf")
    again = metricforest.load(tmp_path / "m.mf")
    np.testing.assert_array_equal(again.pairwise_distances(frame), metric.pairwise_distances(frame))


@pytest.mark.parametrize(
    "odd",
    [
        "",
        None,
        "   ",
        "x" * 1_000_000,
        "🪑🪑 🛋️",
        "كرسي خشبي كبير",
        "chair \ud800 broken",
        "Stuhl\x00\x07\n\tgrün",
        "\uff26\uff35\uff2c\uff2c\u3000width",
    ],
)
def test_odd_texts_are_read(odd):
    frame, _ = catalogue()
    frame["title"] = frame["title"].astype(object)
    frame.loc[3, "title"] = odd
    preparation = TablePreparation({"title": "text", "sku": "drop"}).fit(frame)
    rows = preparation.transform(frame)
    assert np.isfinite(rows).all()
    empty = odd is None or not odd.strip()
    assert ("title is missing" in preparation.get_feature_names_out()) == empty
    pairs = [[i, i + 60, 1] for i in range(10)] + [[i, i + 61, 0] for i in range(10)]
    model = PairModel(n_estimators=3, random_state=0).fit(frame, pairs=pairs)
    assert np.isfinite(model.probability([[3, 63], [63, 3]])).all()


def test_texts_that_say_nothing_are_refused():
    constant = {"a": ["one and the same"] * 30, "b": list(range(15)) * 2}
    dropped = TablePreparation({"a": "text"}).fit(constant).dropped_["a"]
    assert dropped.startswith("its texts do not differ: 'one and the same'")
    gone = {"a": [""] * 30, "b": list(range(15)) * 2}
    assert (
        TablePreparation({"a": "text"}).fit(gone).dropped_["a"] == "no value can be read as a text"
    )
    with pytest.raises(ValueError, match="no column of the table can be used"):
        TablePreparation({"a": "text"}).fit({"a": ["same"] * 30})


def test_maps_that_lie_are_refused():
    found = texts.state([texts.learn_texts(catalogue()[0]["title"].tolist())])
    assert texts.restored(found, 1)[0].k == texts.FEATURES
    for name, value in (
        ("text_features", np.array([99])),
        ("text_mean", np.zeros(3, np.float32)),
        ("text_directions", np.full_like(found["text_directions"], 1e9)),
        ("text_weight", found["text_weight"][:, :9]),
    ):
        with pytest.raises(ValueError, match="text_"):
            texts.restored({**found, name: value}, 1)


# ------------------------------------------------------------------- a distance and pairs in one


def test_a_table_metric_with_a_pair_model_matches_by_pairs(learned, tmp_path):
    metric, frame, _ = learned
    found = metric.match(keep="one-to-one")
    right = [
        int(a[1:]) % 60 == int(b[1:]) % 60 for a, b in zip(found["a"], found["b"], strict=True)
    ]
    assert np.mean(right) > 0.95
    assert sum(right) > 50
    metric.save(tmp_path / "m.mf")
    again = metricforest.load(tmp_path / "m.mf")
    for name, values in again.match(keep="one-to-one").items():
        np.testing.assert_array_equal(values, found[name])
    other = metric.match(frame[:60], frame[60:], keep="best")
    assert other["a"].is_unique
    asked = metric.questions(40, contents=True)
    assert {"title (left)", "title (right)", "price (left)"} <= set(asked)
    told = [int(a[1:]) % 60 == int(b[1:]) % 60 for a, b in zip(asked["a"], asked["b"], strict=True)]
    columns = {"a": asked["a"], "b": asked["b"], "answer": told}
    audit = metric.audit({**columns, "probability": asked["probability"]})
    low, high = audit.precision_interval
    every = metric.match()
    truth = np.mean([int(a[1:]) % 60 == int(b[1:]) % 60
                     for a, b in zip(every["a"], every["b"], strict=True)])  # fmt: skip
    assert low <= truth <= high
    with pytest.raises(ValueError, match="were asked of another model or other tables"):
        metric.audit({**columns, "probability": asked["probability"] / 2})
    with pytest.raises(ValueError, match=r"label what `questions` gives"):
        metric.match(precision=0.9)


def test_tables_of_numbers_are_matched_by_the_distance_and_pairs():
    """No word is in two rows: the distance finds the candidates."""
    rng = np.random.default_rng(0)
    thing = rng.normal(size=(80, 4))
    rows = np.vstack([thing, thing + 0.01 * rng.normal(size=(80, 4))])
    pairs = [[i, i + 80, 1] for i in range(20)] + [[i, i + 81, 0] for i in range(20)]
    alone = PairModel(n_estimators=20, random_state=0).fit(rows, pairs=pairs)
    metric = TableMetric(
        HierarchyForest(10, standardize=False), cv=0, random_state=0,
        pair_model=PairModel(n_estimators=20),
    ).fit(rows, pairs=np.array(pairs))  # fmt: skip
    found = metric.match(keep="one-to-one")
    right = (found["b"] - found["a"] == 80).sum()
    assert right > 60 > (alone.match()["b"] - alone.match()["a"] == 80).sum()


def test_pairs_are_ids_and_importances_are_columns(learned):
    metric, frame, _ = learned
    asked = metric.suggest_pairs(5)
    assert asked.shape == (5, 2)
    assert set(asked.ravel()) <= set(frame["sku"])
    importance = metric.feature_importances_
    assert importance.shape == (3,)
    assert importance[0] == 0.0
    assert importance.sum() == pytest.approx(metric.metric_.feature_importances_.sum())


def test_wrappers_take_frames(learned):
    metric, frame, thing = learned
    kind = np.array(["cheap", "dear"])[(frame["price"] > 0).astype(int)]
    small = TableMetric(HierarchyForest(10, standardize=False), id="sku", cv=0, random_state=0)
    classifier = MetricKNeighborsClassifier(small).fit(frame, kind)
    assert classifier.score(frame, kind) > 0.8
    assert classifier.feature_names_in_.tolist() == ["sku", "title", "price"]
    graph = MetricNeighborsTransformer(small, n_neighbors=2).fit_transform(frame, kind)
    assert graph.shape == (120, 120)
    pairs = labelled(thing)
    clusters = MetricSpectralClustering(60, small, random_state=0).fit(frame, pairs=pairs)
    a, b = (pairs[side].str[1:].astype(int).to_numpy() for side in ("l", "r"))
    same = (pairs["answer"] == "y").to_numpy()
    together = clusters.labels_[a] == clusters.labels_[b]
    assert len(clusters.broken_pairs_) == (together != same).sum() == 0
    frozen = MetricNeighborsTransformer(FrozenEstimator(metric), n_neighbors=3).fit(frame)
    assert frozen.transform(frame[:5]).shape == (5, 120)
    steps = make_pipeline(FunctionTransformer(lambda table: table.drop(columns="price")), small)
    steps.fit(frame, tablemetric__pairs=pairs)
    assert steps[-1].feature_names_in_.tolist() == ["sku", "title"]
