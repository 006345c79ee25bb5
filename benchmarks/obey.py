"""Clusters from labelled pairs beside what people use instead: V-measure and adjusted Rand index.

    python benchmarks/obey.py run RESULTS.jsonl [--sets penguins ...] [--pairs 50 100 ...] [--draws 5]
        [--methods obeying PCKMeans ...]
    python benchmarks/obey.py report RESULTS.jsonl

Sets of `labelled_pairs_data`, at most 400 rows of each; pairs are any two rows, drawn at random. `run` adds
a JSON line for each clustering, draw by draw, and leaves out what is there. `report` prints means over the
draws, and in how many cells ours is best or within .01 of the best.

obeying          MetricSpectralClustering: 150 trees, alpha=4, all else by default
graph cut        the same forest with obey=False: the paper's clustering
linkage on ours  average linkage on that forest's distances
k-means, average linkage: on standardised rows, without the pairs
PCKMeans, MPCKMeans, COP-KMeans: of active-semi-supervised-clustering, on standardised rows, in an environment
of its own, which is made with venv and pip in the cache where it is missing; 10 s of computing at most
"""

from __future__ import annotations

import argparse
import json
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
    found: dict[tuple[str, int], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for o in lines(given.results):
        cell = found[o["set"], o["pairs"]]
        cell[o["method"]] += [(o["v"], o["ari"])] if "v" in o else []
    methods = [m for m in METHODS if any(m in cell for cell in found.values())]
    print("| data | pairs | " + " | ".join(methods) + " |")
    print("|---|---|" + "---|" * len(methods))
    won: dict[str, list[bool]] = defaultdict(list)
    draws = set()
    for name, n_pairs in sorted(found, key=lambda cell: (list(SETS).index(cell[0]), cell[1])):
        cell = found[name, n_pairs]
        mean = {m: np.mean(cell[m], axis=0) for m in methods if cell[m]}
        if OURS not in mean:
            continue
        draws.add(len(cell[OURS]))
        best = np.max([mean[m] for m in mean if m != OURS], axis=0)
        kinds = ["all", "chosen on" if name in CHOOSE else "confirmed on"]
        for kind in kinds + ["mixed"] * (name in MIXED):
            for i, score in enumerate(("V-measure", "ARI")):
                won[f"{kind}, {score}"].append(bool(mean[OURS][i] >= best[i] - 0.01))
        top = max(m[0] for m in mean.values()) - 0.01
        cells = [
            f"{'**' * (mean[m][0] >= top)}{mean[m][0]:.2f}{'**' * (mean[m][0] >= top)} / {mean[m][1]:.2f}"
            if m in mean
            else ""
            for m in methods
        ]
        print(f"| {name} | {n_pairs:,} | " + " | ".join(cells) + " |")
    print(f"\nV-measure / adjusted Rand index, means over {min(draws)} to {max(draws)} draws.")
    for kind, each in won.items():
        print(
            f"obeying is best or within .01 in {sum(each)} of {len(each)} cells "
            f"({100 * np.mean(each):.0f} %): {kind}"
        )
    broken = sum(o.get("broken", 0) for o in lines(given.results) if o["method"] == OURS)
    print(f"{broken} labelled pairs broken")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.set_defaults(does=run)
    running.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    running.add_argument("--pairs", nargs="+", type=int, default=PAIRS)
    running.add_argument("--draws", type=int, default=5)
    running.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    reporting = commands.add_parser("report")
    reporting.set_defaults(does=report)
    for command in (running, reporting):
        command.add_argument("results", type=Path)
    given = parser.parse_args()
    given.does(given)


if __name__ == "__main__":
    main()
