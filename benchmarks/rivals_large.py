"""Time and memory of the rivals that learn from pairs: 50,000 x 300 rows, 600,000 pairs (CIFAR-10).

Each runs in a process of its own with two threads, so that its peak memory (data included) is its
own. Bars: 30 minutes, 8 GiB. Every fit prints its line as soon as it is done.

    python benchmarks/rivals_large.py [DCA ITML RandomForestDistance] [--trees 500] [--gamma 1]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metricforest import rivals

HERE = Path(__file__).parent
NAMES = ("DCA", "ITML", "RandomForestDistance")


def measure(name: str, options: argparse.Namespace) -> str:
    folder = os.environ.get("METRICFOREST_DATA", HERE.parent.parent / "shared" / "data")
    with np.load(Path(folder) / "cifar10.npz") as archive:
        X, y = archive["X"].astype(np.float64), archive["y"].astype(np.int64)
    settings = {
        "DCA": {},
        "ITML": {"gamma": options.gamma, "verbose": 1},
        "RandomForestDistance": {"n_estimators": options.trees, "verbose": 1},
    }[name]
    metric = getattr(rivals, name)(n_jobs=2, random_state=0, **settings)
    note = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        wall, cpu = time.perf_counter(), time.process_time()
        metric.fit(X, y)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if name == "ITML":
        note = (
            f"gamma {options.gamma:g}, {metric.n_iter_} passes, gap "
            f"{metric.gap_ / metric.objective_:.1e} of the objective"
        )
    elif name == "RandomForestDistance":
        nodes = sum(tree.tree_.node_count for tree in metric.forest_.estimators_)
        note = f"{options.trees} trees, {nodes / options.trees:,.0f} nodes each"
    note += "; did not converge" * any(w.category is ConvergenceWarning for w in caught)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"| {name} | {wall:.0f} s | {cpu:.0f} s | {peak:.2f} GiB | {note} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=" ".join(NAMES))
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--here", action="store_true", help="in this process, without the heading")
    options = parser.parse_args()
    if options.here:
        print(measure(options.names[0], options), flush=True)
        return
    print(
        "| metric | wall clock | processor time | peak memory | |\n|---|---|---|---|---|",
        flush=True,
    )
    env = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    for name in options.names or NAMES:
        arguments = [name, "--here", "--trees", str(options.trees), "--gamma", str(options.gamma)]
        subprocess.run([sys.executable, __file__, *arguments], check=True, env=env)


if __name__ == "__main__":
    main()
