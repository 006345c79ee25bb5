"""Figure 1: five nearest neighbours vote."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import classification, protocol
from ..protocol import HFD
from .plots import COLOURS, below, canvas
from .results import (
    Claim,
    Parts,
    Results,
    best_variant,
    gaps,
    joined,
    mean_error,
    notes_of,
    plus_minus,
    title_of,
    with_error,
)
from .tables import Figure, Section, Table


def accuracies(results: Results, dataset: str, metric: str) -> dict[tuple[int, int], float]:
    """Accuracy by (seed, fold), of the metric's best variant."""
    lines = results.of("classification", dataset=dataset, metric=metric)
    values = best_variant([line["scores"]["accuracy"] for line in lines])
    return {(line["seed"], line["fold"]): value for line, value in zip(lines, values, strict=True)}


def behind(ours: dict[Any, float], theirs: dict[Any, float]) -> tuple[float, float]:
    """By how much theirs is better, unit by unit where both have it, and the standard error."""
    common = sorted(set(ours) & set(theirs))
    if not common:
        return float(np.mean([*theirs.values()]) - np.mean([*ours.values()])), np.nan
    return mean_error([theirs[key] - ours[key] for key in common])


def summary(results: Results) -> tuple[Table, list[str], int, int]:
    """The table, remarks, on how many sets HFD is best or within an error of it, and of how many."""
    datasets = results.settings["classification"]["datasets"]
    table = Table(["metric", *map(title_of, datasets)], [], caption="5-NN accuracy, %")
    found = {
        (metric, dataset): accuracies(results, dataset, metric)
        for metric in protocol.METRICS
        for dataset in datasets
    }
    for metric in protocol.METRICS:
        cells = [
            with_error([100 * v for v in found[metric, dataset].values()], 1)
            for dataset in datasets
        ]
        table.rows.append([metric, *cells])
    remarks, close, judged = [], 0, 0
    for column, dataset in enumerate(datasets, 1):
        means = {
            m: np.mean([*found[m, dataset].values()]) for m in protocol.METRICS if found[m, dataset]
        }
        if not means:
            continue
        best = max(means, key=lambda m: means[m])
        table.strong.add((protocol.METRICS.index(best), column))
        others = [m for m in means if m != HFD]
        if HFD not in means or not others:
            continue
        rival = max(others, key=lambda m: means[m])
        gap, error = behind(found[HFD, dataset], found[rival, dataset])
        judged += 1
        close += gap <= 0.0 or gap <= error
        remarks.append(
            f"{title_of(dataset)}: HFD is {plus_minus(100 * abs(gap), 100 * error, 1)} points "
            f"{'behind' if gap > 0 else 'ahead of'} {rival}."
        )
    return table, remarks, close, judged


def section(results: Results) -> Section:
    table, remarks, close, judged = summary(results)
    datasets = results.settings["classification"]["datasets"]

    def draw() -> Any:
        fig, ax = canvas(9, 3.6)
        width = 0.8 / len(protocol.METRICS)
        for i, metric in enumerate(protocol.METRICS):
            places, heights, errors = [], [], []
            for place, dataset in enumerate(datasets):
                values = [100 * v for v in accuracies(results, dataset, metric).values()]
                if values:
                    mean, error = mean_error(values)
                    places.append(place + (i - 3.5) * width)
                    heights.append(mean)
                    errors.append(0 if np.isnan(error) else error)
            if places:
                ax.bar(
                    places, heights, width * 0.92, yerr=errors, label=metric,
                    color=COLOURS[metric], edgecolor="#333333", linewidth=0.4,
                    error_kw={"lw": 0.8},
                )  # fmt: skip
        ax.set_xticks(range(len(datasets)), [title_of(d) for d in datasets])
        ax.set_ylim(60, 100)
        ax.set_ylabel("5-NN accuracy, %")
        below(fig, ax)
        return fig

    lines = results.of("classification")
    parts: Parts = [
        "Five-fold cross-validation, mean ± standard error over folds and repetitions (of the same "
        "rows: other rows like these would differ more); the best mean is bold. "
        "HFD is best, or its gap to the best is within one standard error of the paired "
        f"difference, on {close} of {judged} sets. (The paper shows bars without numbers and says: "
        "best on four of six.)",
        table,
        Figure("classification", "5-NN accuracy with standard errors", draw),
    ]
    said = remarks + notes_of(lines) + gaps(results, "classification")
    return Section(classification.TITLE, parts + joined(said))


def claims(results: Results) -> list[Claim]:
    _, remarks, close, judged = summary(results)
    found = (
        f"best or within one standard error of the best on {close} of {judged}. {' '.join(remarks)}"
    )
    claim = Claim(
        "5-NN classification: HFD best on 4 of 6 data sets", found, 3 * close >= 2 * judged
    )
    return [claim] if judged else []
