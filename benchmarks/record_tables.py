"""From labelled pairs to the matches of whole tables, beside peers: precision, recall, F1, what was promised.

    python benchmarks/record_tables.py run RESULTS.jsonl [--records febrl3 ...] [--pairs 450 150 50]
        [--draws 3] [--methods ours splink ...] [--limit 1200]
    python benchmarks/record_tables.py report RESULTS.jsonl

For tables of `metricforest.records` all methods get the same tables and the same labelled pairs: half of them
matches, a quarter rows that look alike and are no match, a quarter any two rows. `run` appends one JSON line
for each result and leaves out what is there; `report` prints means over the draws, in per cent.

ours           PairModel with defaults matches the whole table at its own threshold; `audit` says by 60 labels
               of further candidates what precision to expect, with an interval
trees          boosted trees (scikit-learn, defaults) on our comparisons and our candidate pairs
recordlinkage  the logistic regression of its documentation on our candidate pairs
dedupe         its own blocking and clustering
splink         its own blocking; no labels, so one result for a table
earlier        this library at commit 873dc33 (TableMetric)

The last four run in environments of their own, which are made with venv and pip in the cache where they are
missing; benchmarks/peers says with what settings.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
import venv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from metricforest import PairModel, records
from metricforest.datasets import cache_folder
from metricforest.tables import pair_model
from metricforest.version import __version__
from record_truth import Truth

HERE = Path(__file__).parent
LABELS = 60  # of candidates, for what is promised
EARLIER = "873dc33"
PEERS = {  # what pip installs for each
    "recordlinkage": ["recordlinkage==0.16"],
    "dedupe": ["dedupe==3.0.3", "BTrees<6"],  # with BTrees 6 it fails in its training
    "splink": ["splink==5.0.0"],
    "earlier": ["pandas"],
    "clusterers": ["active-semi-supervised-clustering==0.0.1", "metric-learn==0.7.0"],
}
METHODS = ("ours", "trees", "recordlinkage", "dedupe", "splink", "earlier")
RECORDS = tuple(name for name in records.NAMES if name != "dblp-acm")


class Question:
    """One table, so many labelled pairs, one draw of them."""

    def __init__(self, truth: Truth, n: int, draw: int):
        self.truth, self.n, self.draw = truth, n, draw
        self.pairs, self.same = truth.labelled(n, np.random.default_rng(draw))

    def rates(self, a: np.ndarray, b: np.ndarray) -> dict[str, float]:
        hits = float(self.truth.same(a, b).sum())
        return {
            "precision": hits / max(len(a), 1),
            "recall": hits / self.truth.n_matches,
            "f1": 2 * hits / (len(a) + self.truth.n_matches),
        }


def ours(question: Question) -> dict[str, Any]:
    truth = question.truth
    pair_model.PairComparison = lambda kinds: truth.comparison  # the same answers, compared once
    model = PairModel(random_state=question.draw)
    model.fit(*truth.tables, pairs=question.pairs, pair_labels=question.same)
    found = model.match()
    answer = question.rates(found["a"], found["b"])
    asked = model.questions(LABELS)
    same = truth.same(asked["a"], asked["b"])
    promised = model.audit(np.column_stack([asked["a"], asked["b"]]), same)
    low, high = promised.precision_interval
    inside = bool(low <= answer["precision"] <= high)
    near = abs(promised.precision - answer["precision"]) <= 0.05
    return answer | {"promised": promised.precision, "low": low, "high": high,
                     "kept": inside or near}  # fmt: skip


def trees(question: Question) -> dict[str, Any]:
    compared = question.truth.comparison
    candidates = compared.all_candidates()
    learned, asked = (
        compared.compare(compared.tables[0], pairs[:, 0], compared.tables[-1], pairs[:, 1])
        for pairs in (question.pairs, candidates)
    )
    model = HistGradientBoostingClassifier(random_state=question.draw).fit(learned, question.same)
    return question.rates(*candidates[model.predict(asked).astype(bool)].T)


def peer(question: Question, name: str, python: Path, limit: int) -> dict[str, Any]:
    found = matches_of(question, name, python, limit)
    return found if isinstance(found, dict) else question.rates(*found)


def matches_of(question: Question, name: str, python: Path, limit: int) -> Any:
    """(rows of the one table, rows of the other) of a peer's matches, or why there are none."""
    folder = cache_folder() / "peers" / "work" / question.truth.name
    written(question, folder)
    done = subprocess.run(
        [python, HERE / "peers" / f"{name}_peer.py", folder],
        capture_output=True, text=True, timeout=limit,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        return {"failed": said[-1][:200]}
    found = pd.read_csv(folder / "matches.csv", dtype=np.int64)
    a, b = found["a"].to_numpy(), found["b"].to_numpy()
    if len(question.truth.tables) == 1:
        a, b = np.unique(np.sort(np.column_stack([a, b]), axis=1), axis=0).T
    return a, b


def written(question: Question, folder: Path) -> None:
    """The files that peers read; ids are row numbers."""
    truth = question.truth
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "matches.csv").unlink(missing_ok=True)
    if not (folder / "candidates.csv").exists():
        for name, table in zip(("left", "right"), truth.tables, strict=False):
            frame = pd.DataFrame(table)
            frame.insert(0, "id", range(len(frame)))
            frame.to_csv(folder / f"{name}.csv", index=False)
        pairs = pd.DataFrame(truth.comparison.all_candidates(), columns=["a", "b"])
        pairs.to_csv(folder / "candidates.csv", index=False)
    labelled = pd.DataFrame(question.pairs, columns=["a", "b"])
    labelled.assign(same=question.same.astype(int)).to_csv(folder / "pairs.csv", index=False)


def environment(name: str) -> Path:
    """The Python of a peer's environment, which is made where it is missing."""
    folder = cache_folder() / "peers" / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        wanted = list(PEERS[name])
        if name == "earlier":
            source = folder.with_name("earlier-source")
            shutil.rmtree(source, ignore_errors=True)
            source.mkdir(parents=True)
            command = ["git", "-C", HERE.parent, "archive", "--format=tar", f"{EARLIER}^{{tree}}"]
            tar = subprocess.run(command, check=True, capture_output=True).stdout
            subprocess.run(["tar", "x", "-C", source], input=tar, check=True)
            wanted.append(str(source))
        venv.create(folder, clear=True, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], check=True)
        (folder / "ready").touch()
    return python


def run(given: argparse.Namespace) -> None:
    there = {key(line) for line in lines(given.results)}
    for name in given.records:
        truth = Truth.load(name)
        for n in given.pairs:
            for draw in range(given.draws):
                question = None
                for method in given.methods:
                    one = {"records": name, "pairs": 0 if method == "splink" else n,
                           "draw": 0 if method == "splink" else draw, "method": method}  # fmt: skip
                    if key(one) in there:
                        continue
                    there.add(key(one))
                    question = question or Question(truth, n, draw)
                    python = environment(method) if method in PEERS else None
                    began = time.perf_counter()
                    try:
                        if python:
                            found = peer(question, method, python, given.limit)
                        else:
                            found = (ours if method == "ours" else trees)(question)
                    except subprocess.TimeoutExpired:
                        found = {"failed": f"not ready after {given.limit} s"}
                    one |= found | {
                        "seconds": round(time.perf_counter() - began, 1),
                        "version": __version__, "machine": platform.machine(),
                    }  # fmt: skip
                    with given.results.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(one) + "\n")
                    print(json.dumps(one), flush=True)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key(line: dict[str, Any]) -> tuple[str, int, int, str]:
    return line["records"], line["pairs"], line["draw"], line["method"]


def report(given: argparse.Namespace) -> None:
    cells: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = defaultdict(dict)
    for line in lines(given.results):
        cells[line["records"], line["pairs"]].setdefault(line["method"], []).append(line)
    shown = [m for m in METHODS if m != "splink"]
    print("| tables | pairs | " + " | ".join(shown) + " | splink (no labels) | promised |")
    print("|---|---|" + "---|" * (len(shown) + 2))
    kept = total = 0
    for (name, n), methods in sorted(cells.items(), key=lambda cell: (cell[0][0], -cell[0][1])):
        if n == 0:
            continue
        row = [cell(methods.get(method, [])) for method in shown]
        row.append(cell(cells.get((name, 0), {}).get("splink", [])))
        ours = methods.get("ours", [])
        kept += sum(line["kept"] for line in ours)
        total += len(ours)
        promised = 100 * np.mean([line["promised"] for line in ours]) if ours else np.nan
        width = 100 * np.mean([line["high"] - line["low"] for line in ours]) if ours else np.nan
        row.append(f"{promised:.0f}, ±{width / 2:.0f}")
        print(f"| {name} | {n} | " + " | ".join(row) + " |")
    print(
        "\nEach cell: F1 (precision / recall), mean over the draws, in per cent. Promised: the expected"
    )
    print(
        f"precision of ours and half the width of its interval. The true precision lies within 5 "
        f"points of it or inside the interval in {kept} of {total}."
    )


def cell(found: list[dict[str, Any]]) -> str:
    good = [line for line in found if "f1" in line]
    if not good:
        return found[0]["failed"].split(":")[0][:40] if found else ""
    f1, precision, recall = (
        100 * np.mean([g[k] for g in good]) for k in ("f1", "precision", "recall")
    )
    few = "" if len(good) == len(found) else f", {len(good)} of {len(found)} draws"
    return f"{f1:.1f} ({precision:.0f} / {recall:.0f}{few})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.set_defaults(does=run)
    running.add_argument("--records", nargs="+", default=list(RECORDS), choices=RECORDS)
    running.add_argument("--pairs", nargs="+", type=int, default=[450, 150, 50])
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
    sys.exit(main())
