"""Images retrieved from CIFAR by test images (paper 6.5, Figure 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import protocol
from .protocol import Answer, Setting, Settings, Unit

NAME = "retrieval"
TITLE = "Semantic image retrieval (paper section 6.5, Figure 3)"
SCORES = {
    "precision": ("retrieved",),
    "error": ("retrieved",),
}  # their axes: settings with so many values, None where any number is
SETTINGS = {
    **protocol.FOREST,
    "datasets": Setting(
        ("cifar10", "cifar100-coarse", "cifar100-fine"), "the paper's three label sets", ()
    ),
    "constraints": Setting(600_000, "the paper's count; a third are must-links"),
    "min_node_size": Setting(30, "the paper's, for retrieval"),
    "candidates": Setting(5, "the paper's k_O on CIFAR"),
    "retrieved": Setting(tuple(range(5, 51, 5)), "the paper's: 5 through 50"),
    "scaling": Setting(
        ("as they are", "unit"),
        "the paper normalises to unit variance and reduces to 300 components without saying in which "
        "order. 'As they are': components keep their own variances, their mean brought to one. 'Unit': "
        "every component to unit variance, which whitens the data and does harm, as the Euclidean lines "
        "show. Every metric runs with the former, those in both_scalings with either",
    ),
    "both_scalings": Setting(
        ("Euclidean", "DCA", "HFD"),
        "what a reader wants to compare; HFD on CIFAR-10 only, for time",
    ),
    "lmnn_rows": Setting(
        10_000, "rows that LMNN and GB-LMNN learn from (all 50,000 are searched): time"
    ),
    "gblmnn_components": Setting(
        30, "dimensions of GB-LMNN's map: the cost of a tree grows with them"
    ),
    "gblmnn_trees": Setting(100, "fewer than the paper's, for time"),
    "rfd_queries": Setting(
        200, "test images that RFD answers: it measures every pair (times are stored)"
    ),
}
SKIPPED = {"BoostMetric": "not run: the paper has no figure for it here either"}


def units(settings: Settings) -> list[Unit]:
    found = []
    for dataset in settings["datasets"]:
        for metric in protocol.METRICS:
            if metric in SKIPPED:
                continue
            for scaling in settings["scaling"]:
                both = metric in settings["both_scalings"] and (
                    metric != protocol.HFD or dataset == "cifar10"
                )
                if scaling == settings["scaling"][0] or both:
                    gammas = settings["itml_gammas"] if metric == "ITML" else (None,)
                    for gamma in gammas:
                        more = (("scaling", scaling),) + ((("gamma", gamma),) if gamma else ())
                        found.append(Unit(NAME, dataset, metric, 0, more, alone=True))
    return found


def answer(unit: Unit, settings: Settings, n_jobs: int) -> Answer:
    name, _, labels = unit.dataset.partition("-")
    data = protocol.load(name, labels or "fine")
    X_test, y_test = data.X_test, data.y_test
    assert X_test is not None
    assert y_test is not None
    mean = data.X.mean(axis=0, dtype=np.float64)
    scale = data.X.std(axis=0, dtype=np.float64)
    if unit["scaling"] != "unit":
        scale = np.sqrt(np.mean(scale**2))
    X = ((data.X - mean) / scale).astype(np.float32)
    queries, truth = ((X_test - mean) / scale).astype(np.float32), y_test
    more: dict[str, Any] = {"standardize": False}
    notes = []
    rows = np.arange(len(X))
    if unit.metric == protocol.HFD:
        more["min_node_size"] = settings["min_node_size"]
    if unit.metric == "ITML":
        more["gamma"] = unit["gamma"]
    if unit.metric in ("LMNN", "GB-LMNN"):
        rows = unit.rng("rows").permutation(len(X))[: settings["lmnn_rows"]]
        notes.append(f"learned from {len(rows):,} of {len(X):,} rows")
    if unit.metric == "GB-LMNN":
        more["n_components"] = settings["gblmnn_components"]
        notes.append(f"{more['n_components']} dimensions, {settings['gblmnn_trees']} trees")
    if unit.metric == "RFD":
        few = unit.rng("queries").permutation(len(queries))[: settings["rfd_queries"]]
        queries, truth = queries[few], truth[few]
        notes.append(f"{len(few):,} of {len(y_test):,} queries")
    pairs, same = protocol.pairs_of_labels(data.y, settings["constraints"], unit.rng("pairs"))
    metric = protocol.make(unit.metric, unit.dataset, settings, unit.seed, n_jobs, **more)
    seconds: dict[str, float] = {}
    with protocol.stopwatch(seconds, "fit"):
        protocol.learn(metric, unit.metric, X[rows], data.y[rows], pairs, same)
        if len(rows) < len(X):
            metric = metric._over(metric._check_rows(X))
    with protocol.stopwatch(seconds, "search"):
        _, index = protocol.search(
            metric, unit.metric, queries, max(settings["retrieved"]), settings["candidates"]
        )
    raw = {"neighbour_labels": data.y[index].astype(np.int16), "truth": truth.astype(np.int16)}
    return Answer(raw, seconds, tuple(notes))


def score(unit: Unit, raw: dict[str, np.ndarray], settings: Settings) -> dict[str, Any]:
    """Share of the images retrieved that are of the query's class, and its standard error."""
    right = raw["neighbour_labels"] == raw["truth"][:, None]
    shares = [right[:, :k].mean(axis=1) for k in settings["retrieved"]]
    return {
        "precision": [float(share.mean()) for share in shares],
        "error": [float(share.std() / np.sqrt(len(share))) for share in shares],
    }
