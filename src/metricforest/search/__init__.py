"""Neighbours inside the metric: the index, searched by many threads, its searches, and sparse vectors.

These names are the door: the rest of the library uses no others.
"""

from .embedding import sparse_vectors
from .index import (
    Index,
    add_points,
    build_index,
    index_arrays,
    index_from_arrays,
    index_over,
    live_ids,
    refresh_index,
    remove_points,
    slots_of,
)
from .neighbors import nearest, queries_of, within
from .shared import SharedIndex, check_ids, row_of

__all__ = [
    "Index",
    "SharedIndex",
    "add_points",
    "build_index",
    "check_ids",
    "index_arrays",
    "index_from_arrays",
    "index_over",
    "live_ids",
    "nearest",
    "queries_of",
    "refresh_index",
    "remove_points",
    "row_of",
    "slots_of",
    "sparse_vectors",
    "within",
]
