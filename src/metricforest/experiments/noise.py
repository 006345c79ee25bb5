"""Classification of sonar while more and more training labels are wrong (paper 6.4, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from . import classification, protocol
from .protocol import Answer, Setting, Settings, Unit

NAME = "noise"
TITLE = "Noise in the training labels (paper section 6.4, Figure 2)"
SCORES = dict.fromkeys(
    ("corrupted", "clean", "wrong", "alike"), (None,)
)  # their axes: settings with so many values, None where any number is
SETTINGS = {
    **protocol.FOREST,
    **protocol.COUNTS,
    "dataset": Setting("sonar", "the paper's"),
    "levels": Setting(
        (0, 5, 10, 15, 20, 25, 30),
        "per cent of the training labels made wrong; the paper names 10 and 20",
        (0, 10, 20),
    ),
    "neighbours": Setting(5, "the paper's k"),
    "folds": Setting(5, "the paper's; stratified and shuffled"),
    "repeats": Setting(4, "repetitions of folds and noise, for the spread", 1),
    "more_repeats": Setting(
        {0: 12, 20: 12},
        "repetitions of the levels between which the loss is measured: with 4 its standard error is up "
        "to 2.5 points, more than metrics differ by",
        {},
    ),
    "candidates": Setting(10, "the paper's k_O"),
    "votes": Setting(
        ("corrupted", "clean"),
        "the paper does not say whose labels vote; corrupted ones are the natural reading, clean "
        "ones show the metric alone",
    ),
}


def units(settings: Settings) -> list[Unit]:
    repeats = {level: settings["repeats"] for level in settings["levels"]}
    repeats |= settings["more_repeats"]
    return [
        Unit(NAME, settings["dataset"], metric, seed, (("noise", level),))
        for seed in range(max(repeats.values()))
        for level in settings["levels"]
        if seed < repeats[level]
        for metric in protocol.METRICS
    ]


def corrupt(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Labels of which a share, exactly, is another class than it was."""
    wrong = rng.permutation(len(y))[: round(share * len(y))]
    n_classes = y.max() + 1
    noisy = y.copy()
    noisy[wrong] = (y[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    return noisy


class Fold(NamedTuple):
    """What is learned from, and what is asked."""

    X: np.ndarray
    y: np.ndarray  # the true labels
    noisy: np.ndarray  # those that are learned from
    pairs: np.ndarray
    same: np.ndarray
    test_X: np.ndarray
    test_y: np.ndarray


def folds(unit: Unit, settings: Settings) -> Iterator[Fold]:
    """Every fold of a unit: more noise corrupts more of the same rows, for all metrics alike."""
    data = protocol.load(unit.dataset, "fine")
    count = protocol.n_constraints(unit.dataset, len(data.class_names), settings)
    for fold in range(settings["folds"]):
        train, test = classification.split(unit, data, settings["folds"], fold)
        y = data.y[train]
        noisy = corrupt(y, unit["noise"] / 100, unit.rng(fold))
        pairs, same = protocol.pairs_of_labels(noisy, count, unit.rng(fold, "pairs"))
        yield Fold(data.X[train], y, noisy, pairs, same, data.X[test], data.y[test])


def answer(unit: Unit, settings: Settings, n_jobs: int) -> Answer:
    parts: dict[str, list] = {"corrupted": [], "clean": [], "truth": []}
    seconds = {}
    for fold in folds(unit, settings):
        found = []
        for variant in protocol.variants(unit.metric, settings):
            metric = protocol.make(
                unit.metric, unit.dataset, settings, unit.seed, n_jobs, **variant
            )
            with protocol.stopwatch(seconds, "fit"):
                protocol.learn(metric, unit.metric, fold.X, fold.noisy, fold.pairs, fold.same)
            _, index = protocol.search(
                metric, unit.metric, fold.test_X, settings["neighbours"], settings["candidates"]
            )
            found.append(index)
        parts["corrupted"].append(fold.noisy[np.array(found)])
        parts["clean"].append(fold.y[np.array(found)])
        parts["truth"].append(fold.test_y)
    raw = {
        "corrupted": np.concatenate(parts["corrupted"], axis=1).astype(np.int16),
        "clean": np.concatenate(parts["clean"], axis=1).astype(np.int16),
        "truth": np.concatenate(parts["truth"]).astype(np.int16),
    }
    return Answer(raw, seconds)


def score(unit: Unit, raw: dict[str, np.ndarray], settings: Settings) -> dict[str, Any]:
    """For each variant of the metric: accuracy with either kind of voter, and who the voters are.

    `wrong`: the share of neighbours with a wrong label; `alike`: of those truly of the query's class.
    """
    accuracy = {
        voters: [float((protocol.vote(near) == raw["truth"]).mean()) for near in raw[voters]]
        for voters in settings["votes"]
    }
    wrong = raw["corrupted"] != raw["clean"]
    alike = raw["clean"] == raw["truth"][:, np.newaxis]
    return {
        **accuracy,
        "wrong": wrong.mean(axis=(1, 2)).tolist(),
        "alike": alike.mean(axis=(1, 2)).tolist(),
    }
