"""The index in a file: what it takes to load, whatever the trees look like."""

import tracemalloc

import numpy as np
import pytest

import metricforest
from metricforest import HierarchyForest
from metricforest.core.forest import LEAF, Forest, check_forest, with_heights
from metricforest.search.index import build_index
from metricforest.search.shared import SharedIndex

N, M_NEW = 4_000, 20_000


def chain(rows: np.ndarray) -> Forest:
    """One tree over rows of one ascending feature, each split of which separates the first point."""
    n = len(rows)
    left, right, parent, start, stop, split = (np.full(2 * n - 1, LEAF, np.int32) for _ in range(6))
    inner = 2 * np.arange(n - 1)
    left[inner], right[inner], split[inner] = inner + 1, inner + 2, np.arange(n - 1)
    parent[inner + 1] = parent[inner + 2] = inner
    start[::2], stop[::2] = np.arange(n), n
    start[1::2], stop[1::2] = np.arange(n - 1), np.arange(1, n)
    between = (rows[1:, 0].astype(float) + rows[:-1, 0]) / 2
    forest = Forest(
        root=np.array([0, 2 * n - 1], np.int32),
        left=left,
        right=right,
        parent=parent,
        start=start,
        stop=stop,
        split=split,
        gaps=np.zeros((n - 1, 1), np.uint8),
        weights=np.column_stack([np.ones(n - 1), -between]).astype(np.float32),
        order=np.arange(n, dtype=np.int32)[None],
    )
    return with_heights(forest)


@pytest.fixture(scope="module")
def deep():
    """(metric whose one tree is a chain, values that were added and not merged)."""
    metric = HierarchyForest(1, random_state=0).fit(np.arange(N, dtype=float)[:, None])
    rows = metric._prepare(np.arange(N, dtype=float)[:, None])
    metric.forest_ = chain(rows)
    check_forest(metric.forest_, 1)
    X = np.random.default_rng(0).uniform(0, N, (M_NEW, 1))
    index = build_index(metric.forest_, rows, 0.5)._replace(
        new_ids=np.arange(N, N + M_NEW),
        new_rows=metric._prepare(X),
        next_id=np.array([N + M_NEW]),
        n_changes=np.array([M_NEW]),
    )
    metric._searched = SharedIndex(metric.forest_, rows, index)
    return metric, X


def test_loading_takes_twice_the_file_whatever_the_shape_of_the_trees(deep, tmp_path):
    metric, X = deep
    path = tmp_path / "chain.mf"
    metric.save(path)
    metricforest.load(path)  # what is imported and compiled once does not count
    tracemalloc.start()
    try:
        again = metricforest.load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * path.stat().st_size + (64 << 20)
    Q = np.array([[3.2], [N / 2]])
    distance, ids = again.kneighbors(Q, 4, n_candidates=None)
    known = np.concatenate([np.arange(N, dtype=float)[:, None], X])
    D = again.pairwise_distances(Q, known)
    expected = np.array([np.lexsort((np.arange(len(known)), row))[:4] for row in D])
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(distance, np.take_along_axis(D, expected, axis=1))
