"""One tree from Python: what growing calls is compiled or loaded first, then the tree is grown.

`parts` lists the large functions that growing is made of, those that call nothing of the list first,
each with examples of what it is called with and of what it returns: of these types it is compiled, and
under their names its callers find it. Since its callers need nothing else, the order in which they are
compiled is free, and two processes compile in half the time. So where much is missing on disk, a helper
goes through the list from its end while this process goes from its beginning; what the one has
finished, the other loads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from . import convex, dense, grow, mrmmc, ranking, ssmmc
from .compiled import collector_resting, name_address
from .convex import Groups, Rows
from .forest import Forest, gap_dtype, read_only_view, with_heights
from .grow import Settings, grow_nodes
from .parallel import interruptible

HELPER = "from metricforest.core import tree; tree.help_compile(tree.Growing({}, {}))"


class Growing(NamedTuple):
    """What the compiled form of growing depends on."""

    gap_bytes: int
    subgradient: bool


class Part(NamedTuple):
    """A large function with argument types and the type of its answer."""

    function: Any
    taken: tuple
    returned: Any


@cache
def parts(how: Growing) -> list[Part]:
    ints, singles, doubles = np.empty(1, np.int32), np.empty(1, np.float32), np.empty(1)
    features, kind, state = np.empty(1, np.int64), np.empty(1, np.int8), np.empty(1, np.uint64)
    table = np.empty((1, 3), np.int32)  # members of constraints
    matrix, system = np.empty((1, 16), np.float32), np.empty((1, 16))
    single = np.float32(0.0)
    rows, groups = Rows(1, matrix), Groups(1, ints, ints, singles, singles, singles, singles)
    X, pairs = read_only_view(matrix), (table, kind)
    settings = Settings(1, 1, 0.0, 0.0, 0.0, 0.0, 1, 1, 1)
    reference = True if how.subgradient else None
    gaps, side = np.empty(1, f"u{how.gap_bytes}"), np.empty(1, bool)
    found: list[tuple[Any, tuple, Any]] = [
        (dense.gram, (matrix, 1, 1, 0.0), system),
        (dense.solve_dense, (system, doubles), None),
        (ranking.kth_largest, (singles, 1), single),
        (ranking.argsort, (singles,), features),
        (convex.project_all, (rows, doubles, singles), None),
        (convex.gather_all, (rows, singles, 0.0, doubles, doubles), None),
        (convex.evaluate, (singles, groups, single, singles, ints), (0.0, 0.0, 0.0)),
        (convex.curved_rows, (rows, singles, groups, single, ints, singles, matrix), 1),
        (convex.newton_direction, (matrix, 1, 0.0, doubles, doubles), 0.0),
        (
            convex.minimise,
            (rows, groups, 0.0, 0.0, 0.0, 0.0, 1, doubles, singles),
            (0.0, single, 1, 0.0, True),
        ),
        (mrmmc.principal_axis, (rows, 1, doubles), None),
        (mrmmc.otsu_threshold, (singles, 1), 0.0),
        (mrmmc.assign, (singles, 1, singles, groups), 1),
        (mrmmc.solve_mrmmc, (rows, 1, 1, doubles), (0.0, 1, 1, 0.0, True)),
        (ssmmc.make_groups, (*pairs, 1, 0.0), groups),
        (ssmmc.configure, (singles, *pairs, 0.0, groups, matrix, singles), 1),
        (ssmmc.start_direction, (rows, *pairs, 1, doubles), True),
        (ssmmc.best_threshold, (singles, *pairs, 1), 0.0),
        (ssmmc.thin_out, (rows, *pairs), (rows, *pairs)),
        (ssmmc.subgradient_descent, (rows, groups, 0.0, 0.0, 0.0, 1, doubles, singles), (0.0, 1, True)),
        (
            ssmmc.solve_ssmmc,
            (rows, *pairs, 0.0, 0.0, 0.0, reference, 0.0, 1, 1, groups, doubles, doubles),
            (1, 1, 0.0, True),
        ),
        (grow.draw_features, (X, ints, features, 1, state), features),
        (grow.take_rows, (X, ints, features), (rows, doubles)),
        (grow.labelled_plane, (rows, *pairs, 0.0, state, settings, reference, doubles, doubles), True),
        (
            grow.split_node,
            (X, ints, features, *pairs, state, settings, reference, gaps, singles, side, doubles),
            1,
        ),
    ]  # fmt: skip
    return [
        Part(function, tuple(map(typeof, arguments)), typeof(answer))
        for function, arguments, answer in found
        if how.subgradient or function is not ssmmc.subgradient_descent
    ]


def whole(how: Growing) -> tuple:
    """Argument types of `grow_nodes`, which calls the parts."""
    X, members, kind = (
        read_only_view(np.empty((1,) * n, dtype))
        for n, dtype in ((2, np.float32), (2, np.int32), (1, np.int8))
    )
    settings = Settings(1, 1, 0.0, 0.0, 0.0, 0.0, 1, 1, 1)
    subgradient = True if how.subgradient else None
    arguments = (
        X,
        members,
        kind,
        np.uint64(0),
        settings,
        subgradient,
        np.empty(0, f"u{how.gap_bytes}"),
    )
    return tuple(map(typeof, arguments))


# --------------------------------------------------------------------------------------- compiling

prepared: set[Growing] = set()
lock = Lock()


def prepare(how: Growing) -> None:
    """Compile all parts, or load them, the first time in a process."""
    if how in prepared or not hasattr(
        grow.split_node, "load"
    ):  # plain Python where compiling is off
        return
    with lock, collector_resting():
        if how in prepared:
            return
        for function, taken, returned in parts(how):
            function.returned[taken] = returned
        first, *others = parts(how)
        first.function.load(first.taken)
        with helped(how) if first.function.kept.stats.cache_misses else nullcontext():
            for function, taken, _ in others:
                function.load(taken)
            grow_nodes.compile(whole(how))
        prepared.add(how)


@contextmanager
def helped(how: Growing) -> Iterator[None]:
    """A second process compiles too, where there is a core for it."""
    helper = None
    if n_cores() > 1 and Path(sys.executable or "").stem.startswith("python"):
        folder = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
        quiet = subprocess.DEVNULL
        with suppress(OSError):
            helper = subprocess.Popen(
                [sys.executable, "-P", "-c", HELPER.format(*how)],
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                env={**os.environ, "PYTHONPATH": paths},
            )
    try:
        yield
    finally:
        if helper is not None:
            helper.kill()
            helper.wait()


def n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def help_compile(how: Growing) -> None:
    """The helper: compile from the end of the list, to leave it on disk. Nothing is ever called here."""
    for function, taken, returned in parts(how):
        function.returned[taken] = returned
        name_address(function.symbol(taken), 1)
    with collector_resting():
        grow_nodes.compile(whole(how))
        for function, taken, _ in reversed(parts(how)):
            function.kept.compile(taken)


# ----------------------------------------------------------------------------------------- growing


@interruptible
def grow_tree(X, members, kind, seed, settings, subgradient=None) -> tuple[Forest, np.ndarray]:
    """Grow one tree: (a forest of it alone, statistics)."""
    like = np.empty(0, gap_dtype(X.shape[1], settings.d_k))
    X, members, kind = map(read_only_view, (X, members, kind))
    prepare(Growing(like.itemsize, subgradient is not None))
    links, gaps, weights, order, stats = grow_nodes(
        X, members, kind, np.uint64(seed), settings, subgradient, like
    )
    gaps, weights = gaps.copy(), weights.copy()  # let go of the room for more splits
    columns = links.T.copy()
    left, right, parent, start, stop, split = columns
    root = np.array([0, len(links)], np.int32)
    forest = Forest(root, left, right, parent, start, stop, split, gaps, weights, order[np.newaxis])
    return with_heights(forest), stats
