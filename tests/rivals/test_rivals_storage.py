"""Every metric of the library survives its file."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import metricforest
from metricforest import rivals

SMALL = {
    "BoostedTreesDistance": {"n_estimators": 9, "n_constraints": 300},
    "GBLMNN": {"n_estimators": 20},
    "RandomForestDistance": {"n_estimators": 9, "n_constraints": 300},
}
CASES = [(name, SMALL.get(name, {})) for name in rivals.__all__]
CASES.append(("RandomForestDistance", {**SMALL["RandomForestDistance"], "trees": "extra-trees"}))


@pytest.mark.parametrize(("name", "params"), CASES)
@pytest.mark.parametrize("mmap", [False, True])
def test_a_saved_metric_measures_and_finds_the_same(name, params, mmap, tmp_path):
    X, y = load_iris(return_X_y=True)
    metric = getattr(rivals, name)(**params)
    if "random_state" in metric.get_params():
        metric.set_params(random_state=0)
    metric.fit(X, y)
    metric.calibrate_threshold([[0, 1], [0, 60], [70, 71], [1, 140]], [1, -1, 1, -1])
    metric.save(tmp_path / "metric.mf")
    again = metricforest.load(tmp_path / "metric.mf", mmap=mmap)
    assert type(again) is type(metric)
    assert again.get_params() == metric.get_params()
    np.testing.assert_array_equal(
        again.pairwise_distances(X[::9]), metric.pairwise_distances(X[::9])
    )
    for got, want in zip(again.kneighbors(X[:5]), metric.kneighbors(X[:5]), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(
        again.predict_pairs(X[:9], X[60:69]), metric.predict_pairs(X[:9], X[60:69])
    )
