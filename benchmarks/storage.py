"""Size, loading and sharing of a file with a forest as large as 500 trees on CIFAR-10.

The forest is made up (random splits of 50,000 points down to nodes of 30, 100 features and random
weights each), since only its size matters here. Every figure comes from a fresh process, after the
library has been imported and its kernels have been compiled once; "cold" means that the system has
been asked to forget the file's pages before. The file is deleted afterwards.

    python benchmarks/storage.py [--trees 500] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import metricforest
from metricforest import HierarchyForest
from metricforest.core.forest import LEAF, Forest, check_forest, gap_dtype, with_heights
from metricforest.supervision.constraints import Constraints

LOAD = """
import json, sys, time
import numpy as np
import metricforest
from metricforest.forest import check
path, options, wait = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] == "wait"
row = np.zeros((1, int(sys.argv[4])))

def memory(key):
    return sum(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(key)) / 1024

def mapped(keys):
    total, ours = 0, False
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0]:
            ours = path in line
        elif ours and line.split(":")[0] in keys:
            total += int(line.split()[1]) / 1024
    return total

before = memory("RssAnon:")
start, start_cpu = time.perf_counter(), time.process_time()
metric = metricforest.load(path, **options)
loaded = time.perf_counter()
metric.pair_distance(row, row + 1.0)
answered, answered_cpu = time.perf_counter(), time.process_time()
check(metric.forest_, metric.n_features_in_)
print(json.dumps({
    "load_s": loaded - start, "first_answer_s": answered - start,
    "first_answer_cpu_s": answered_cpu - start_cpu,
    "check_cpu_s": time.process_time() - answered_cpu,
    "own_memory_mb": memory("RssAnon:") - before,
    "file_shared_mb": mapped(("Shared_Clean",)),
    "file_private_mb": mapped(("Private_Clean", "Private_Dirty")),
}), flush=True)
if wait:
    sys.stdin.read()
"""


def random_tree(rng: np.random.Generator, n_points: int, min_size: int) -> list[list[int]]:
    """Rows (left, right, parent, start, stop) of the nodes of one tree of random splits."""
    nodes: list[list[int]] = []
    open_nodes = [(0, n_points, LEAF)]
    while open_nodes:
        start, stop, parent = open_nodes.pop()
        node = len(nodes)
        if parent != LEAF and node != parent + 1:
            nodes[parent][1] = node
        nodes.append([LEAF, LEAF, parent, start, stop])
        if stop - start > min_size:
            cut = start + max(1, int((stop - start) * rng.uniform(0.05, 0.95)))
            nodes[node][0] = node + 1
            open_nodes += [(cut, stop, node), (start, cut, node)]
    return nodes


def random_forest(n_trees: int, n_points: int, min_size: int, d: int, d_k: int) -> Forest:
    rng = np.random.default_rng(0)
    trees = [np.array(random_tree(rng, n_points, min_size)) for _ in range(n_trees)]
    root = np.cumsum([0, *map(len, trees)])
    shifted = [
        np.where(t[:, :3] == LEAF, LEAF, t[:, :3] + s)
        for t, s in zip(trees, root[:-1], strict=True)
    ]
    left, right, parent = np.concatenate(shifted).T.astype(np.int32).copy()
    start, stop = np.concatenate([t[:, 3:] for t in trees]).T.astype(np.int32).copy()
    S = int((left != LEAF).sum())
    split = np.full(len(left), LEAF, np.int32)
    split[left != LEAF] = np.arange(S)
    order = np.tile(np.arange(n_points, dtype=np.int32), (n_trees, 1))
    forest = Forest(
        root=root.astype(np.int32),
        left=left,
        right=right,
        parent=parent,
        start=start,
        stop=stop,
        split=split,
        gaps=rng.integers(0, d // d_k, (S, d_k), gap_dtype(d, d_k)),
        weights=rng.standard_normal((S, d_k + 1), np.float32),
        order=rng.permuted(order, axis=1, out=order),
    )
    return with_heights(forest)


def made_up_metric(n_trees: int, n_points: int = 50_000, d: int = 300) -> HierarchyForest:
    """A fitted metric without a fit."""
    rng = np.random.default_rng(1)
    metric = HierarchyForest.paper(n_trees, max_features=100, min_node_size=30, random_state=0)
    members = rng.integers(0, n_points, (600_000, 3), np.int32)
    members[:, 2] = -1
    metric.n_features_in_ = d
    metric.forest_ = random_forest(n_trees, n_points, 30, d, 100)
    metric.constraints_ = Constraints(members, np.repeat([0, 1], 300_000).astype(np.int8))
    metric.mean_, metric.scale_ = np.zeros(d), np.ones(d)
    metric.split_statistics_ = {}
    metric._rows = rng.standard_normal((n_points, d), np.float32)
    metric._entropy, metric._fitted_with = 0, ((n_points, d), 0)
    return metric


def run(path: Path, wait: bool = False, **options: bool) -> tuple[dict, subprocess.Popen]:
    command = [
        sys.executable,
        "-c",
        LOAD,
        str(path),
        json.dumps(options),
        "wait" if wait else "",
        "300",
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout
    answer = json.loads(process.stdout.readline())
    if not wait:
        process.communicate()
    return answer, process


def forget(path: Path) -> None:
    """Ask the system to drop the file's pages from its cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    arguments = parser.parse_args()
    print(f"metricforest {metricforest.__version__}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "forest.mf"
        metric = made_up_metric(arguments.trees)
        forest = metric.forest_
        check_forest(forest, 300)
        print(
            f"{forest.n_trees} trees, {len(forest.left):,} nodes, {forest.n_splits:,} splits, "
            f"{forest.nbytes / 2**30:.2f} GiB of forest"
        )
        start = time.perf_counter()
        metric.save(path)
        print(f"save {time.perf_counter() - start:.2f} s, {path.stat().st_size / 2**30:.2f} GiB")
        del metric, forest
        run(path)  # compiles what is not compiled yet
        for label, cold, options in (
            ("mapped", False, {}),
            ("mapped, cold", True, {}),
            ("mapped, not verified", False, {"verify": False}),
            ("read", False, {"mmap": False}),
        ):
            answers = []
            for _ in range(3):
                if cold:
                    forget(path)
                answers.append(run(path, **options)[0])
            answer = sorted(answers, key=lambda a: a["first_answer_s"])[1]
            print(f"{label:22}", {name: round(value, 2) for name, value in answer.items()})
        _, first = run(path, wait=True)
        second, _ = run(path)
        first.communicate()
        print(f"{'second process':22}", {name: round(value, 2) for name, value in second.items()})


if __name__ == "__main__":
    main()
