"""Matches by dedupe, learned from labelled pairs; runs in an environment with dedupe alone.

    python dedupe_peer.py FOLDER

As its documentation does: every column a `String` that may be missing, labelled pairs as a training file,
`train` with its defaults, then `partition` of one table or `join` of two (one to one) at its default
threshold. FOLDER holds left.csv, perhaps right.csv, and pairs.csv; matches.csv is written there.
"""

import csv
import io
import itertools
import json
import random
import sys
from pathlib import Path

import dedupe
import numpy as np


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> None:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - dedupe draws from the global state
    folder = Path(sys.argv[1])
    names = [n for n in ("left", "right") if (folder / f"{n}.csv").exists()]
    tables = [
        {row.pop("id"): {k: v.strip().lower() or None for k, v in row.items()}
         for row in read(folder / f"{name}.csv")}
        for name in names
    ]  # fmt: skip
    columns = list(next(iter(tables[0].values())))
    fields = [dedupe.variables.String(column, has_missing=True) for column in columns]
    model = (dedupe.Dedupe if len(tables) == 1 else dedupe.RecordLink)(fields, num_cores=1)
    training = {"match": [], "distinct": []}
    for pair in read(folder / "pairs.csv"):
        kind = "match" if pair["same"] == "1" else "distinct"
        training[kind].append([tables[0][pair["a"]], tables[-1][pair["b"]]])
    model.prepare_training(*tables, training_file=io.StringIO(json.dumps(training)))
    model.train()
    with (folder / "matches.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["a", "b"])
        if len(tables) == 1:
            for members, _ in model.partition(tables[0], 0.5):
                out.writerows(itertools.combinations(members, 2))
        else:
            out.writerows(pair for pair, _ in model.join(*tables, 0.5))


if __name__ == "__main__":
    main()
