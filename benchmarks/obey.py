"""Clusters from labelled pairs beside what people use instead: V-measure and adjusted Rand index.

    python benchmarks/obey.py run RESULTS.jsonl [--sets penguins ...] [--pairs 50 100 ...] [--draws 5]
        [--methods obeying PCKMeans ...]
    python benchmarks/obey.py report RESULTS.jsonl
    python benchmarks/obey.py number [--sets ...] [--pairs 300] [--draws 1]
    python benchmarks/obey.py large [--rows 20000] [--pairs 10000] [--trees 100]
    python benchmarks/obey.py wrong [--sets wine ...] [--pairs 1000] [--draws 3] [--share 0.05]

Sets of `labelled_pairs_data`, at most 400 rows of each; pairs are any two rows, drawn at random. `run` adds
a JSON line for each clustering, draw by draw, and leaves out what is there. `report` prints means over the
draws, and in how many cells ours is best or within .01 of the best.

obeying          MetricSpectralClustering: 150 trees, alpha=4, all else by default
graph cut        the same forest with obey=False: the paper's clustering
linkage on ours  average linkage on that forest's distances
k-means, average linkage: on standardised rows, without the pairs
PCKMeans, MPCKMeans, COP-KMeans: of active-semi-supervised-clustering, on standardised rows, in an environment
of its own, which is made with venv and pip in the cache where it is missing; 10 s of computing at most

`number` prints what n_clusters="auto" finds. `large` clusters made rows once their metric is learned: time by
the clock, of all cores, and the most memory. `wrong` turns a share of the labels round and prints how many of
the pairs that the clusters break are such.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score, v_measure_score
from sklearn.preprocessing import StandardScaler

from labelled_pairs_data import CHOOSE, MIXED, SETS, load
from metricforest import HierarchyForest, MetricSpectralClustering
from record_tables import environment

PAIRS = (50, 100, 300, 1_000, 3_000)
MOST_ROWS = 400
OURS, CUT = "obeying", "graph cut"
PEERS = ("PCKMeans", "MPCKMeans", "COP-KMeans")
TREES = 150
PATIENCE = 10  # seconds of computing
HERE = Path(__file__).parent


class Question:
    """Rows of a set, how many clusters, and labelled pairs."""

    def __init__(self, name: str, n_pairs: int, draw: int):
        X, y = load(name)
        chosen = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
        self.X, self.y = X[chosen], np.unique(y[chosen], return_inverse=True)[1]
        self.k, self.draw = int(self.y.max()) + 1, draw
        rng = np.random.default_rng((draw, n_pairs))
        a, b = np.triu_indices(len(self.y), 1)
        drawn = np.sort(rng.choice(len(a), n_pairs, replace=False))
        self.pairs = np.column_stack([a[drawn], b[drawn]])
        self.labels = np.where(self.y[a[drawn]] == self.y[b[drawn]], 1, -1)

    @property
    def fits(self) -> bool:
        """Whether the pairs are few enough for the rows to be a question."""
        return 12 * len(self.pairs) <= len(self.y) * (len(self.y) - 1)

    @cached_property
    def scaled(self) -> np.ndarray:
        return StandardScaler().fit_transform(self.X)

    @cached_property
    def forest(self) -> HierarchyForest:
        metric = HierarchyForest(TREES, alpha=4, random_state=self.draw)
        return metric.fit(self.X, pairs=self.pairs, pair_labels=self.labels)

    def obeying(self) -> np.ndarray:
        model = MetricSpectralClustering(
            self.k, FrozenEstimator(self.forest), random_state=self.draw
        )
        return model.fit_predict(self.X, pairs=self.pairs, pair_labels=self.labels)

    def graph_cut(self) -> np.ndarray:
        frozen = FrozenEstimator(self.forest)
        model = MetricSpectralClustering(self.k, frozen, obey=False, random_state=self.draw)
        return model.fit_predict(self.X)

    def linkage_on_ours(self) -> np.ndarray:
        far = self.forest.pairwise_distances(self.X)
        far = (far + far.T) / 2
        return AgglomerativeClustering(self.k, metric="precomputed", linkage="average").fit_predict(
            far
        )

    def kmeans(self) -> np.ndarray:
        return KMeans(self.k, n_init=10, random_state=self.draw).fit_predict(self.scaled)

    def linkage(self) -> np.ndarray:
        return AgglomerativeClustering(self.k, linkage="average").fit_predict(self.scaled)


OWN: dict[str, Callable[[Question], np.ndarray]] = {
    OURS: Question.obeying,
    CUT: Question.graph_cut,
    "linkage on ours": Question.linkage_on_ours,
    "k-means": Question.kmeans,
    "average linkage": Question.linkage,
}
METHODS = (*OWN, *PEERS)


@lru_cache
def peers() -> subprocess.Popen:
    command = [
        environment("clusterers"),
        "-I",
        HERE / "peers" / "clusterers_peer.py",
        str(PATIENCE),
    ]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asked(method: str, question: Question) -> dict[str, Any]:
    """What a peer answers."""
    process = peers()
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(
            file,
            X=question.scaled,
            **{"pairs": question.pairs, "labels": question.labels},
            **{"k": question.k, "seed": question.draw},
        )
        file.flush()
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{method} {file.name}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())


def one(method: str, question: Question) -> dict[str, Any]:
    """Scores of a method."""
    if method in PEERS:
        answer = asked(method, question)
        if "failed" in answer:
            return answer
        found, seconds = np.array(answer["clusters"]), answer["seconds"]
    else:
        if method != "k-means" and method != "average linkage":
            question.forest  # noqa: B018  what the metric costs is not counted
        began = time.process_time()
        found = OWN[method](question)
        seconds = round(time.process_time() - began, 2)
    together = found[question.pairs[:, 0]] == found[question.pairs[:, 1]]
    return {
        "v": round(float(v_measure_score(question.y, found)), 4),
        "ari": round(float(adjusted_rand_score(question.y, found)), 4),
        "broken": int((together != (question.labels == 1)).sum()),
        "seconds": seconds,
    }


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(given: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    done = {(o["set"], o["pairs"], o["draw"], o["method"]) for o in lines(given.results)}
    for draw in range(given.draws):
        for name in given.sets:
            for n_pairs in given.pairs:
                units = [(name, n_pairs, draw, method) for method in given.methods]
                left = [unit for unit in units if unit not in done]
                question = Question(name, n_pairs, draw) if left else None
                if question is None or not question.fits:
                    continue
                for unit in left:
                    line = dict(zip(("set", "pairs", "draw", "method"), unit, strict=True))
                    line |= one(unit[3], question)
                    with given.results.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")


def report(given: argparse.Namespace) -> None:
    cells: dict[tuple[str, int], dict[str, dict[int, Any]]] = defaultdict(lambda: defaultdict(dict))
    for o in lines(given.results):
        cells[o["set"], o["pairs"]][o["method"]][o["draw"]] = (
            (o["v"], o["ari"]) if "v" in o else None
        )
    methods = [m for m in METHODS if any(m in cell for cell in cells.values())]
    found = {}
    for key, cell in cells.items():  # draws that every method has done
        done = set.intersection(*(set(cell[m]) for m in methods))
        found[key] = {m: [cell[m][d] for d in sorted(done) if cell[m][d]] for m in methods}
    print("| data | pairs | " + " | ".join(methods) + " |")
    print("|---|---|" + "---|" * len(methods))
    won: dict[str, list[bool]] = defaultdict(list)
    draws = set()
    for name, n_pairs in sorted(found, key=lambda cell: (list(SETS).index(cell[0]), cell[1])):
        mean = {m: np.mean(each, axis=0) for m, each in found[name, n_pairs].items() if each}
        if OURS not in mean:
            continue
        cell = found[name, n_pairs]
        draws.add(len(cell[OURS]))
        best = np.max([mean[m] for m in mean if m != OURS], axis=0)
        kinds = ["all", "chosen on" if name in CHOOSE else "confirmed on"]
        for kind in kinds + ["mixed"] * (name in MIXED):
            for i, score in enumerate(("V-measure", "ARI")):
                won[f"{kind}, {score}"].append(bool(mean[OURS][i] >= best[i] - 0.01))
        top = max(m[0] for m in mean.values()) - 0.01
        cells = []
        for m in methods:
            if m not in mean:
                cells.append("")
                continue
            bold = "**" if mean[m][0] >= top else ""
            cells.append(f"{bold}{mean[m][0]:.2f}{bold}")
        print(f"| {name} | {n_pairs:,} | " + " | ".join(cells) + " |")
    print(f"\nV-measure, means over {min(draws)} to {max(draws)} draws.")
    for kind, each in won.items():
        print(
            f"obeying is best or within .01 in {sum(each)} of {len(each)} cells "
            f"({100 * np.mean(each):.0f} %): {kind}"
        )
    broken = sum(o.get("broken", 0) for o in lines(given.results) if o["method"] == OURS)
    print(f"{broken} labelled pairs broken")


def number(given: argparse.Namespace) -> None:
    """What n_clusters="auto" finds, set by set."""
    warnings.simplefilter("ignore")
    near = total = 0
    print("| data | true | found | next best | by eigenvalues alone |\n|---|---|---|---|---|")
    for name in given.sets:
        for draw in range(given.draws):
            question = Question(name, given.pairs, draw)
            frozen = FrozenEstimator(question.forest)
            model = MetricSpectralClustering("auto", frozen, random_state=draw)
            model.fit(question.X, pairs=question.pairs, pair_labels=question.labels)
            plain = MetricSpectralClustering("auto", frozen, obey=False, random_state=draw)
            by_graph = plain.fit(question.X).n_clusters_
            total += 1
            near += abs(model.n_clusters_ - question.k) <= 1
            cells = (name, question.k, model.n_clusters_, model.runner_up_, by_graph)
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    print(f"\n{given.pairs} pairs: within 1 of the true number in {near} of {total}")


def wrong(given: argparse.Namespace) -> None:
    """How many of the broken pairs are wrong ones."""
    warnings.simplefilter("ignore")
    print(
        "| data | wrong labels | broken | of them wrong | share | V-measure |\n|---|---|---|---|---|---|"
    )
    for name in given.sets:
        counts, scores = np.zeros(3, int), []
        for draw in range(given.draws):
            question = Question(name, given.pairs, draw)
            turned = np.random.default_rng((draw, 1)).random(given.pairs) < given.share
            question.labels = np.where(turned, -question.labels, question.labels)
            found = question.obeying()
            together = found[question.pairs[:, 0]] == found[question.pairs[:, 1]]
            broken = together != (question.labels == 1)
            counts += [turned.sum(), broken.sum(), (broken & turned).sum()]
            scores.append(v_measure_score(question.y, found))
        share = counts[2] / max(counts[1], 1)
        cells = (name, *counts, f"{100 * share:.0f} %", f"{np.mean(scores):.2f}")
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def large(given: argparse.Namespace) -> None:
    """Time and memory of clustering made rows whose metric is learned."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, given.rows)
    X = 1.5 * rng.normal(size=(10, 16))[y] + rng.normal(size=(given.rows, 16))
    pairs = rng.integers(0, given.rows, (given.pairs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    labels = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    metric = HierarchyForest(given.trees, n_jobs=2, random_state=0)
    metric.fit(X, pairs=pairs, pair_labels=labels)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    small = MetricSpectralClustering(10, FrozenEstimator(metric), random_state=0)
    small.fit(X[:300])  # compiles
    wall, cpu = time.perf_counter(), time.process_time()
    model = MetricSpectralClustering(10, FrozenEstimator(metric), random_state=0)
    found = model.fit_predict(X, pairs=pairs, pair_labels=labels)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{given.rows:,} rows, {len(pairs):,} pairs, {given.trees} trees: {wall:.0f} s by the clock, "
        f"{cpu:.0f} s of computing; at most {peak:,.0f} MB, {before:,.0f} MB before; V-measure "
        f"{v_measure_score(y, found):.2f}, {len(model.broken_pairs_)} pairs broken"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.set_defaults(does=run)
    running.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    running.add_argument("--pairs", nargs="+", type=int, default=PAIRS)
    running.add_argument("--draws", type=int, default=5)
    running.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    counting = commands.add_parser("number")
    counting.set_defaults(does=number)
    counting.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    counting.add_argument("--pairs", type=int, default=300)
    counting.add_argument("--draws", type=int, default=1)
    growing = commands.add_parser("large")
    growing.set_defaults(does=large)
    growing.add_argument("--rows", type=int, default=20_000)
    growing.add_argument("--pairs", type=int, default=10_000)
    growing.add_argument("--trees", type=int, default=100)
    erring = commands.add_parser("wrong")
    erring.set_defaults(does=wrong)
    erring.add_argument("--sets", nargs="+", default=["wine", "digits", "segmentation"])
    erring.add_argument("--pairs", type=int, default=1_000)
    erring.add_argument("--draws", type=int, default=3)
    erring.add_argument("--share", type=float, default=0.05)
    reporting = commands.add_parser("report")
    reporting.set_defaults(does=report)
    for command in (running, reporting):
        command.add_argument("results", type=Path)
    given = parser.parse_args()
    given.does(given)


if __name__ == "__main__":
    main()
