"""A million rows through the command line: time and peak memory of `fit` and `neighbors`.

Makes a CSV of 1,000,000 rows x 20 columns (an id, numbers with gaps, categories, booleans, dates) and
2,000 labelled pairs, learns from a sample and asks for the neighbours of all rows.

    python benchmarks/million.py [--rows 1000000] [--trees 50] [--max-rows 20000] [--folder FOLDER]

Prints one line per step and one JSON line with all figures. Memory is that of the step's process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

GROUPS = 40
PIECE = 100_000  # rows made at once


def make_table(path: Path, n_rows: int, seed: int = 0) -> np.ndarray:
    """Write the table; the group of every row."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, GROUPS, n_rows)
    centre = rng.normal(size=(GROUPS, 10)) * 1.5
    home = rng.integers(0, [4, 8, 12, 25, 60], (GROUPS, 5))
    for low in range(0, n_rows, PIECE):
        own = group[low : low + PIECE]
        n = len(own)
        columns: dict = {"key": [f"r{i:07d}" for i in range(low, low + n)]}
        for j in range(10):
            values = (centre[own, j] * (j < 6) + rng.normal(size=n)).round(4)
            columns[f"number{j}"] = np.where(rng.random(n) < 0.05, np.nan, values)
        for j, levels in enumerate((4, 8, 12, 25, 60)):
            level = np.where(rng.random(n) < 0.6, home[own, j], rng.integers(0, levels, n))
            columns[f"category{j}"] = np.char.add(f"c{j}-", level.astype(str))
        columns["yes"] = rng.random(n) < 0.3
        columns["no"] = rng.random(n) < np.where(own % 2, 0.8, 0.2)
        for j in range(2):
            columns[f"date{j}"] = np.datetime64("2020-01-01") + rng.integers(0, 2_000, n)
        frame = pd.DataFrame(columns)
        frame.to_csv(path, mode="w" if low == 0 else "a", header=low == 0, index=False)
    return group


def make_pairs(path: Path, group: np.ndarray, n_pairs: int = 2_000, seed: int = 1) -> None:
    """Write labelled pairs, half of them of one group."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, len(group), n_pairs)
    b = rng.integers(0, len(group), n_pairs)
    for i in range(0, n_pairs, 2):
        b[i] = rng.choice(np.flatnonzero(group == group[a[i]]))
    answer = np.where(group[a] == group[b], "same", "different")
    names = [np.char.add("r", np.char.zfill(rows.astype(str), 7)) for rows in (a, b)]
    table = pd.DataFrame({"left": names[0], "right": names[1], "answer": answer})
    table.to_csv(path, index=False)


def run(*arguments: object) -> dict:
    """Seconds and peak megabytes of one command."""
    print("$ metricforest", *arguments, flush=True)
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "metricforest.cli", *map(str, arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        raise SystemExit(f"failed with {os.waitstatus_to_exitcode(status)}")
    figures = {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }
    print(f"  {figures}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--max-rows", type=int, default=20_000)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        table, pairs, model = folder / "table.csv", folder / "pairs.csv", folder / "model.mf"
        found = folder / "neighbors.parquet"
        group = make_table(table, args.rows)
        make_pairs(pairs, group)
        print(f"{args.rows:,} rows, {table.stat().st_size / 1e6:.0f} MB of CSV", flush=True)
        fit = run("fit", table, "--id", "key", "--pairs", pairs, "-o", model,
                  "--trees", args.trees, "--max-rows", args.max_rows)  # fmt: skip
        ask = run("neighbors", model, table, "-k", args.k, "-o", found)
        n_found = 0
        right = 0
        for piece in pd.read_parquet(found, columns=["query", "neighbor"]).to_numpy()[
            :: args.k * 50
        ]:
            a, b = (int(called[1:]) for called in piece)
            n_found += 1
            right += group[a] == group[b] if a != b else 0
        figures = {
            "rows": args.rows,
            "trees": args.trees,
            "max_rows": args.max_rows,
            "model_mb": round(model.stat().st_size / 1e6),
            "result_mb": round(found.stat().st_size / 1e6),
            "fit": fit,
            "neighbors": ask,
            "nearest_of_own_group": round(right / n_found, 3),
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
