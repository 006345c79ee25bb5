"""What each parameter of the forest is worth: one changed at a time, the rest at its default."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from . import classification, protocol
from .protocol import Answer, Setting, Settings, Unit

NAME = "ablations"
TITLE = "Ablations: one parameter at a time"
SCORES = {
    "accuracy": (),
    "pair_auc": (),
}  # their axes: settings with so many values, None where any number is
SETTINGS = {
    **protocol.FOREST,
    **protocol.COUNTS,
    "trees": Setting(100, "enough that more change little, as the first ablation shows", 30),
    "datasets": Setting(
        ("sonar", "ionosphere", "balance", "segmentation"), "small, for time", ("sonar", "balance")
    ),
    "parameters": Setting(
        {
            "n_estimators": (5, 10, 20, 50, 100, 200, 500),
            "cannot_link_fraction": (0.1, 0.25, 0.5, 1.0),
            "alpha": (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
            "hard": (False, True),
            "solver": ("lbfgs", "subgradient"),
            "min_node_size": (2, 5, 10, 30),
            "reg_lambda": (0.0001, 0.001, 0.01, 0.1),
            "n_constraints": (0, 50, 200, 1_000, 4_000),
        },
        "what users ask about; hard is certainty 1, as if alpha were endless; 0 constraints is the "
        "unsupervised forest",
        {"n_estimators": (5, 15, 30), "cannot_link_fraction": (0.25, 1.0), "alpha": (0.5, 2.0)},
    ),
    "neighbours": Setting(5, "as in the classification"),
    "folds": Setting(5, "as in the classification"),
    "repeats": Setting(2, "repetitions of the folds, for the spread", 1),
    "candidates": Setting(10, "the paper's k_O"),
    "judged_pairs": Setting(
        20_000,
        "random pairs of held-out rows whose distances should tell same from different",
        4_000,
    ),
}


def units(settings: Settings) -> list[Unit]:
    return [
        Unit(NAME, dataset, protocol.HFD, seed, ((parameter, value),))
        for parameter, values in settings["parameters"].items()
        for dataset in settings["datasets"]
        for value in values
        for seed in range(settings["repeats"])
    ]


def answer(unit: Unit, settings: Settings, n_jobs: int) -> Answer:
    data = protocol.load(unit.dataset, "fine")
    ((parameter, value),) = unit.more
    hard = parameter == "hard" and value
    count = protocol.n_constraints(unit.dataset, len(data.class_names), settings)
    if parameter == "n_constraints":
        count = value
    given = {parameter: value} if parameter not in ("hard", "n_constraints") else {}
    voters, truth, distances, alike, seconds = [], [], [], [], {}
    for fold in range(settings["folds"]):
        train, test = classification.split(unit, data, settings["folds"], fold)
        X, y = data.X[train], data.y[train]
        pairs, same = protocol.pairs_of_labels(y, count, unit.rng(fold))
        metric: Any = protocol.make(
            protocol.HFD, unit.dataset, settings, unit.seed, n_jobs, **given
        )
        with protocol.stopwatch(seconds, "fit"):
            protocol.learn(metric, protocol.HFD, X, y, pairs, same)
        _, index = metric.kneighbors(
            data.X[test],
            settings["neighbours"],
            n_candidates=settings["candidates"],
            hard=hard,
        )
        voters.append(y[index])
        truth.append(data.y[test])
        rng = unit.rng(fold, "judged")
        a, b = rng.choice(test, (2, settings["judged_pairs"] // settings["folds"]))
        a, b = a[a != b], b[a != b]
        distances.append(metric.pair_distance(data.X[a], data.X[b], hard=hard))
        alike.append(data.y[a] == data.y[b])
    raw = {
        "neighbour_labels": np.concatenate(voters).astype(np.int16),
        "truth": np.concatenate(truth).astype(np.int16),
        "fold_sizes": np.array([*map(len, distances)], np.int64),
        "distances": np.concatenate(distances).astype(np.float32),
        "alike": np.concatenate(alike),
    }
    return Answer(raw, seconds)


def score(unit: Unit, raw: dict[str, np.ndarray], settings: Settings) -> dict[str, Any]:
    """Accuracy of the vote, and how well distances of held-out rows tell same from different."""
    ends = np.cumsum(raw["fold_sizes"])[:-1]
    folds = zip(np.split(raw["alike"], ends), np.split(raw["distances"], ends), strict=True)
    return {
        "accuracy": float((protocol.vote(raw["neighbour_labels"]) == raw["truth"]).mean()),
        "pair_auc": float(np.mean([roc_auc_score(alike, -far) for alike, far in folds])),
    }
