"""From judged pairs to the matches of whole tables: true precision, recall and F1, and what was promised.

    python benchmarks/record_tables.py [--records febrl3 ...] [--pairs 450 150 50] [--draws 3] [--labels 60]

For each table of `metricforest.records`, PairModel learns from so many judged pairs: half of them matches, a
quarter rows that look alike and are not the same, a quarter any two rows. It matches the whole table at its
own threshold; `audit` says by labels of further candidates what to expect of that match. `inside` counts the
draws whose true precision (and recall among the candidates) lies in the stated interval. Mean over the
draws, with the lowest and highest F1, in per cent.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from metricforest import PairModel, records
from record_truth import Truth


def measured(truth: Truth, n: int, draw: int, n_labels: int) -> dict[str, Any]:
    pairs, same = truth.judged(n, np.random.default_rng(draw))
    model = PairModel(random_state=draw).fit(*truth.tables, pairs=pairs, pair_labels=same)
    found = model.match()
    hits = float(truth.same(found["a"], found["b"]).sum())
    precision, recall = hits / max(len(found["a"]), 1), hits / truth.n_matches
    asked = model.questions(n_labels)
    told = truth.same(asked["a"], asked["b"])
    promised = model.audit(np.column_stack([asked["a"], asked["b"]]), told)
    candidates = model.match(threshold=0.0)
    among = hits / truth.same(candidates["a"], candidates["b"]).sum()
    low, high = promised.precision_interval
    least, most = promised.recall_interval
    return {
        "precision": precision, "recall": recall,
        "f1": 2 * hits / (len(found["a"]) + truth.n_matches),
        "promised": promised.precision, "inside": low <= precision <= high,
        "recall inside": least <= among <= most, "width": high - low,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", nargs="+", default=list(records.NAMES))
    parser.add_argument("--pairs", nargs="+", type=int, default=[450, 150, 50])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--labels", type=int, default=60)
    given = parser.parse_args()
    print(f"{'records':13}{'pairs':>6}{'precision':>11}{'recall':>8}  {'F1':22}"
          f"{'promised':>9}{'width':>7}  inside (recall)")  # fmt: skip
    for name in given.records:
        truth = Truth.load(name)
        for n in given.pairs:
            found = [measured(truth, n, draw, given.labels) for draw in range(given.draws)]
            mean = {key: 100 * np.mean([one[key] for one in found]) for key in found[0]}
            f1 = [100 * one["f1"] for one in found]
            inside = [sum(one[key] for one in found) for key in ("inside", "recall inside")]
            print(
                f"{name:13}{n:6}{mean['precision']:11.1f}{mean['recall']:8.1f}  "
                f"{mean['f1']:5.1f} ({min(f1):.1f} to {max(f1):.1f})".ljust(62)
                + f"{mean['promised']:7.1f}{mean['width']:7.1f}  {inside[0]} ({inside[1]}) of {given.draws}",
                flush=True,
            )


if __name__ == "__main__":
    main()
