"""Groups of rows that are the same thing, beside peers: pairwise and B-cubed precision, recall and F1.

    python benchmarks/groups.py run RESULTS.jsonl [--records febrl1 ...] [--pairs 450] [--draws 3]
        [--methods ours components dedupe splink] [--limit 1200]
    python benchmarks/groups.py report RESULTS.jsonl
    python benchmarks/groups.py made [--rows 1000000]

Tables of `metricforest.records` with duplicates; labelled pairs and the environments of peers are those of
`record_tables.py`. `run` appends a JSON line for each result and leaves out what is there.

ours        Deduplication with defaults
components  the same model's matches at its threshold, chained: bare connected components
dedupe      its own blocking and clustering
splink      its own blocking, no labels; its clusters are connected components at a probability of .5

`made` finds the duplicates, 5 % of the rows, in a table it makes: seconds by the clock and of computing, and
the most memory.

Pairwise: of all pairs of rows in one group. B-cubed: the mean over the rows of what a row's group holds.
"""

from __future__ import annotations

import argparse
import json
import resource
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


SOUNDS = [c + v for c in "bdklmnrst" for v in "aeiou"]


def made_table(n_rows: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(people with errors in 5 % of the rows, which repeat others; the person of every row)."""
    rng = np.random.default_rng(seed)
    n_people = n_rows - n_rows // 20
    person = np.append(np.arange(n_people), rng.permutation(n_people)[: n_rows - n_people])

    def words(n_sounds: int) -> np.ndarray:
        return np.array(["".join(w) for w in rng.choice(SOUNDS, (n_people, n_sounds))], object)

    columns = {
        "first": words(2),
        "last": words(4),
        "street": words(3) + " " + rng.integers(1, 200, n_people).astype(str).astype(object),
        "born": (np.datetime64("1930-01-01") + rng.integers(0, 30_000, n_people)).astype(str),
    }
    table = {name: np.asarray(column, object)[person] for name, column in columns.items()}
    for row in range(n_people, n_rows):
        for name in rng.choice(list(table), rng.integers(1, 3), replace=False):
            text = table[name][row]
            at = int(rng.integers(len(text)))
            table[name][row] = text[:at] + text[at + 1 :]
    order = rng.permutation(n_rows)
    return {name: column[order] for name, column in table.items()}, person[order]


def made(given: argparse.Namespace) -> None:
    table, true = made_table(given.rows)
    rng = np.random.default_rng(1)
    by_person = np.argsort(true, kind="stable")
    twice = np.flatnonzero(np.diff(true[by_person]) == 0)
    same = np.column_stack([by_person[twice], by_person[twice + 1]])[:225]
    other = rng.integers(0, given.rows, (225, 2))
    other = other[true[other[:, 0]] != true[other[:, 1]]]
    pairs, labels = np.concatenate([same, other]), np.repeat([1, 0], [len(same), len(other)])
    wall, cpu = time.perf_counter(), time.process_time()
    model = PairModel(n_jobs=2, random_state=0)
    found = Deduplication(model).fit(table, pairs=pairs, pair_labels=labels)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    score = rates(true, found.labels_)
    print(
        f"{given.rows:,} rows: {wall:.0f} s by the clock, {cpu:.0f} s of computing, at most {peak:,.0f} MB; "
        f"pairwise F1 {100 * score['f1']:.1f}, B-cubed F1 {100 * score['b3_f1']:.1f}"
    )


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
    making = commands.add_parser("made")
    making.set_defaults(does=made)
    making.add_argument("--rows", type=int, default=1_000_000)
    reporting = commands.add_parser("report")
    reporting.set_defaults(does=report)
    for command in (running, reporting):
        command.add_argument("results", type=Path)
    given = parser.parse_args()
    given.does(given)


if __name__ == "__main__":
    main()
