"""Warnings point at the caller's line, from wherever in the library they come."""

import warnings

import numpy as np
import pytest

from metricforest import HierarchyForest, MetricKNeighborsClassifier
from metricforest.rivals import DCA, LMNN

X = np.random.default_rng(0).normal(size=(20, 3))
BOTH_WAYS = {"pairs": [[0, 1], [0, 1], [2, 3]], "pair_labels": [1, -1, -1]}


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: HierarchyForest(2).fit(X, **BOTH_WAYS), "labelled both must-link and cannot-link"),
        (lambda: DCA().fit(X, **BOTH_WAYS), "labelled both must-link and cannot-link"),
        (lambda: LMNN(max_iter=1).fit(X, np.arange(20) % 2), "has not converged in 1 steps"),
        (
            lambda: MetricKNeighborsClassifier(LMNN(max_iter=1)).fit(X, np.arange(20) % 2),
            "has not converged in 1 steps",
        ),
        (lambda: HierarchyForest(2).fit(X, np.where(X[:, 0] > 0, 1, -1)), "-1"),
    ],
)
def test_a_warning_names_the_line_of_the_caller(fit, message):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    found = [w for w in caught if message in str(w.message)]
    assert found
    assert all(w.filename == __file__ for w in found)
