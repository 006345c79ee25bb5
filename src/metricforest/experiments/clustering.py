"""Spectral clustering in metrics learned from few random pairs (paper 6.6, Table 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import v_measure_score

from ..estimators import graph_cut
from . import paper, protocol
from .protocol import Answer, Setting, Settings, Unit

NAME = "clustering"
TITLE = "Semi-supervised clustering (paper section 6.6, Table 3)"
SCORES = {
    "best": (),
    "fixed": (),
    "tried": (None, None),
}  # their axes: settings with so many values, None where any number is
METRICS = ("Euclidean", "DCA", "ITML", "RFD", protocol.HFD)
SETTINGS = {
    **protocol.FOREST,
    "datasets": Setting(
        ("sonar", "balance", "segmentation", "usps"), "the paper's", ("sonar", "balance")
    ),
    "draws": Setting(10, "draws of constraints, for the spread; the paper seems to have one", 2),
    "sampling": Setting(
        ("per class", "uniform"),
        "the paper only says 'sampled'. 'per class': as many pairs for every class, a third of them "
        "must-links, as its author's sampler does and as in the other experiments; 'uniform': any two "
        "rows, so that small classes are hardly seen. Segmentation and USPS have classes of one size: "
        "uniform pairs for HFD on segmentation only",
    ),
    "neighbours": Setting(
        (5, 10, 15, 20, 25, 30, 35, 40, 45, 50),
        "graphs tried, the best being reported, as in the paper ('ranging from 5 to 50')",
        (5, 10, 20, 50),
    ),
    "neighbours_usps": Setting((5, 10, 20, 30, 50), "fewer graphs: USPS is large"),
    "sigmas": Setting((0.1, 1.0, 10.0, 100.0, 1000.0), "the paper's, the best being reported"),
    "sigmas_usps": Setting(
        (10.0, 100.0),
        "distances are about 10 here: below 10 every similarity vanishes, 1,000 is as flat as 100",
    ),
    "rfd_rows_usps": Setting(
        3_000,
        "rows of USPS that are clustered under RFD, which measures every pair: all 11,000 would take "
        "thirteen times as long. With fewer rows clusters are harder to tell, which is to RFD's "
        "disadvantage",
    ),
    "rfd_draws": Setting(
        {"segmentation": 3, "usps": 3},
        "fewer draws of constraints for RFD on the larger sets: time",
    ),
    "fixed": Setting(
        20,
        "neighbours of the graph for the second figure, one for all data sets; similarities are 1 - D "
        "for RFD and HFD",
    ),
    "linear_fixed_sigma": Setting(
        1000.0,
        "width of the Gaussian of the other metrics in that graph: so wide that all neighbours count "
        "alike. A width of the size of distances makes single outliers into clusters",
    ),
    "symmetry": Setting("either", "an edge where either row has the other as neighbour; unstated"),
    "kmeans_starts": Setting(10, "scikit-learn's former default; unstated in the paper"),
    "candidates": Setting(10, "the paper's k_O"),
    "itml_gammas": Setting(
        (1.0,),
        "one value: the best of five sigmas, ten graphs and five gammas by the answer would be the "
        "best of 250",
    ),
}


def units(settings: Settings) -> list[Unit]:
    return [
        Unit(
            NAME,
            dataset,
            metric,
            seed,
            (("constraints", count), ("sampling", sampling)),
            alone=dataset == "usps",
        )
        for sampling in settings["sampling"]
        for dataset in settings["datasets"]
        for seed in range(settings["draws"])
        for count in paper.CONSTRAINTS[dataset]
        for metric in METRICS
        # Euclidean learns nothing: one unit per draw stands for all counts
        if metric != "Euclidean"
        or (count, sampling) == (paper.CONSTRAINTS[dataset][0], settings["sampling"][0])
        if sampling == "per class" or drawn_uniformly(dataset, metric)
        if metric != "RFD" or seed < settings["rfd_draws"].get(dataset, settings["draws"])
    ]


def drawn_uniformly(dataset: str, metric: str) -> bool:
    return dataset in ("sonar", "balance") or (dataset, metric) == ("segmentation", protocol.HFD)


def random_pairs(n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct unordered pairs of different rows, all equally likely."""
    place = rng.choice(n * (n - 1) // 2, count, replace=False)
    # Pairs (a, b), a > b, stand in the order (1,0) (2,0) (2,1) (3,0) ...
    a = ((1 + np.sqrt(1 + 8 * place.astype(float))) / 2).astype(np.int64)
    a -= a * (a - 1) // 2 > place
    a += a * (a + 1) // 2 <= place
    return np.column_stack([a, place - a * (a - 1) // 2])


def answer(unit: Unit, settings: Settings, n_jobs: int) -> Answer:
    data = protocol.load(unit.dataset, "fine")
    count, rng = unit["constraints"], unit.rng(unit["constraints"])
    if unit["sampling"] == "per class":
        pairs, same = protocol.pairs_of_labels(data.y, count, rng)
    else:
        pairs = random_pairs(len(data.y), count, rng)
        same = np.where(data.y[pairs[:, 0]] == data.y[pairs[:, 1]], 1, -1)
    usps = unit.dataset == "usps"
    counts = settings["neighbours_usps" if usps else "neighbours"]
    metric = protocol.make(unit.metric, unit.dataset, settings, unit.seed, n_jobs)
    seconds: dict[str, float] = {}
    with protocol.stopwatch(seconds, "fit"):
        protocol.learn(metric, unit.metric, data.X, data.y, pairs, same)
    truth, notes = data.y, []
    if usps and unit.metric == "RFD":
        few = np.sort(unit.rng("rows").permutation(len(truth))[: settings["rfd_rows_usps"]])
        metric, truth = metric._over(metric._rows[few]), truth[few]
        notes.append(f"{len(few):,} of {len(data.y):,} rows clustered")
    with protocol.stopwatch(seconds, "search"):
        distance, index = protocol.search(
            metric, unit.metric, None, max(counts), settings["candidates"]
        )
    sigmas = (None,) if metric.bounded else settings["sigmas_usps" if usps else "sigmas"]

    def clusters(k: int, sigma: float | None) -> np.ndarray:
        alike = graph_cut.similarity(distance[:, :k], sigma)
        graph = graph_cut.joined(graph_cut.neighbour_graph(alike, index[:, :k]), metric, sigma)
        rng = np.random.RandomState(unit.seed)
        return graph_cut.cut(graph, len(data.class_names), settings["kmeans_starts"], rng)

    with protocol.stopwatch(seconds, "cluster"):
        tried = [[clusters(k, sigma) for k in counts] for sigma in sigmas]
        fixed = clusters(
            settings["fixed"], None if metric.bounded else settings["linear_fixed_sigma"]
        )
    raw = {
        "tried": np.array(tried, np.int8),  # [sigma, neighbours, row]
        "fixed": fixed.astype(np.int8),
        "truth": truth.astype(np.int8),
    }
    return Answer(raw, seconds, tuple(notes))


def score(unit: Unit, raw: dict[str, np.ndarray], settings: Settings) -> dict[str, Any]:
    """V-measure: the best of all graphs tried, of each, and of the fixed one."""
    truth = raw["truth"]
    tried = [[float(v_measure_score(truth, labels)) for labels in row] for row in raw["tried"]]
    return {
        "best": max(max(row) for row in tried),
        "fixed": float(v_measure_score(truth, raw["fixed"])),
        "tried": tried,
    }
