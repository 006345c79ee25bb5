"""Where growing a tree spends its time: by size of the node and by phase, one table per data set.

    python benchmarks/cost_model.py [segmentation digits usps cifar10] [--trees 20] [--paper]

The build is not the shipped one. Kernels call each other by named addresses (`core/tree.py`), so here
every name gets the address of a small kernel that reads the processor's clock, calls the real function, and
adds the time to a table; what the function calls in turn is taken off. Reading the clock adds a few per
cent, mostly to small nodes. A phase's time contains the allocations it makes. "Passes" are products with all
rows of a node and sums over all of them (`project_all`, `gather_all`), "MB" is what these read. The second
column is the share of all time, what follows the passes the share of each phase.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import time
import warnings

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from sklearn.exceptions import ConvergenceWarning

from bench import load
from metricforest import HierarchyForest
from metricforest.core import tree
from metricforest.core.compiled import FLAGS, Apart, name_address
from metricforest.core.forest import gap_dtype
from metricforest.forest_fit import n_split_features

SIZES = (16, 64, 256, 1024, 4096)  # upper ends of the classes of node sizes
PHASES = {
    "features, rows": ("draw_features", "take_rows"),
    "start": ("start_direction", "best_threshold", "thin_out", "argsort"),
    "configuration": ("make_groups", "configure", "assign", "kth_largest"),
    "passes": ("project_all", "gather_all"),
    "evaluate": ("evaluate",),
    "Newton system": ("curved_rows", "gram", "solve_dense", "newton_direction"),
    "steps, line search": ("minimise", "solve_ssmmc", "solve_mrmmc", "labelled_plane"),
    "unsupervised axis": ("principal_axis", "otsu_threshold"),
    "routing, rest": ("split_node",),
}
NAMES = [name for names in PHASES.values() for name in names]
N_CLASSES = len(SIZES) + 1
# The table: cycles of each function by class of size; then, by class, splits, passes and bytes of passes;
# then the class of the node at work and the cycles of functions called by the one at work.
SPLITS, PASSES, BYTES = len(NAMES), len(NAMES) + 1, len(NAMES) + 2
N_ROWS = len(NAMES) + 5
table = np.zeros((N_ROWS, N_CLASSES))
WHERE = table.ctypes.data
PARAMETERS = {
    "paper": {"segmentation": 7_000, "digits": 10_000, "usps": 30_000, "cifar10": 600_000},
}


@intrinsic
def cycles(_typing):
    """The processor's clock."""

    def generate(_context, builder, _signature, _arguments):
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", [], kind), [])

    return types.int64(), generate


@intrinsic
def pointer(_typing, address):
    def generate(_context, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@njit
def the_table():
    return carray(pointer(WHERE), (N_ROWS, N_CLASSES), np.float64)


@njit
def class_of(n):
    c = 0
    for most in SIZES:
        c += n > most
    return c


class Real(Apart):
    """The function itself, under another name than the one its callers look for."""

    def symbol(self, taken: tuple) -> str:
        return f"timed.{super().symbol(taken)}"


def timed(part: tree.Part) -> None:
    """Give the name of a function to a kernel that takes its time."""
    function, taken, returned = part
    real = Real(function.py_func)
    real.returned[taken] = returned
    real.load(taken)
    names = ", ".join(inspect.signature(function.py_func).parameters)
    row = NAMES.index(function.__name__)
    lines = [f"def call({names}):", " table = the_table()"]
    if function.__name__ == "split_node":
        lines += [
            " table[-2, 0] = class_of(points.size)",
            f" table[{SPLITS}, class_of(points.size)] += 1",
        ]
    if function.__name__ in PHASES["passes"]:
        lines += [
            " at = int(table[-2, 0])",
            f" table[{PASSES}, at] += 1",
            f" table[{BYTES}, at] += 4 * rows.values.size",
        ]
    lines += [
        " inner = table[-1, 0]",
        " table[-1, 0] = 0",
        " began = cycles()",
        f" answer = real({names})",
        " spent = cycles() - began",
        f" table[{row}, int(table[-2, 0])] += spent - table[-1, 0]",
        " table[-1, 0] = inner + spent",
        " return answer",
    ]
    space = {"real": real, "the_table": the_table, "class_of": class_of, "cycles": cycles}
    exec("\n".join(lines), space)
    kernel = njit(no_cpython_wrapper=True, **FLAGS)(space["call"])
    kernel.compile(taken)
    compiled = kernel.overloads[taken]
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    name_address(function.symbol(taken), address)
    function.returned[taken] = function.ready[taken] = returned
    kept.append(kernel)


kept: list = []  # a kernel's code lives as long as the kernel


def report(name: str, title: str, seconds: float, n_trees: int) -> None:
    cost = np.array(
        [table[[NAMES.index(n) for n in names]].sum(axis=0) for names in PHASES.values()]
    )
    share = 100 * cost / cost.sum()
    print(f"\n**{name}**, {title}: {1000 * seconds / n_trees:.0f} ms per tree\n")
    heads = [
        "rows of the node",
        "time",
        "splits per tree",
        "passes per split",
        "MB per tree",
        *PHASES,
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    ends = ("2", *[str(n + 1) for n in SIZES])
    labels = [f"{a} to {b}" for a, b in zip(ends, SIZES, strict=False)] + [f"{ends[-1]} and more"]
    rows = [*zip(labels, range(N_CLASSES), strict=True)]
    for label, c in [*rows, ("all", slice(None))]:
        splits, passes, read = (float(np.sum(table[r, c])) for r in (SPLITS, PASSES, BYTES))
        if not splits:
            continue
        cells = [f"{x:.0f} %" for x in (np.sum(share[p, c]) for p in range(len(PHASES)))]
        print(
            f"| {label} | {np.sum(share[:, c]):.0f} % | {splits / n_trees:.1f} | {passes / splits:.0f} "
            f"| {read / n_trees / 1e6:.1f} | {' | '.join(cells)} |"
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["segmentation", "digits", "usps"])
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument(
        "--paper", action="store_true", help="the paper's settings, not the defaults"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in given.names:
        data = load(name)
        if data is None:
            print(f"{name}: not on this machine")
            continue
        X, y = data
        changes = {}
        if given.paper:
            changes = {"n_constraints": PARAMETERS["paper"][name]}
            if name == "cifar10":
                changes |= {"max_features": 100, "min_node_size": 30}
        make = HierarchyForest.paper if given.paper else HierarchyForest
        forest = make(given.trees, random_state=0, **changes)
        d = X.shape[1]
        widths = {np.dtype(gap_dtype(d, n_split_features(k, d))).itemsize for k in (1 / 3, None)}
        for part in (part for n in widths for part in tree.parts(tree.Growing(n, False))):
            if part.taken not in part.function.ready:
                timed(part)
        forest.fit(X[:100], y[:100])
        table[:] = 0
        start = time.process_time()
        forest.fit(X, y)
        seconds = time.process_time() - start
        title = "the paper's settings" if given.paper else "defaults"
        report(name, f"{title}, {len(X):,} x {X.shape[1]}", seconds, given.trees)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # functions are called by the addresses of others: no order to take them down in
