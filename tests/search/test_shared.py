"""One index for many threads: nothing a reader does undoes what a writer did."""

import importlib.util
import pickle
import threading
from copy import copy, deepcopy
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import metricforest
from metricforest import HierarchyForest
from metricforest.forest_search import prepared
from metricforest.search.index import MAX_ID
from metricforest.search.shared import check_ids

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def forest(n=60, **params):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return HierarchyForest(5, random_state=0, **params).fit(X), X


def test_eight_threads_at_once():
    spec = importlib.util.spec_from_file_location("threads", BENCHMARKS / "threads.py")
    stress = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stress)
    count = stress.run(2.0)
    assert all(count[what] for what in ("add", "remove", "exact", "approximate", "radius", "save"))


def test_a_slow_reader_does_not_undo_an_addition():
    """A search takes the index, rows are added, the search makes certainties for what it took."""
    metric, X = forest()
    taken = metric._index()
    ids = metric.add(X[:2])
    searched = prepared(metric, taken, None, np.inf, False)
    assert searched.n_live == 60  # it answers for what it took
    assert metric.ids_[-2:].tolist() == ids.tolist() == [60, 61]
    assert metric.add(X[:1]).tolist() == [62]


def test_additions_beside_the_first_search_of_a_loaded_index(tmp_path):
    metric, X = forest(4_000)
    metric.kneighbors(None, 2)
    metric.save(tmp_path / "m.mf")
    given = []
    for _ in range(8):
        again = metricforest.load(tmp_path / "m.mf")
        again.set_params(alpha=0.7)  # certainties are made anew, which takes a while
        reader = threading.Thread(target=again.kneighbors, args=(None, 2))
        reader.start()
        given = [again.add(X[i : i + 1])[0] for i in range(20)]
        reader.join()
        assert again.ids_[4_000:].tolist() == given == list(range(4_000, 4_020))


def test_a_reader_does_not_wait_for_certainties():
    metric, X = forest()
    want = metric.kneighbors(X, 3)
    fresh = pickle.loads(pickle.dumps(metric)).set_params(alpha=2.0)
    want = clone(fresh).fit(X).kneighbors(X, 3)
    with fresh._searched._lock:  # as if somebody were adding a million rows
        got = fresh.kneighbors(X, 3)
        assert fresh._index().alpha[0] == 4.0  # and nothing was written
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_one_index_is_made():
    metric, _ = forest(2_000)
    found, start = [], threading.Barrier(6)

    def ask():
        start.wait()
        found.append(metric._index())

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(index) for index in found}) == 1


@pytest.mark.parametrize(
    "duplicate",
    [copy, deepcopy, lambda m: pickle.loads(pickle.dumps(m))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("searched", [False, True])
def test_a_copy_has_an_index_of_its_own(duplicate, searched):
    metric, X = forest()
    if searched:
        metric.add(X[:1])
    again = duplicate(metric)
    assert again.ids_.tolist() == metric.ids_.tolist()
    ids = again.add(X[:3])
    assert set(ids) & set(metric.ids_) == set()
    metric.remove([0])
    assert 0 in again.ids_


def test_searches_do_not_change_the_metric_they_are_asked_of():
    metric, X = forest()
    before = dict(vars(metric))
    metric.kneighbors(X, 3)
    metric.kneighbors(None, 3, n_candidates=None)
    metric.radius_neighbors(X, 0.3)
    metric.kneighbors_graph(X, 3)
    metric.explain_pair(0, 1)
    assert vars(metric) == before


def test_joblib_takes_a_metric_and_its_methods():
    metric, X = forest()
    assert joblib.hash(metric) == joblib.hash(metric)
    found = joblib.Parallel(n_jobs=2, prefer="threads")(
        joblib.delayed(metric.kneighbors)(X[i : i + 10], 3) for i in range(0, 60, 10)
    )
    np.testing.assert_array_equal(
        np.concatenate([ids for _, ids in found]), metric.kneighbors(X, 3)[1]
    )


def test_ids_end_somewhere(tmp_path):
    metric, X = forest()
    metric.add(X[:1], ids=[MAX_ID])
    for _ in range(2):
        with pytest.raises(ValueError, match=f"no ids left: the next would be {MAX_ID + 1}"):
            metric.add(X[:1])
        assert metric.add(X[:1], ids=[77]).tolist() == [77]
        metric.save(tmp_path / "m.mf")
        metric = metricforest.load(tmp_path / "m.mf")
        metric.remove([77])


@pytest.mark.parametrize(
    ("ids", "error", "match"),
    [
        ([-1], ValueError, "ids must be at least 0, got -1"),
        ([MAX_ID + 1], ValueError, "ids must not exceed"),
        ([2**64 - 1], ValueError, "ids must not exceed"),
        ([3, 3], ValueError, "id 3 is given 2 times"),
        ([1.0], TypeError, "must be integers, got float64"),
        ([[1]], ValueError, "flat list"),
    ],
)
def test_ids_that_are_none(ids, error, match):
    with pytest.raises(error, match=match):
        check_ids(ids)


def test_ids_may_be_empty():
    assert check_ids([]).dtype == np.int64


@pytest.mark.parametrize("id_", [60, -1, 2**62, 2**70, -(2**70)])
@pytest.mark.parametrize("added", [False, True])
def test_a_row_that_is_not_there(id_, added):
    metric, X = forest()
    if added:
        metric.add(X[:1], ids=[99])
        assert metric.explain_pair(99, 0).distance == 0.0
    with pytest.raises(ValueError, match=r"is not an id of the 6. rows that are searched"):
        metric.explain_pair(id_, 0)
