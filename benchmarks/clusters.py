"""What V-measure depends on in a column of Table 3: the graph, the cut, the distance, the forest, the pairs.

One thing is changed at a time; a line has the V-measure of every graph and the best, and of that one
the share of rows that are in the cluster of their class. Besides, how pure neighbourhoods are: the
V-measure of the vote of a row's five nearest, with their true classes. Means over the first draws of
labelled pairs of the experiment `clustering`; with two and more of them also what the change gains on
the forest as it is, draw by draw, with its standard error. For the columns where HFD stays below the
paper. The graphs are those of the experiment.

With `--results` what the forest as it is has reached is read from the stored results of these draws, and
what each change gains is added to `tried.jsonl` there, for the report to tell.

    python benchmarks/clusters.py [--data usps] [--constraints 10000] [--draws 1] [--jobs 2]
                                  [--only "as it is" "hard distance" ...] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import confusion_matrix, v_measure_score

from metricforest.estimators import graph_cut
from metricforest.experiments import clustering, protocol
from metricforest.experiments.report.clustering import TRIED
from metricforest.experiments.runner import settings_of
from metricforest.experiments.same_code import SameCode
from metricforest.experiments.sources import code, commit
from metricforest.experiments.stored import read_lines
from metricforest.storage.outputs import append_line

SETTINGS = settings_of(clustering.NAME, False)
STARTS = SETTINGS["kmeans_starts"]
AS_IT_IS = "as it is"
Cut = Callable[[sp.csr_matrix, int, np.random.RandomState], np.ndarray]


def plain_cut(graph: sp.csr_matrix, n: int, rng: np.random.RandomState) -> np.ndarray:
    return graph_cut.cut(graph, n, STARTS, rng)


def cut_unit_rows(graph: sp.csr_matrix, n: int, rng: np.random.RandomState) -> np.ndarray:
    """k-means of the eigenvectors' rows brought to length 1."""
    rows = graph_cut.embed(graph, n, rng)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return KMeans(n, n_init=STARTS, random_state=rng).fit_predict(rows)


class Judgement(NamedTuple):
    """What one way of clustering one draw of pairs gives."""

    pure: float  # share of the five nearest that are of the same class
    vote: float  # V-measure of their votes
    graphs: list[float]  # V-measure of every graph
    best: float
    own: float  # share of rows in the cluster of their class, of the best graph


def half_and_half(y: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """As many must-links as cannot-links, each drawn from all there are."""
    pairs: list[np.ndarray] = []
    for same in (True, False):
        found = clustering.random_pairs(len(y), min(40 * count, len(y) * (len(y) - 1) // 2), rng)
        fits = (y[found[:, 0]] == y[found[:, 1]]) == same
        pairs.append(found[fits][: count // 2])
    return np.concatenate(pairs)


def in_own_cluster(y: np.ndarray, labels: np.ndarray) -> float:
    """Share of rows in the cluster of their class, every class having one of its own."""
    table = confusion_matrix(y, labels)
    return float(table[linear_sum_assignment(-table)].sum() / len(y))


def graphs_of(dataset: str) -> tuple[int, ...]:
    return SETTINGS["neighbours_usps" if dataset == "usps" else "neighbours"]


def stored_best(folder: Path, dataset: str, constraints: int, draws: int) -> list[float]:
    """V-measure of the forest as it is, draw by draw, from the results of `metricforest reproduce`."""
    wanted = {"experiment": clustering.NAME, "dataset": dataset, "metric": protocol.HFD}
    wanted |= {"constraints": constraints, "sampling": "per class"}
    same_code = SameCode(folder)
    found = {
        line["seed"]: line["scores"]["best"]
        for line in read_lines(folder)
        if all(line.get(key) == value for key, value in wanted.items())
        and same_code.is_present(line)
    }
    missing = [seed for seed in range(draws) if seed not in found]
    if missing:
        raise SystemExit(f"{folder} lacks draws {missing} of the present code: run them first")
    return [found[seed] for seed in range(draws)]


class Draw:
    """The forests of one draw of labelled pairs, and how they cluster."""

    def __init__(self, dataset: str, constraints: int, seed: int, jobs: int):
        self.data = protocol.load(dataset, "fine")
        self.constraints, self.seed, self.jobs = constraints, seed, jobs
        self.unit = protocol.Unit(clustering.NAME, dataset, protocol.HFD, seed)
        self.learn = lru_cache(maxsize=1)(self._learn)

    def _learn(self, how: str = "per class", times: float = 1, **parameters: Any) -> Any:
        y, count = self.data.y, round(times * self.constraints)
        rng = self.unit.rng(self.constraints)
        if how == "per class":
            pairs, _ = protocol.pairs_of_labels(y, count, rng)
        elif how == "half":
            pairs = half_and_half(y, count, rng)
        else:
            pairs = clustering.random_pairs(len(y), count, rng)
        same = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
        name = self.unit.dataset
        metric = protocol.make(protocol.HFD, name, SETTINGS, self.seed, self.jobs, **parameters)
        return protocol.learn(metric, protocol.HFD, self.data.X, y, pairs, same)

    def judge(self, metric: Any, power: float, cut: Cut, **search: Any) -> Judgement:
        y, n_classes = self.data.y, len(self.data.class_names)
        search = {"n_candidates": SETTINGS["candidates"]} | search
        counts = graphs_of(self.unit.dataset)
        distance, index = metric.kneighbors(n_neighbors=max(counts), **search)
        near = y[index[:, :5]]
        found = []
        for k in counts:
            alike = graph_cut.similarity(distance[:, :k], None) ** power
            graph = graph_cut.joined(graph_cut.neighbour_graph(alike, index[:, :k]), metric, None)
            labels = cut(graph, n_classes, np.random.RandomState(self.seed))
            found.append((float(v_measure_score(y, labels)), in_own_cluster(y, labels)))
        best, own = max(found)
        return Judgement(
            float(np.mean(near == y[:, np.newaxis])),
            float(v_measure_score(y, protocol.vote(near))),
            [v for v, _ in found],
            best,
            own,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default="usps")
    parser.add_argument("--constraints", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=1, help="draws of labelled pairs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=None, help="changes to try")
    parser.add_argument("--results", type=Path, help="folder of `metricforest reproduce`")
    options = parser.parse_args()
    counts = graphs_of(options.data)
    draws = [
        Draw(options.data, options.constraints, seed, options.jobs) for seed in range(options.draws)
    ]
    tried: list[str] = []
    plain: list[float] = []  # the best V-measure of every draw as it is
    if options.results:
        plain = stored_best(options.results, options.data, options.constraints, options.draws)

    def judge(
        change: str,
        power: float = 1.0,
        cut: Cut = plain_cut,
        alpha: float = 0.5,
        search: dict[str, Any] | None = None,
        **learned: Any,
    ) -> None:
        tried.append(change)
        if options.only is not None and change not in options.only:
            return
        found = []
        for draw in draws:
            metric = draw.learn(**learned).set_params(alpha=alpha)
            found.append(draw.judge(metric, power, cut, **(search or {})))
        best = [one.best for one in found]
        if change == AS_IT_IS and not plain:
            plain.extend(best)
        gain = ""
        if len(best) > 1 and plain:
            more = np.subtract(best, plain)
            gain = f"{more.mean():+.3f} ± {more.std(ddof=1) / len(more) ** 0.5:.3f}"
            if options.results and change != AS_IT_IS:
                line = {
                    **{"dataset": options.data, "constraints": options.constraints},
                    **{"change": change, "gains": more.round(5).tolist()},
                    **{"code": code(protocol.HFD, clustering.NAME), "commit": commit()},
                    "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
                }
                append_line(options.results / TRIED, json.dumps(line))
        graphs = np.mean([one.graphs for one in found], axis=0)
        cells = [
            *(np.mean([one.pure for one in found]), np.mean([one.vote for one in found])),
            *graphs,
            *(np.mean(best), np.mean([one.own for one in found])),
        ]
        print(f"| {change} | {' | '.join(f'{c:.3f}' for c in cells)} | {gain} |", flush=True)

    heads = " | ".join(f"{k} neighbours" for k in counts)
    print(
        f"| change | five nearest of the same class | their vote | {heads} | best | own cluster "
        "| gains |"
    )
    print("|---" * (len(counts) + 6) + "|")
    judge(AS_IT_IS)
    judge("exact search", search={"n_candidates": None})
    judge("hard distance", search={"hard": True})
    judge("similarity (1 - D)^16", power=16.0)
    judge("eigenvectors' rows to length 1", cut=cut_unit_rows)
    for alpha in (0.1, 2.0):
        judge(f"alpha {alpha}", alpha=alpha)
    judge("min_node_size 20", min_node_size=20)
    judge("cannot_link_fraction 1", cannot_link_fraction=1.0)
    for weight in (0.1, 0.001, 0.0003):
        judge(f"reg_lambda {weight}", reg_lambda=weight)
    judge("C 0.1", C=0.1)
    judge("any two rows as pairs", how="uniform")
    judge("half of the pairs must-links", how="half")
    judge("half must-links, reg_lambda 0.0003", how="half", reg_lambda=0.0003)
    judge("half must-links, solver subgradient", how="half", solver="subgradient")
    judge("half as many pairs again", times=1.5)
    judge("twice as many pairs", times=2)
    judge("implied pairs too", implied_pairs=True)
    judge("all features", max_features=1.0)
    judge("a tenth of the features", max_features=0.1)
    judge("solver subgradient", solver="subgradient")  # the paper's Algorithm 1
    if unknown := set(options.only or ()) - set(tried):
        parser.error(f"no such change: {sorted(unknown)}; there are {tried}")


if __name__ == "__main__":
    main()
