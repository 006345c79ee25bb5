"""scikit-learn trees as arrays: what comes back predicts the same, and bad arrays are refused."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from metricforest.storage import sklearn_trees
from metricforest.storage.sklearn_trees import LEAF, NODE_DTYPE, pack, unpack

FORESTS = [
    RandomForestClassifier(4, random_state=0),
    RandomForestClassifier(4, max_leaf_nodes=5, random_state=0),
    ExtraTreesClassifier(4, random_state=0),
    RandomForestRegressor(4, random_state=0),
    ExtraTreesRegressor(4, max_depth=3, random_state=0),
]
TREES = [
    DecisionTreeClassifier(random_state=0),
    DecisionTreeRegressor(max_depth=3),
    DecisionTreeRegressor(ccp_alpha=0.05),
    ExtraTreeClassifier(random_state=0),
    ExtraTreeRegressor(max_leaf_nodes=6, random_state=0),
]


def data(outputs, words):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, :outputs] > 0).astype(int) + (X[:, 1:2] > 0.5)
    y = y[:, 0] if outputs == 1 else y
    return X, (y.astype(str) if words else y), rng.normal(size=(50, 3))


def assert_predict_the_same(a, b, Q):
    np.testing.assert_array_equal(a.predict(Q), b.predict(Q))
    np.testing.assert_array_equal(a.apply(Q), b.apply(Q))
    np.testing.assert_array_equal(a.feature_importances_, b.feature_importances_)
    if hasattr(a, "tree_"):
        np.testing.assert_array_equal(a.decision_path(Q).indices, b.decision_path(Q).indices)
    if hasattr(a, "predict_proba"):
        np.testing.assert_array_equal(a.predict_proba(Q), b.predict_proba(Q))
        np.testing.assert_array_equal(a.classes_, b.classes_)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("like", FORESTS, ids=lambda e: type(e).__name__)
def test_a_forest_comes_back(like, outputs):
    X, y, Q = data(outputs, words=hasattr(like, "predict_proba") and outputs == 1)
    fitted = clone(like).fit(X, y)
    again = unpack(pack(fitted), like)
    assert not hasattr(like, "estimators_")
    assert_predict_the_same(again, fitted, Q)
    assert_predict_the_same(again.estimators_[2], fitted.estimators_[2], Q)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("like", TREES, ids=lambda e: type(e).__name__)
def test_trees_come_back(like, outputs):
    X, y, Q = data(outputs, words=False)
    fitted = [clone(like).fit(X, y), clone(like).fit(X[::-1] ** 3, y[::-1])]
    again = unpack(pack(fitted), like)
    assert len(again) == 2
    for mine, theirs in zip(again, fitted, strict=True):
        assert_predict_the_same(mine, theirs, Q)
        assert mine.tree_.max_depth == theirs.tree_.max_depth
        assert mine.get_depth() == theirs.get_depth()


def test_a_single_leaf_comes_back():
    fitted = DecisionTreeRegressor().fit([[0.0], [1.0]], [2.0, 2.0])
    (again,) = unpack(pack([fitted]), DecisionTreeRegressor())
    assert again.predict([[5.0]]) == [2.0]


@pytest.fixture(scope="module")
def packed():
    X, y, _ = data(1, words=False)
    return pack(RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y))


def put(array, at, value):
    array = array.copy()
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("left", lambda a: put(a, 0, 0), "node 0 are off"),
        ("left", lambda a: put(a, 0, 2**31 - 1), "node 0 are off"),
        ("left", lambda a: put(a, 0, -2), "node 0 are off"),
        ("left", lambda a: put(a, 0, LEAF), "node 0 are off"),
        ("right", lambda a: put(a, 0, 1), "node 0 are off"),
        ("right", lambda a: put(a, 0, 2), "node . are off"),
        ("left", lambda a: a.astype(np.int64), "left is not"),
        ("left", lambda a: a[:-1], r"right is not \[\d+\]"),
        ("feature", lambda a: put(a, 0, 3), "node 0 are off"),
        ("feature", lambda a: put(a, 0, -1), "node 0 are off"),
        ("threshold", lambda a: put(a, 0, np.nan), "a threshold is NaN"),
        ("impurity", lambda a: put(a, 0, np.inf), "impurity holds NaN or infinity"),
        ("value", lambda a: put(a, 0, np.nan), "value holds NaN or infinity"),
        ("value", lambda a: a[:, :, :2], "classes do not fit value"),
        ("value", lambda a: a[:, :0], "value is not"),
        ("value", lambda a: a[0], "value is not"),
        ("root", lambda a: put(a, 1, 0), "root is off"),
        ("root", lambda a: a[:1], "there is no tree"),
        ("root", lambda a: a + 1, "root is off"),
        ("classes", lambda a: (), "classes do not fit value"),
        ("classes", lambda a: (a[0][:2],), "classes do not fit value"),
        ("classes", lambda a: None, "a regression has classes"),
        ("n_features", lambda a: 0, "0 features"),
        ("n_features", lambda a: "3", "'3' features"),
    ],
)
def test_bad_arrays_are_refused(packed, name, change, match):
    wrong = packed._replace(**{name: change(getattr(packed, name))})
    with pytest.raises(ValueError, match=match):
        unpack(wrong, RandomForestClassifier())


def test_trees_of_another_kind_are_refused(packed):
    with pytest.raises(ValueError, match="not trees of a RandomForestRegressor"):
        unpack(packed, RandomForestRegressor())


def test_nodes_that_scikit_learn_may_grow_are_not_lost_in_silence(packed, monkeypatch):
    more = np.dtype([*((name, NODE_DTYPE[name]) for name in NODE_DTYPE.names), ("colour", "u1")])
    monkeypatch.setattr(sklearn_trees, "NODE_DTYPE", more)
    with pytest.raises(TypeError, match=r"nodes also have \['colour'\]"):
        pack([DecisionTreeRegressor().fit([[0.0], [1.0]], [0.0, 1.0])])
