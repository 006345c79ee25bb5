"""Time and memory of every metric on made data, as a Markdown table (docs/cost.md shows it).

    python benchmarks/cost.py [--rows 1000 4000] [--features 30] [--trees 100] [--jobs 2]

Each metric runs in a process of its own, so that its peak memory is its own: the growth of the process
from before `fit` to the end. Data: ten Gaussian classes; 1,000 pairs per class for what learns from
pairs, labels for the rest. Code is warm: a small fit and search come first. Times are the processor's,
which other work on the machine hardly changes: of all threads for learning, of one thread for a query
(one of 200 asked together).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from metricforest import HierarchyForest, rivals

METRICS = {
    "HierarchyForest": HierarchyForest,
    **{name: getattr(rivals, name) for name in rivals.__all__},
}
FORESTS = ("HierarchyForest", "RandomForestDistance", "GBLMNN")


def made(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 10
    return 1.2 * np.random.default_rng(0).normal(size=(10, d))[y] + rng.normal(size=(n, d)), y


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, n: int, options: argparse.Namespace) -> str:
    def make():
        metric = METRICS[name]()
        given = {"n_jobs": options.jobs, "random_state": 0, "n_estimators": options.trees}
        if name not in FORESTS:
            del given["n_estimators"]
        return metric.set_params(**{k: v for k, v in given.items() if k in metric.get_params()})

    warnings.simplefilter("ignore")
    make().fit(*made(120, options.features, 1)).kneighbors(n_neighbors=10)
    X, y = made(n, options.features, 2)
    queries = made(200, options.features, 3)[0]
    before = peak()
    metric, start = make(), time.process_time()
    metric.fit(X, y)
    fit = time.process_time() - start
    metric.kneighbors(queries[:1], 10)  # the index is made once
    with threadpool_limits(1):
        if "n_jobs" in metric.get_params():
            metric.set_params(n_jobs=1)
        start = time.process_time()
        metric.kneighbors(queries, 10)
        search = (time.process_time() - start) / len(queries)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metric.mf"
        metric.save(path)
        size = path.stat().st_size / 2**20
    return (
        f"| {name} | {n:,} | {fit:.1f} s | {1000 * search:.2f} ms | {peak() - before:.0f} MiB "
        f"| {size:.1f} MiB |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=" ".join(METRICS))
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000, 4_000])
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--here", action="store_true", help="in this process, without the heading")
    options = parser.parse_args()
    if options.here:
        print(measure(options.names[0], options.rows[0], options), flush=True)
        return
    print(
        f"{options.features} features, {options.trees} trees, {options.jobs} threads\n\n"
        "| metric | rows | learning | one query, 10 neighbours | memory beyond the data | file |\n"
        "|---|---|---|---|---|---|",
        flush=True,
    )
    for name in options.names or METRICS:
        for n in options.rows:
            command = [sys.executable, __file__, name, "--here", "--rows", str(n)]
            for option in ("features", "trees", "jobs"):
                command += [f"--{option}", str(getattr(options, option))]
            subprocess.run(command, check=True, env=os.environ)


if __name__ == "__main__":
    main()
