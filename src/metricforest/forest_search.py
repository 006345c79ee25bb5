"""One search in a forest, from its parameters to distances and ids: what `kneighbors` and others call.

`metric` is the estimator: its forest, its seed, and what it has kept for searching.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import search
from .base import check_n_neighbors
from .transform import SearchBy, check_search

Found = tuple[np.ndarray, np.ndarray]  # distances and ids


def nearest(
    metric: Any,
    index: search.Index,
    queries: np.ndarray | None,
    k: int,
    how: SearchBy,
    hard: bool,
) -> Found:
    """The k nearest rows of the index to each prepared query."""
    k = check_n_neighbors(k, index.n_live, queries is None)
    check_search(how)
    n_candidates, by_vectors = metric._n_candidates(index, k, how)
    each = index.n_live
    if n_candidates is not None:
        per_query = 1 if by_vectors else metric.forest_.n_trees
        each = min(each, n_candidates * per_query)
    n_threads = metric._threads()
    index = prepared(metric, index, queries, each, hard, n_threads)
    asked = search.queries_of(metric.forest_, index, queries)
    propose = None
    if by_vectors and n_candidates is not None:
        propose = metric._propose(index, max(k, n_candidates))
    return search.nearest(
        metric.forest_,
        index,
        asked,
        k,
        n_candidates,
        bool(hard),
        metric._entropy,
        n_threads,
        propose,
    )


def within(metric: Any, queries: np.ndarray | None, radius: float, hard: bool) -> Found:
    """All rows no farther than the radius from each prepared query."""
    index = metric._index()
    n_threads = metric._threads()
    index = prepared(metric, index, queries, index.n_live, hard, n_threads)
    asked = search.queries_of(metric.forest_, index, queries)
    return search.within(metric.forest_, index, asked, radius, bool(hard), n_threads)


def prepared(
    metric: Any,
    index: search.Index,
    queries: np.ndarray | None,
    each: int,
    hard: bool,
    n_threads: int | None = None,
) -> search.Index:
    """The same rows, for a search that measures `each` of them for every query."""
    n_queries = index.n_live if queries is None else len(queries)
    n_measured = 0 if hard else each * n_queries
    n_threads = metric._threads() if n_threads is None else n_threads
    return metric._searched.prepared(
        index, float(metric.alpha), n_measured, bool(metric.keep_certainties), n_threads
    )
