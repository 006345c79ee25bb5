"""Seconds from import to an answer: the first time on a machine, and in later processes.

    python benchmarks/first_answer.py [--repeat 3]
    python benchmarks/first_answer.py --python ENV/bin/python    # with the packages of another environment

Every line is a process of its own: import, digits, 20 trees, with the defaults and with the paper's
settings, and ten neighbours of one row. "First" has an empty folder for compiled code, "later" what the
first one left there. Wall time is what a user waits for; the processor's time of the process and of
its helper says what that would be on a machine with nothing else to do. What importing scikit-learn's
digits alone takes stands beside, since no answer comes before it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
BARE = """
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
"""
TREES = (
    BARE
    + """
from metricforest import HierarchyForest
forest = HierarchyForest{}(n_estimators=20, n_constraints=10_000, random_state=0).fit(X, y)
"""
)
NEIGHBOURS = (
    TREES
    + """
forest.kneighbors(X[:1], 10)
"""
)
LINES = {
    "scikit-learn and its digits, nothing of ours": (BARE, ("later",)),
    "20 trees, defaults": (TREES.format(""), ("first", "later")),
    "20 trees, `paper()`": (TREES.format(".paper"), ("first", "later")),
    "20 trees and ten neighbours of a row": (NEIGHBOURS.format(""), ("first", "later")),
}


def run(python: str, code: str, cache: str) -> tuple[float, float]:
    """Seconds of the clock and of the processor that a process takes, children included."""
    env = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(SOURCE)}
    before, start = os.times(), time.perf_counter()
    subprocess.run([python, "-c", code], env=env, check=True)
    clock, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system
    return clock, spent - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="processes per figure (median)")
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    print("| from import to | process | seconds | of the processor |\n|---|---|---|---|")
    for name, (code, when) in LINES.items():
        found: dict[str, list] = {which: [] for which in when}
        for _ in range(given.repeat):
            with tempfile.TemporaryDirectory() as cache:
                for which in when:
                    found[which].append(run(given.python, code, cache))
        for which, times in found.items():
            clock, spent = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"| {name} | {which} | {clock:.1f} | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
