"""Growing a forest and measuring in it: compiled kernels and the functions that call them.

The rest of the library imports from here alone.
"""

from .compiled import kernel
from .descent import descend, leaves_of, next_node, project, sigmoid
from .distance import PAIRS_PER_TASK, distance_at, pair_distance, pairwise_distance, separating_node
from .forest import (
    LEAF,
    Forest,
    check_forest,
    join_forests,
    read_only,
    read_only_view,
    sizes,
    widened,
    with_heights,
)
from .grow import STATISTICS, Settings
from .parallel import aside, in_parallel, interruptible, is_interrupt, row_ranges
from .ssmmc import CANNOT, MUST, TRIPLET
from .tree import grow_tree

__all__ = [
    "CANNOT",
    "LEAF",
    "MUST",
    "PAIRS_PER_TASK",
    "STATISTICS",
    "TRIPLET",
    "Forest",
    "Settings",
    "aside",
    "check_forest",
    "descend",
    "distance_at",
    "grow_tree",
    "in_parallel",
    "interruptible",
    "is_interrupt",
    "join_forests",
    "kernel",
    "leaves_of",
    "next_node",
    "pair_distance",
    "pairwise_distance",
    "project",
    "read_only",
    "read_only_view",
    "row_ranges",
    "separating_node",
    "sigmoid",
    "sizes",
    "widened",
    "with_heights",
]
