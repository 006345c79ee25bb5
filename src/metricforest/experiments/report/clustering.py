"""Table 3: V-measure of semi-supervised clustering."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import clustering, paper
from ..protocol import HFD
from ..stored import json_lines
from .plots import below, canvas, plot_line
from .results import (
    Claim,
    Parts,
    Results,
    gaps,
    joined,
    mean_error,
    notes_of,
    plus_minus,
    title_of,
    with_error,
)
from .tables import Figure, Section, Table

TRIED = "tried.jsonl"  # in the folder of the results: what `benchmarks/clusters.py --results` found


def values_of(
    results: Results, dataset: str, metric: str, count: int, what: str, sampling: str = "per class"
) -> list[float]:
    if metric == "Euclidean":
        count, sampling = paper.CONSTRAINTS[dataset][0], "per class"
    lines = results.of(
        "clustering", dataset=dataset, metric=metric, constraints=count, sampling=sampling
    )
    return [line["scores"][what] for line in lines]


class Column(NamedTuple):
    """HFD in a column of Table 3, less the paper's."""

    dataset: str
    count: int
    gap: float
    error: float

    def __str__(self) -> str:
        return (
            f"{title_of(self.dataset)} with {self.count:,} constraints: "
            f"{'+' if self.gap >= 0 else ''}{plus_minus(self.gap, self.error, 3)}"
            f"{', within the error' * (self.gap >= -self.error)}"
        )


def columns(results: Results, sampling: str = "per class") -> list[Column]:
    """Those that were run, with pairs drawn in one way."""
    found = []
    for dataset in results.settings["clustering"]["datasets"]:
        for place, count in enumerate(paper.CONSTRAINTS[dataset]):
            values = values_of(results, dataset, HFD, count, "best", sampling)
            if values:
                mean, error = mean_error(values)
                found.append(
                    Column(dataset, count, mean - paper.TABLE_3[dataset][HFD][place], error)
                )
    return found


def gains_tried(results: Results, below: list[Column]) -> Parts:
    """What changes to the forest gain in the columns where HFD stays below the paper."""
    columns = {(column.dataset, column.count) for column in below}
    latest = {
        (line["dataset"], line["constraints"], line["change"]): line
        for line in json_lines(
            results.folder / TRIED,
            {"dataset": str, "constraints": int, "change": str, "gains": list, "when": str},
        )
    }
    said = [
        f"{title_of(dataset)} with {count:,} gains {with_error(line['gains'])} from {change} "
        f"({len(line['gains'])} draws, {line['when'][:10]})"
        for (dataset, count, change), line in latest.items()
        if (dataset, count) in columns
    ]
    if not said:
        return []
    return [
        f"Changes tried where the paper is not reached: {'; '.join(said)}. All other lines have the paper's "
        "reg_lambda, 0.01. (`python benchmarks/clusters.py --results`; more in "
        "docs/reproduce.md of the library.)"
    ]


def reached(found: list[Column]) -> str:
    """In how many columns HFD reaches the paper, and by how much it misses the others."""
    lags = [column for column in found if column.gap < 0]
    return f"{len(found) - len(lags)} of {len(found)}" + (
        f" (below: {'; '.join(map(str, lags))})" if lags else ""
    )


def n_best(results: Results) -> int:
    """Columns of Table 3 in which no other metric has a better mean than HFD."""
    tables = [table_of(results, d) for d in results.settings["clustering"]["datasets"]]
    return sum(table.rows[row][0] == HFD for table in tables for row, _ in table.strong)


def table_of(results: Results, dataset: str) -> Table:
    """Table 3 of one data set: the best of ours for every number of pairs is bold."""
    counts = paper.CONSTRAINTS[dataset]
    table = Table(
        ["metric", "pairs", "paper", "ours", "difference", "fixed graph", "draws"],
        [],
        caption=f"Table 3: {title_of(dataset)}",
    )
    best: dict[int, tuple[float, int]] = {}
    for sampling in results.settings["clustering"]["sampling"]:
        for metric in clustering.METRICS:
            if sampling != "per class" and not clustering.drawn_uniformly(dataset, metric):
                continue
            if sampling != "per class" and metric == "Euclidean":
                continue
            for column, count in enumerate(counts):
                published = paper.TABLE_3[dataset][metric][column]
                ours, fixed = (
                    values_of(results, dataset, metric, count, what, sampling)
                    for what in ("best", "fixed")
                )
                if ours and sampling == "per class":
                    best[column] = max(
                        best.get(column, (0.0, 0)), (float(np.mean(ours)), len(table.rows))
                    )
                table.rows.append(
                    [
                        metric + (", uniform pairs" if sampling == "uniform" else ""),
                        f"{count:,}",
                        f"{published:.3f}",
                        with_error(ours),
                        f"{np.mean(ours) - published:+.3f}" if ours else "",
                        with_error(fixed),
                        f"{len(ours)}" if ours else "",
                    ]
                )
    table.strong = {(row, 3) for _, row in best.values()}
    return table


def section(results: Results) -> Section:
    found = columns(results)
    parts: Parts = [
        "V-measure of spectral clustering in metrics learned from random labelled pairs; the best over "
        "the graphs (and widths of the Gaussian) that the paper tries, mean ± standard error over draws "
        "of pairs. The best over graphs cannot be known without the answer; 'fixed' is one graph for all "
        "data sets, not chosen by the answer.",
        f"HFD's mean reaches the paper's in {reached(found)}. How pairs are drawn matters, and the paper "
        "does not say how. Here every class gets as many (see the settings). With pairs of any two rows, "
        "lines marked 'uniform pairs', "
        f"the mean reaches the paper's in {reached(columns(results, 'uniform'))}.",
    ]
    parts += gains_tried(results, [column for column in found if column.gap < 0])
    for dataset in results.settings["clustering"]["datasets"]:
        parts.append(table_of(results, dataset))

    def draw() -> Any:
        datasets = results.settings["clustering"]["datasets"]
        fig, axes = canvas(10, 3.2, len(datasets))
        for ax, dataset in zip(np.atleast_1d(axes), datasets, strict=True):
            counts = paper.CONSTRAINTS[dataset]
            for metric in clustering.METRICS:
                means = [values_of(results, dataset, metric, c, "best") for c in counts]
                if all(means):
                    plot_line(ax, metric, counts, [np.mean(v) for v in means])
            ax.plot(
                counts,
                paper.TABLE_3[dataset][HFD],
                ":",
                color="#333333",
                label="HFD, paper",
                lw=1.5,
            )
            ax.set_title(title_of(dataset))
            ax.set_xlabel("constraints")
            ax.set_ylim(0, 1)
        np.atleast_1d(axes)[0].set_ylabel("V-measure")
        below(fig, np.atleast_1d(axes)[0])
        return fig

    parts.append(Figure("clustering", "V-measure against the number of labelled pairs", draw))
    said = notes_of(results.of("clustering")) + gaps(results, "clustering")
    return Section(clustering.TITLE, parts + joined(said))


def claims(results: Results) -> list[Claim]:
    found = columns(results)
    good = [column.gap >= 0 for column in found]
    said = (
        f"reached in {reached(found)}. Of the metrics here HFD is best in {n_best(results)} of "
        f"{len(found)} (RFD clusters fewer rows of USPS; ITML has one gamma)"
    )
    whole = all(good) or (None if any(good) else False)
    return [Claim("Table 3: V-measure of HFD, column by column", said, whole)] if found else []
