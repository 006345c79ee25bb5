"""Groups of rows that are the same thing, beside peers: pairwise and B-cubed precision, recall and F1.

    python benchmarks/groups.py run RESULTS.jsonl [--records febrl1 ...] [--pairs 450] [--draws 3]
        [--methods ours components dedupe splink] [--limit 1200]
    python benchmarks/groups.py report RESULTS.jsonl

Tables of `metricforest.records` with duplicates; labelled pairs and the environments of peers are those of
`record_tables.py`. `run` appends a JSON line for each result and leaves out what is there.

ours        Deduplication with defaults
components  the same model's matches at its threshold, chained: bare connected components
dedupe      its own blocking and clustering
splink      its own blocking, no labels; its clusters are connected components at a probability of .5

Pairwise: of all pairs of rows in one group. B-cubed: the mean over the rows of what a row's group holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.frozen import FrozenEstimator

from metricforest import Deduplication, PairModel
from metricforest.tables import pair_model
from record_tables import Question, environment, lines, matches_of
from record_truth import Truth

RECORDS = ("febrl1", "febrl3", "rldata10000", "patstat")
OURS, COMPONENTS = "ours", "components"
PEERS = ("dedupe", "splink")
METHODS = (OURS, COMPONENTS, *PEERS)


def components(n: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The group of every row where pairs chain rows."""
    graph = sp.csr_matrix((np.ones(len(a), bool), (a, b)), (n, n))
    return connected_components(graph, directed=False)[1]


def rates(true: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Pairwise and B-cubed rates of groups."""
    n = len(true)
    table = sp.csr_matrix((np.ones(n), (true, found))).tocoo()
    size_true, size_found = np.bincount(true), np.bincount(found)

    def n_pairs(size: np.ndarray) -> float:
        return float((size * (size - 1.0)).sum() / 2)

    hits, n_true, n_found = n_pairs(table.data), n_pairs(size_true), n_pairs(size_found)
    precision = float((table.data**2 / size_found[table.col]).sum() / n)
    recall = float((table.data**2 / size_true[table.row]).sum() / n)
    return {
        "precision": hits / max(n_found, 1.0),
        "recall": hits / n_true,
        "f1": 2 * hits / (n_true + n_found),
        "b3_precision": precision,
        "b3_recall": recall,
        "b3_f1": 2 * precision * recall / (precision + recall),
        "largest": int(size_found.max()),
    }


def own(question: Question) -> dict[str, np.ndarray]:
    """Groups of ours and the chained matches of the same model."""
    truth = question.truth
    pair_model.PairComparison = lambda kinds: truth.comparison  # the same answers, compared once
    model = PairModel(random_state=question.draw)
    model.fit(*truth.tables, pairs=question.pairs, pair_labels=question.same)
    matched = model.match()
    grouped = Deduplication(FrozenEstimator(model))
    grouped.fit(truth.tables[0], pairs=question.pairs, pair_labels=question.same)
    chained = components(truth.sizes[0], matched["a"], matched["b"])
    return {OURS: grouped.labels_, COMPONENTS: chained}


def peer(question: Question, method: str, limit: int) -> dict[str, Any]:
    try:
        found = matches_of(question, method, environment(method), limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"not ready after {limit} s"}
    if isinstance(found, dict):
        return found
    return {"groups": components(question.truth.sizes[0], *found)}


def run(given: argparse.Namespace) -> None:
    there = {(o["records"], o["pairs"], o["draw"], o["method"]) for o in lines(given.results)}
    for name in given.records:
        truth = Truth.load(name)
        n = truth.sizes[0]
        true = components(n, truth.codes // n, truth.codes % n)
        for n_pairs in given.pairs:
            for draw in range(given.draws):
                question, groups = Question(truth, n_pairs, draw), {}
                for method in given.methods:
                    none = method == "splink"
                    unit = (name, 0 if none else n_pairs, 0 if none else draw, method)
                    if unit in there:
                        continue
                    there.add(unit)
                    began = time.perf_counter()
                    if method in PEERS:
                        answer = peer(question, method, given.limit)
                    else:
                        groups = groups or own(question)
                        answer = {"groups": groups[method]}
                    line = dict(zip(("records", "pairs", "draw", "method"), unit, strict=True))
                    line["seconds"] = round(time.perf_counter() - began, 1)
                    found = answer.pop("groups", None)
                    line |= answer if found is None else rates(true, found)
                    with given.results.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                    print(json.dumps(line), flush=True)


def report(given: argparse.Namespace) -> None:
    cells: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines(given.results):
        cells[line["records"]][line["method"]].append(line)
    print("| table | " + " | ".join(METHODS) + " |\n|---|" + "---|" * len(METHODS))
    for name, methods in cells.items():
        row = [cell(methods[method]) for method in METHODS]
        print(f"| {name} | " + " | ".join(row) + " |")
    print(
        "\nPairwise F1 / B-cubed F1 (rows in the largest group), mean over the draws, in per cent."
    )


def cell(found: list[dict[str, Any]]) -> str:
    good = [line for line in found if "f1" in line]
    if not good:
        return found[0]["failed"][:40] if found else ""
    f1, b3 = (100 * np.mean([line[k] for line in good]) for k in ("f1", "b3_f1"))
    return f"{f1:.1f} / {b3:.1f} ({max(line['largest'] for line in good)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.set_defaults(does=run)
    running.add_argument("--records", nargs="+", default=list(RECORDS), choices=RECORDS)
    running.add_argument("--pairs", nargs="+", type=int, default=[450])
    running.add_argument("--draws", type=int, default=3)
    running.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    running.add_argument("--limit", type=int, default=1_200, help="seconds for a peer")
    reporting = commands.add_parser("report")
    reporting.set_defaults(does=report)
    for command in (running, reporting):
        command.add_argument("results", type=Path)
    given = parser.parse_args()
    given.does(given)


if __name__ == "__main__":
    main()
