"""Five nearest neighbours vote under each of the eight metrics (paper 6.4, Figure 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from . import protocol
from .protocol import Answer, Setting, Settings, Unit

NAME = "classification"
TITLE = "Nearest-neighbour classification (paper section 6.4, Figure 1)"
SCORES = {"accuracy": (None,)}  # their axes: settings with so many values, None where any number is
SETTINGS = {
    **protocol.FOREST,
    **protocol.COUNTS,
    "datasets": Setting(
        ("sonar", "ionosphere", "balance", "segmentation", "magic", "usps"),
        "the paper's six",
        ("sonar", "ionosphere", "balance"),
    ),
    "neighbours": Setting(5, "the paper's k"),
    "folds": Setting(5, "the paper's; stratified and shuffled"),
    "repeats": Setting(
        {"sonar": 4, "ionosphere": 4, "balance": 4, "segmentation": 2},
        "repetitions of the folds, 1 where none is given: the sets are small, and five folds of sonar "
        "alone leave standard errors of two to four points",
        {},
    ),
    "candidates": Setting(10, "the paper's k_O: it searches approximately in all experiments"),
    "rfd_queries": Setting(
        {"usps": 200, "magic": 200},
        "test rows of each fold that RFD answers: it measures every pair (times are stored)",
    ),
    "gblmnn_components": Setting(
        {"usps": 30},
        "GB-LMNN fits a tree with as many outputs per step, and cost grows with them",
    ),
}


def units(settings: Settings) -> list[Unit]:
    return [
        Unit(NAME, dataset, metric, seed, (("fold", fold),), alone=dataset in ("magic", "usps"))
        for dataset in settings["datasets"]
        for seed in range(settings["repeats"].get(dataset, 1))
        for metric in protocol.METRICS
        for fold in range(settings["folds"])
    ]


def split(unit: Unit, data: Any, folds: int, fold: int) -> tuple[np.ndarray, np.ndarray]:
    cut = StratifiedKFold(folds, shuffle=True, random_state=unit.seed)
    return list(cut.split(data.X, data.y))[fold]


def answer(unit: Unit, settings: Settings, n_jobs: int) -> Answer:
    data = protocol.load(unit.dataset, "fine")
    train, test = split(unit, data, settings["folds"], unit["fold"])
    X, y = data.X[train], data.y[train]
    count = protocol.n_constraints(unit.dataset, len(data.class_names), settings)
    pairs, same = protocol.pairs_of_labels(y, count, unit.rng(unit["fold"]))
    more, notes = {}, []
    if unit.metric == "RFD" and unit.dataset in settings["rfd_queries"]:
        few = unit.rng("queries").permutation(len(test))[: settings["rfd_queries"][unit.dataset]]
        notes.append(f"{len(few):,} of {len(test):,} queries")
        test = test[few]
    if unit.metric == "GB-LMNN" and unit.dataset in settings["gblmnn_components"]:
        more["n_components"] = settings["gblmnn_components"][unit.dataset]
        notes.append(f"{more['n_components']} dimensions")
    found, seconds = [], {}
    for variant in protocol.variants(unit.metric, settings):
        metric = protocol.make(
            unit.metric, unit.dataset, settings, unit.seed, n_jobs, **variant, **more
        )
        with protocol.stopwatch(seconds, "fit"):
            protocol.learn(metric, unit.metric, X, y, pairs, same)
        with protocol.stopwatch(seconds, "search"):
            _, index = protocol.search(
                metric, unit.metric, data.X[test], settings["neighbours"], settings["candidates"]
            )
        found.append(y[index])
    raw = {"neighbour_labels": np.array(found, np.int16), "truth": data.y[test].astype(np.int16)}
    return Answer(raw, seconds, tuple(notes))


def score(unit: Unit, raw: dict[str, np.ndarray], settings: Settings) -> dict[str, Any]:
    """Accuracy, one for each variant of the metric."""
    truth = raw["truth"]
    return {
        "accuracy": [
            float((protocol.vote(near) == truth).mean()) for near in raw["neighbour_labels"]
        ]
    }
