"""Names that were changed: the old ones still work, and say what the new ones are."""

import numpy as np
import pytest

from metricforest import HierarchyForest, TableMetric, demo


def test_labelled_pairs_of_the_demonstration():
    y = np.arange(40) % 3
    with pytest.warns(FutureWarning, match="judged_pairs is now called labelled_pairs"):
        old = demo.judged_pairs
    for found, wanted in zip(old(y, 12, seed=0), demo.labelled_pairs(y, 12, seed=0), strict=True):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(AttributeError, match="no attribute 'judged'"):
        _ = demo.judged


def test_trees_that_separate_two_rows():
    X = np.arange(12.0)[:, None]
    why = HierarchyForest(4, min_node_size=2, random_state=0).fit(X).explain_pair(0, 11)
    with pytest.warns(FutureWarning, match="n_parting is now called n_separating"):
        assert why.n_parting == why.n_separating == 4
    assert why.to_dict()["n_parting"] == why.to_dict()["n_separating"] == 4


def test_labelled_pairs_of_a_table():
    table = {"id": [1, 2, 3, 4], "x": [0.0, 0.1, 5.0, 5.1]}
    metric = TableMetric(HierarchyForest(3, random_state=0), id="id", cv=0)
    metric.fit(table, pairs=[[1, 2, "same"], [1, 3, "different"]])
    with pytest.warns(
        FutureWarning, match="judgements_ of a TableMetric is now called labelled_pairs_"
    ):
        assert metric.judgements_ is metric.labelled_pairs_
    assert metric.labelled_pairs_.labels.tolist() == [1, -1]
