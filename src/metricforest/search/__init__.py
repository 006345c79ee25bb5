"""Neighbours inside the metric: the index, searched by many threads, its searches, and sparse vectors.

The rest of the library imports from here alone.
"""

from .certainties import refresh_index
from .changes import add_points, index_over, merge_points, remove_points
from .embedding import sparse_vectors
from .index import Index, build_index, live_ids, slots_of
from .neighbors import nearest, within
from .paths import Queries, queries_of
from .proposer import SharedProposer, placed, propose
from .shared import SharedIndex, check_ids, row_of
from .stored import index_arrays, index_from_arrays
from .vectors import Projection

__all__ = [
    "Index",
    "Projection",
    "Queries",
    "SharedIndex",
    "SharedProposer",
    "add_points",
    "build_index",
    "check_ids",
    "index_arrays",
    "index_from_arrays",
    "index_over",
    "live_ids",
    "merge_points",
    "nearest",
    "placed",
    "propose",
    "queries_of",
    "refresh_index",
    "remove_points",
    "row_of",
    "slots_of",
    "sparse_vectors",
    "within",
]
