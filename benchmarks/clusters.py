"""What V-measure depends on in a column of Table 3: the graph, the cut, the distance, the forest, the pairs.

One draw of judged pairs, one thing changed at a time; a line has the V-measure of every graph and the
best, and of that one the share of rows that are in the cluster of their class. Besides, how pure
neighbourhoods are: the V-measure of the vote of a row's five nearest, with their true classes. For the
columns where HFD stays below the paper.

    python benchmarks/clusters.py [--data usps] [--constraints 10000] [--seed 0] [--jobs 2]
                                  [--only "as it is" "hard distance" ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import confusion_matrix, v_measure_score

from metricforest import cluster
from metricforest.experiments import clustering, protocol
from metricforest.experiments.runner import settings_of

NEIGHBOURS = (5, 10, 15, 20, 30, 50)
STARTS = settings_of("clustering", False)["kmeans_starts"]
Cut = Callable[[sp.csr_matrix, int, np.random.RandomState], np.ndarray]


def plain_cut(graph: sp.csr_matrix, n: int, rng: np.random.RandomState) -> np.ndarray:
    return cluster.cut(graph, n, STARTS, rng)


def cut_unit_rows(graph: sp.csr_matrix, n: int, rng: np.random.RandomState) -> np.ndarray:
    """k-means of the eigenvectors' rows brought to length 1."""
    rows = cluster.embed(graph, n, rng)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return KMeans(n, n_init=STARTS, random_state=rng).fit_predict(rows)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default="usps")
    parser.add_argument("--constraints", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=None, help="changes to try")
    options = parser.parse_args()
    settings = settings_of("clustering", False)
    data = protocol.load(options.data, "fine")
    n_classes = len(data.class_names)

    @cache
    def learn(how: str = "per class", **parameters: Any) -> Any:
        rng = np.random.default_rng([options.seed, options.constraints])
        if how == "per class":
            pairs, _same = protocol.pairs_of_labels(data.y, options.constraints, rng)
        elif how == "half":
            pairs = half_and_half(data.y, options.constraints, rng)
        else:
            pairs = clustering.random_pairs(len(data.y), options.constraints, rng)
        same = np.where(data.y[pairs[:, 0]] == data.y[pairs[:, 1]], 1, -1)
        metric = protocol.make(
            protocol.HFD, options.data, settings, options.seed, options.jobs, **parameters
        )
        return protocol.learn(metric, protocol.HFD, data.X, data.y, pairs, same)

    tried = []

    def judge(
        change: str,
        make: Callable[[], Any],
        power: float = 1.0,
        cut: Cut = plain_cut,
        **search: Any,
    ) -> None:
        tried.append(change)
        if options.only is not None and change not in options.only:
            return
        metric = make()
        search = {"n_candidates": settings["candidates"]} | search
        distance, index = metric.kneighbors(n_neighbors=max(NEIGHBOURS), **search)
        near = data.y[index[:, :5]]
        votes = [np.bincount(row, minlength=n_classes).argmax() for row in near]
        found = []
        for k in NEIGHBOURS:
            alike = cluster.similarity(distance[:, :k], None) ** power
            graph = cluster.joined(cluster.neighbour_graph(alike, index[:, :k]), metric, None)
            labels = cut(graph, n_classes, np.random.RandomState(options.seed))
            found.append((float(v_measure_score(data.y, labels)), in_own_cluster(data.y, labels)))
        pure = np.mean(near == data.y[:, np.newaxis])
        cells = " | ".join(f"{v:.3f}" for v, _ in found)
        best, share = max(found)
        print(
            f"| {change} | {pure:.3f} | {v_measure_score(data.y, votes):.3f} | {cells} | {best:.3f} "
            f"| {share:.3f} |",
            flush=True,
        )

    heads = " | ".join(f"{k} neighbours" for k in NEIGHBOURS)
    print(
        f"| change | five nearest of the same class | their vote | {heads} | best | own cluster |"
    )
    print("|---" * (len(NEIGHBOURS) + 5) + "|")
    judge("as it is", learn)
    judge("exact search", learn, n_candidates=None)
    judge("hard distance", learn, hard=True)
    judge("similarity (1 - D)^16", learn, power=16.0)
    judge("eigenvectors' rows to length 1", learn, cut=cut_unit_rows)
    for alpha in (0.1, 2.0):  # the last to use the forest that is shared
        judge(f"alpha {alpha}", lambda alpha=alpha: learn().set_params(alpha=alpha))
    judge("min_node_size 20", lambda: learn(min_node_size=20))
    judge("cannot_link_fraction 1", lambda: learn(cannot_link_fraction=1.0))
    for weight in (0.1, 0.001, 0.0003):
        judge(f"reg_lambda {weight}", lambda weight=weight: learn(reg_lambda=weight))
    judge("C 0.1", lambda: learn(C=0.1))
    judge("any two rows as pairs", lambda: learn("uniform"))
    judge("half of the pairs must-links", lambda: learn("half"))
    judge("half must-links, reg_lambda 0.0003", lambda: learn("half", reg_lambda=0.0003))
    judge("half must-links, solver subgradient", lambda: learn("half", solver="subgradient"))
    judge("implied pairs too", lambda: learn(implied_pairs=True))
    judge("all features", lambda: learn(max_features=1.0))
    judge("a tenth of the features", lambda: learn(max_features=0.1))
    judge("solver subgradient", lambda: learn(solver="subgradient"))  # the paper's Algorithm 1
    if unknown := set(options.only or ()) - set(tried):
        parser.error(f"no such change: {sorted(unknown)}; there are {tried}")


if __name__ == "__main__":
    main()
