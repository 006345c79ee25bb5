"""Speed and memory of the forest, one table (`make bench`).

Every timing of ours stands beside scikit-learn's RandomForestClassifier on the same rows in the same
run, since machines differ and are shared. Code is warm: one fit before the clock starts. Cold start
is measured apart, in fresh processes with an empty compilation cache. Each run appends one JSON line
per figure to ``benchmarks/results.jsonl`` (not committed). Data sets that are not on this machine are
left out and said so; CIFAR-10 needs --large.

    python benchmarks/bench.py [--large] [--repeat 5] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numba
import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning

import metricforest
from metricforest import HierarchyForest, datasets

HERE = Path(__file__).parent
COLD = """
import time; start = time.perf_counter()
from sklearn.datasets import load_digits
from metricforest import HierarchyForest
X, y = load_digits(return_X_y=True)
HierarchyForest(20, random_state=0).fit(X, y)
print(time.perf_counter() - start)
"""


def data_folder() -> Path:
    """METRICFOREST_DATA, else a folder shared/data beside the checkout."""
    return Path(os.environ.get("METRICFOREST_DATA", HERE.parent.parent / "shared" / "data"))


def load(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and classes; None where the set is not on this machine."""
    if name == "digits":
        return load_digits(return_X_y=True)
    try:
        data = datasets.load(name, download=False)
    except FileNotFoundError:
        return None
    return data.X.astype(np.float64), data.y


def seconds(run, repeat: int) -> tuple[float, float]:
    """Medians of so many warm runs: of the clock, and of the processor for all threads."""
    times = []
    for _ in range(repeat):
        start, used = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - start, time.process_time() - used))
    wall, cpu = zip(*times, strict=True)
    return statistics.median(wall), statistics.median(cpu)


def beside_random_forest(name: str, n_constraints: int, bar: str, repeat: int) -> list[tuple]:
    """500 trees with the paper's settings and with the defaults, beside 500 of scikit-learn's."""
    data = load(name)
    if data is None:
        return [(f"{name}: 500 trees", "not on this machine", bar)]
    X, y = data
    peer = RandomForestClassifier(500, n_jobs=2, random_state=0)
    peer.fit(X, y)
    theirs = seconds(lambda: peer.fit(X, y), repeat)
    rows = []
    for title, forest in (
        ("`paper()`", HierarchyForest.paper(500, n_constraints=n_constraints, random_state=0)),
        ("defaults", HierarchyForest(500, random_state=0)),
    ):
        forest.set_params(n_estimators=2).fit(X, y)
        forest.set_params(n_estimators=500, n_jobs=2)
        ours = seconds(partial(forest.fit, X, y), repeat)
        stats = forest.split_statistics_
        passes = stats["constrained_passes"] / stats["n_constrained"]
        size = f"{len(X)} x {X.shape[1]}, {len(forest.constraints_.kind)} pairs"
        rows += [
            (
                f"{name} ({size}), 500 trees, {title}",
                f"{ours[0]:.1f} s, RandomForestClassifier {theirs[0]:.2f} s: "
                f"{ours[0] / theirs[0]:.1f} x ({ours[1] / theirs[1]:.1f} x of processor)",
                bar,
            ),
            (
                f"{name}, {title}: passes over a node's rows per constrained split",
                f"{passes:.0f}",
                "<= 150",
            ),
        ]
    return rows


def cifar(repeat: int) -> list[tuple]:
    data = load("cifar10")
    if data is None:
        return [("cifar10", "not on this machine", "")]
    X, y = data
    rows = []
    times = {}
    for n in (12_500, 25_000, 50_000):
        forest = HierarchyForest.paper(
            1, max_features=100, min_node_size=30, n_constraints=12 * n, random_state=0
        )
        forest.fit(X[:n], y[:n])
        _, one = seconds(partial(forest.fit, X[:n], y[:n]), repeat)
        more = HierarchyForest.paper(**{**forest.get_params(), "n_estimators": 3})
        _, three = seconds(partial(more.fit, X[:n], y[:n]), 1)
        times[n] = (three - one) / 2  # what checking, drawing and standardising take is not a tree
        if n == 50_000:
            f = more.forest_
            per_tree = f.nbytes / f.n_trees
            rows.append(
                (
                    "cifar10: size of the model",
                    f"{f.gaps.shape[1] * f.gaps.itemsize + 4 * f.weights.shape[1]} bytes per "
                    f"split, {per_tree / 1e6:.2f} MB per tree, "
                    f"{500 * per_tree / 2**30:.2f} GiB for 500 trees",
                    "<= 1 GiB",
                )
            )
    rows.insert(
        0, ("cifar10: one tree on one core", f"{times[50_000]:.2f} s of processor", "<= 1.3 s")
    )
    growth = ", ".join(f"{times[2 * n] / times[n]:.2f}" for n in (12_500, 25_000))
    rows.append(("cifar10: time at 2n over time at n, from 12,500", growth, "<= 2.3"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows.append(("peak memory of this process", f"{peak:.2f} GiB", "<= 6 GiB"))
    return rows


def cold_start() -> list[tuple]:
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "NUMBA_CACHE_DIR": cache}
        first, second = (
            float(subprocess.run([sys.executable, "-c", COLD], env=env, check=True,
                                 capture_output=True, text=True).stdout)
            for _ in range(2)
        )  # fmt: skip
    return [
        ("cold start: import and 20 trees on digits, empty cache", f"{first:.1f} s", "<= 8 s"),
        ("the same, second process", f"{second:.1f} s", "<= 1 s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and memory of metricforest.")
    parser.add_argument("--large", action="store_true", help="also CIFAR-10 (minutes)")
    parser.add_argument("--repeat", type=int, default=5, help="timings per figure (median)")
    parser.add_argument("--only", nargs="*", default=None, help="segmentation digits usps cold")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    jobs = {
        "cold": cold_start,
        "segmentation": lambda: beside_random_forest(
            "segmentation", 7_000, "<= 2.2 x", options.repeat
        ),
        "digits": lambda: beside_random_forest("digits", 10_000, "<= 4 x", options.repeat),
        "usps": lambda: beside_random_forest("usps", 30_000, "<= 4 x", options.repeat),
    }
    if options.large:
        jobs["cifar"] = lambda: cifar(options.repeat)
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numba "
        f"{numba.__version__}, scikit-learn {sklearn.__version__}, metricforest "
        f"{metricforest.__version__}, {time.strftime('%Y-%m-%d')}"
    )
    print(f"{machine}; medians of {options.repeat}, warm, n_jobs=2\n")
    print("| figure | measured | bar |\n|---|---|---|")
    with open(HERE / "results.jsonl", "a") as out:
        for name, job in jobs.items():
            if options.only is not None and name not in options.only:
                continue
            for figure, measured, bar in job():
                print(f"| {figure} | {measured} | {bar} |", flush=True)
                line = {"machine": machine, "figure": figure, "measured": measured, "bar": bar}
                out.write(json.dumps(line) + "\n")
                out.flush()


if __name__ == "__main__":
    main()
