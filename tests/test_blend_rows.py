"""Rows of a blend that come and go: as a whole or not at all, beside searches, never out of step."""

import pickle
import threading

import numpy as np
import pytest

import metricforest
from conftest import three_clusters
from metricforest import Blend, HierarchyForest, TableMetric
from metricforest import blend as module

X, _, PAIRS, LABELS = three_clusters(0, 60, 120)


@pytest.fixture
def blend(monkeypatch):
    monkeypatch.setattr(module, "EXACT", 10)  # members propose
    inside = (PAIRS < 50).all(axis=1)
    members = [HierarchyForest(4), HierarchyForest(4, max_features=None)]
    found = Blend(members, n_candidates=20, random_state=0)
    return found.fit(X[:50], pairs=PAIRS[inside], pair_labels=LABELS[inside])


def test_pairs_are_row_numbers_of_fit_whatever_was_removed(blend):
    inside = (PAIRS < 50).all(axis=1)
    want = blend.calibrate_threshold(PAIRS[inside], LABELS[inside]).threshold_
    blend.remove([0, 1, 2])
    assert blend.calibrate_threshold(PAIRS[inside], LABELS[inside]).threshold_ == want


def test_a_change_that_fails_changes_nothing(blend, monkeypatch):
    want = [member.kneighbors(X[:5], 3) for member in blend.members_]

    def interrupted(*arguments):
        raise KeyboardInterrupt

    for change in (lambda: blend.add(X[50:]), lambda: blend.remove([3, 7])):
        with monkeypatch.context() as patch:
            name = "add" if change() is not None else "remove"
            blend.remove(np.arange(50, 60)) if name == "add" else blend.add(X[[3, 7]], [3, 7])
            patch.setattr(blend.members_[1], name, interrupted, raising=False)
            with pytest.raises(KeyboardInterrupt):
                change()
        np.testing.assert_array_equal(blend.ids_, np.arange(50))
        for member, (far, ids) in zip(blend.members_, want, strict=True):
            np.testing.assert_array_equal(member.ids_, np.arange(50))
            np.testing.assert_array_equal(member.kneighbors(X[:5], 3)[0], far)
            assert ids.max() < 50


def test_an_id_is_never_beyond_what_an_index_holds(blend):
    blend.add(X[50:51], [2**62])
    with pytest.raises(ValueError, match="there are no ids left"):
        blend.add(X[51:52])
    np.testing.assert_array_equal(blend.ids_[-2:], [49, 2**62])


def test_a_member_that_was_changed_itself_is_noticed(blend, tmp_path):
    blend.members_[0].add(X[50:53])
    blend.members_[0].remove([0, 1, 2])  # as many as before, but others
    for ask in (
        lambda: blend.kneighbors(X[:3], 2),
        lambda: blend.add(X[:1]),
        lambda: blend.save(tmp_path / "m.mf"),
    ):
        with pytest.raises(ValueError, match="a member searches 50 rows other than the 50"):
            ask()
    assert not (tmp_path / "m.mf").exists()


def test_parameters_of_members_are_checked_before_every_use(blend, tmp_path):
    blend.members_[0].set_params(alpha=float("nan"))
    for ask in (
        lambda: blend.pair_distance(X, X),
        lambda: blend.kneighbors(X[:3], 2),
        lambda: blend.radius_neighbors(X[:3], 0.5),
        lambda: blend.add(X[50:]),
        lambda: blend.save(tmp_path / "m.mf"),
    ):
        with pytest.raises(ValueError, match="alpha must be in"):
            ask()


def test_a_metric_over_tables_is_no_member():
    with pytest.raises(TypeError, match="members must be metrics of this library over numbers"):
        Blend([TableMetric()]).fit(X, pairs=PAIRS, pair_labels=LABELS)


def test_a_table_notices_that_rows_of_its_blend_changed(blend):
    table = TableMetric(Blend([HierarchyForest(3)], random_state=0), cv=0)
    pairs = np.column_stack([PAIRS, LABELS])
    table.fit(X, pairs=pairs)
    table.metric_.remove([0])
    with pytest.warns(UserWarning, match="feature names"):
        table.metric_.add(X[:1])
    with pytest.raises(ValueError, match="rows were added to or removed from metric_ itself"):
        table.kneighbors(X[:1], 2)


@pytest.mark.parametrize("written", ["file", "pickle"])
def test_changed_rows_are_kept(blend, tmp_path, written):
    blend.add(X[50:])
    blend.remove([3, 55])
    blend.save(tmp_path / "m.mf")
    again = pickle.loads(pickle.dumps(blend)) if written == "pickle" else None
    again = again or metricforest.load(tmp_path / "m.mf")
    for one, other in zip(blend.kneighbors(X, 4), again.kneighbors(X, 4), strict=True):
        np.testing.assert_array_equal(one, other)
    again.remove([4])
    assert 4 in blend.ids_
    np.testing.assert_array_equal(again.add(X[:1]), [60])


def test_searches_beside_changes_see_one_state(blend):
    """Every answer is of rows that are there together; nothing is lost."""
    every = np.arange(50)
    errors, stop = [], threading.Event()

    def search():
        try:
            while not stop.is_set():
                far, ids = blend.kneighbors(X[:4], 3)
                pickle.loads(pickle.dumps(blend)).kneighbors(X[:2], 2)
                assert np.allclose(far, blend.pair_distance(
                    np.repeat(X[:4], 3, axis=0), X[ids.ravel() % 60]).reshape(far.shape))  # fmt: skip
                graph = blend.kneighbors_graph(n_neighbors=2)
                assert graph.shape[0] == graph.shape[1]
        except Exception as error:
            errors.append(repr(error))

    def change():
        try:
            for i in range(12):
                blend.remove(blend.add(X[50:], np.arange(50, 60) + 60 * (1 + i)))
        except Exception as error:
            errors.append(repr(error))

    searching = [threading.Thread(target=search) for _ in range(3)]
    changing = threading.Thread(target=change)
    for thread in (*searching, changing):
        thread.start()
    changing.join()
    stop.set()
    for thread in searching:
        thread.join()
    assert not errors
    np.testing.assert_array_equal(blend.ids_, every)
