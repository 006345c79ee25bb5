"""What every metric offers: searching, against sorting all distances; what it refuses and saves."""

from copy import deepcopy

import numpy as np
import pytest

from metricforest import HierarchyForest, load, rivals
from metricforest.base import Metric
from metricforest.supervision.constraints import Constraints


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).normal(size=(60, 4))
    return X, HierarchyForest(8, random_state=0).fit(X, (X[:, 0] > 0).astype(int))


def by_sorting(D, k):
    rows = np.arange(D.shape[1])
    order = np.array([np.lexsort((rows, row))[:k] for row in D])
    return np.take_along_axis(D, order, axis=1), order


@pytest.mark.parametrize("block", [1, 61, 1 << 20])
def test_search_by_measuring_everything_is_sorting(fitted, monkeypatch, block):
    X, hf = fitted
    monkeypatch.setattr("metricforest.base.BLOCK", block)
    Q = np.random.default_rng(1).normal(size=(7, 4))
    D = hf.pairwise_distances(Q, X)
    for got, want in zip(Metric._nearest(hf, hf._prepare(Q), 9), by_sorting(D, 9), strict=True):
        np.testing.assert_array_equal(got, want)
    distance, index = Metric._within(hf, hf._prepare(Q), 0.3)
    for i in range(7):
        near = np.flatnonzero(D[i] <= 0.3)
        np.testing.assert_array_equal(index[i], near[np.lexsort((near, D[i, near]))])
        np.testing.assert_array_equal(distance[i], D[i, index[i]])


def test_search_among_the_rows_of_fit_leaves_each_out(fitted):
    X, hf = fitted
    D = hf.pairwise_distances(X)
    np.fill_diagonal(D, np.inf)
    for got, want in zip(Metric._nearest(hf, None, 59), by_sorting(D, 59), strict=True):
        np.testing.assert_array_equal(got, want)
    distance, index = Metric._within(hf, None, 2.0)
    assert all(sorted([*rows, i]) == list(range(60)) for i, rows in enumerate(index))
    assert all((np.diff(d) >= 0).all() for d in distance)


# ------------------------------------------------------------- parameters that are set after `fit`

BROKEN = [
    ("alpha", float("nan")),
    ("alpha", -1.0),
    ("alpha", "0.5"),
    ("n_jobs", 0),
    ("n_jobs", 1.5),
    ("n_estimators", 0),
    ("max_features", 7.5),
    ("keep_certainties", "no"),
    ("solver", "magic"),
]
USES = {
    "kneighbors": lambda m, X: m.kneighbors(X[:4], 2),
    "kneighbors of the rows themselves": lambda m, X: m.kneighbors(None, 2),
    "radius_neighbors": lambda m, X: m.radius_neighbors(X[:4], 0.2),
    "kneighbors_graph": lambda m, X: m.kneighbors_graph(X[:4], 2),
    "pair_distance": lambda m, X: m.pair_distance(X[:4], X[4:8]),
    "pairwise_distances": lambda m, X: m.pairwise_distances(X[:4]),
    "get_metric": lambda m, X: m.get_metric(),
    "predict_pairs": lambda m, X: m.predict_pairs(X[:4], X[4:8]),
    "predict_pairs_proba": lambda m, X: m.predict_pairs_proba(X[:4], X[4:8]),
    "calibrate_threshold": lambda m, X: m.calibrate_threshold([[0, 1], [2, 3]], [1, -1]),
    "transform": lambda m, X: m.transform(X[:4]),
    "add": lambda m, X: m.add(X[:4]),
    "remove": lambda m, X: m.remove([0]),
    "explain_pair": lambda m, X: m.explain_pair(0, 1),
    "uncertainty": lambda m, X: m.uncertainty(X[:4], X[4:8]),
    "suspect_pairs": lambda m, X: m.suspect_pairs(),
    "suggest_pairs": lambda m, X: m.suggest_pairs(3),
    "feature_importances_": lambda m, X: m.feature_importances_,
    "save": lambda m, X: m.save("/nowhere/at/all.mf"),
}


@pytest.mark.parametrize("use", USES, ids=str)
@pytest.mark.parametrize(("name", "value"), BROKEN)
def test_a_parameter_broken_after_fit_is_refused_before_every_use(fitted, use, name, value):
    X, hf = fitted
    broken = deepcopy(hf).set_params(**{name: value})
    with pytest.raises((ValueError, TypeError), match=f"{name}.* must be"):
        USES[use](broken, X)


def test_a_function_of_two_rows_notices_it_too(fitted):
    X, hf = fitted
    metric = deepcopy(hf)
    measure = metric.get_metric()
    metric.set_params(alpha=float("nan"))
    with pytest.raises(ValueError, match="alpha must be in"):
        measure(X[0], X[1])


@pytest.mark.parametrize(
    ("metric", "name", "value"),
    [
        (rivals.Euclidean(), "standardize", "no"),
        (rivals.DCA(), "ridge", -1.0),
        (rivals.ITML(), "gamma", float("nan")),
        (rivals.LMNN(max_iter=5), "mu", 2.0),
        (rivals.GBLMNN(n_estimators=2), "learning_rate", 0.0),
        (rivals.BoostMetric(n_estimators=5), "loss", "huge"),
        (rivals.RandomForestDistance(3), "trees", "pine"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore:.*(converge|steps)")
def test_so_it_is_for_every_metric(fitted, metric, name, value, tmp_path):
    X, _ = fitted
    metric.fit(X, (X[:, 0] > 0).astype(int))
    metric.save(tmp_path / "m.mf")
    metric.set_params(**{name: value})
    with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
        metric.kneighbors(X[:3], 2)
    with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
        metric.pair_distance(X[:3], X[3:6])
    with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
        metric.save(tmp_path / "m.mf")
    load(tmp_path / "m.mf").kneighbors(X[:3], 2)


# ------------------------------------------------------------------------- what a file must not hold


def broken_state(hf):
    """(what is said, attributes that a metric could have by accident)"""
    d = hf.n_features_in_
    yield "n_jobs must be", {"n_jobs": 0}
    yield "alpha must be", {"alpha": -1}
    yield "n_estimators must be", {"n_estimators": 0}
    yield "max_features must be", {"max_features": 7.5}
    yield "scale_ holds a number that is not positive", {"scale_": np.zeros(d)}
    yield "mean_ holds NaN", {"mean_": np.full(d, np.nan)}
    yield "threshold_ is 0.3", {"threshold_": "0.3"}
    yield "calibration_ is 0.5", {"calibration_": 0.5}
    members, kind = hf.constraints_
    yield "constraints are", {"constraints_": Constraints(members[:-1], kind)}


def test_what_could_not_be_loaded_is_not_saved(fitted, tmp_path):
    path = tmp_path / "m.mf"
    fitted[1].save(path)
    good = path.read_bytes()
    for said, attributes in broken_state(fitted[1]):
        metric = deepcopy(fitted[1])
        vars(metric).update(attributes)
        with pytest.raises(ValueError, match=said):
            metric.save(path)
        assert path.read_bytes() == good
        assert [p.name for p in tmp_path.iterdir()] == ["m.mf"]


def test_saving_changes_nothing(fitted, tmp_path):
    X, hf = fitted
    metric = deepcopy(hf)
    metric.add(X[:2])
    metric.kneighbors(X, 3)
    before = dict(vars(metric))
    metric.save(tmp_path / "a.mf")
    metric.save(tmp_path / "b.mf")
    assert vars(metric) == before
    assert (tmp_path / "a.mf").read_bytes() == (tmp_path / "b.mf").read_bytes()
