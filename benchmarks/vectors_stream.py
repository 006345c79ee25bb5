"""A large table through `metricforest vectors`: time, and peak memory that does not grow with the rows.

    python benchmarks/vectors_stream.py [--rows 200000 1000000] [--trees 100] [--folder FOLDER]

Makes tables of rows x 50 numbers on a made surface as Parquet in a temporary folder, learns from the labels
of 20,000 rows, and streams each table into vectors on disk. Prints seconds, seconds of processor time and
the peak memory of the command.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from metricforest import HierarchyForest, TableMetric
from million import run
from vectors import surface

LEARNED = 20_000
PIECE = 200_000  # rows made at once


def write(path: Path, X: np.ndarray, n_rows: int) -> None:
    """n_rows rows: those of X, again and again, a little moved."""
    rng = np.random.default_rng(0)
    writer = None
    for low in range(0, n_rows, PIECE):
        n = min(PIECE, n_rows - low)
        rows = X[rng.integers(len(X), size=n)] + rng.normal(0, 0.01, (n, X.shape[1]))
        columns = {f"x{j}": rows[:, j].astype(np.float32) for j in range(X.shape[1])}
        table = pa.table({"key": np.arange(low, low + n), **columns})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--at-once", type=int, default=20_000)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    X, y = surface(100_000)
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        frame = {"key": np.arange(LEARNED)}
        frame |= {f"x{j}": X[:LEARNED, j] for j in range(X.shape[1])}
        metric = TableMetric(HierarchyForest(args.trees, random_state=0), id="key", cv=0)
        metric.fit(frame, y[:LEARNED]).save(folder / "model.mf")
        for n_rows in args.rows:
            table, out = folder / "table.parquet", folder / "vectors.parquet"
            write(table, X, n_rows)
            figures = run("vectors", folder / "model.mf", table, "-o", out, "--dtype", args.dtype,
                          "--at-once", args.at_once, "--force")  # fmt: skip
            print(
                f"{n_rows:,} rows, {args.trees} trees: {figures['seconds']} s, "
                f"{1e6 * figures['cpu_seconds'] / n_rows:.0f} us of processor time per row, "
                f"peak {figures['peak_mb']} MB, table {table.stat().st_size / 1e6:.0f} MB, "
                f"vectors {out.stat().st_size / 1e6:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
