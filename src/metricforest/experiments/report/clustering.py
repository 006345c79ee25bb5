"""Table 3: V-measure of semi-supervised clustering."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import clustering, paper
from ..protocol import HFD
from .plots import below, canvas, plot_line
from .results import Claim, Parts, Results, gaps, joined, mean_error, notes_of, title_of, with_error
from .tables import Figure, Section, Table

WHY_BELOW = (
    "A closer fit to the pairs lifts them: with reg_lambda 0.0003 instead of "
    "the paper's 0.01 segmentation with 350 pairs gains .013 ± .005 (ten draws), USPS with 10,000 gains "
    ".012 ± .001 (five draws); the paper's Algorithm 1, which stops before its minimum, acts alike. What "
    "is left on USPS may be the pairs, whose choice the paper does not state: RFD is below the paper there "
    "as well. All that was tried is in docs/reproduce.md of the library."
)


def values_of(
    results: Results, dataset: str, metric: str, count: int, what: str, sampling: str = "per class"
) -> list[float]:
    if metric == "Euclidean":
        count, sampling = paper.CONSTRAINTS[dataset][0], "per class"
    lines = results.of(
        "clustering", dataset=dataset, metric=metric, constraints=count, sampling=sampling
    )
    return [line["scores"][what] for line in lines]


def summary(results: Results) -> tuple[int, int, list[str]]:
    """In how many columns of Table 3 HFD reaches the paper, of how many run, and where it lags."""
    reached, judged, lags = 0, 0, []
    for dataset in results.settings["clustering"]["datasets"]:
        for column, count in enumerate(paper.CONSTRAINTS[dataset]):
            values = values_of(results, dataset, HFD, count, "best")
            if not values:
                continue
            judged += 1
            mean, error = mean_error(values)
            gap = mean - paper.TABLE_3[dataset][HFD][column]
            reached += gap >= 0
            if gap < 0:
                lags.append(
                    f"{title_of(dataset)} with {count:,} constraints: {gap:+.3f} ± {error:.3f}"
                )
    return reached, judged, lags


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
    reached, judged, lags = summary(results)
    parts: Parts = [
        "V-measure of spectral clustering in metrics learned from so many random pairs; the best over "
        "the graphs (and widths of the Gaussian) that the paper tries, mean ± standard error over draws "
        "of pairs. The best over graphs cannot be known without the answer; 'fixed' is one graph that "
        f"nobody has tuned. HFD's mean reaches the paper's in {judged and reached} of {judged} columns.",
        "How pairs are drawn matters: the paper does not say it. The first lines draw as many for every "
        "class (see the settings), those marked 'uniform pairs' draw any two rows.",
    ]
    if lags:
        why = "" if results.quick else f" {WHY_BELOW}"
        parts.append(f"Below the paper: {'; '.join(lags)}.{why}")
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

    parts.append(Figure("clustering", "V-measure against the number of judged pairs", draw))
    said = notes_of(results.of("clustering")) + gaps(results, "clustering")
    return Section(clustering.TITLE, parts + joined(said))


def claims(results: Results) -> list[Claim]:
    reached, judged, lags = summary(results)
    found = (
        f"reached in {reached} of {judged}"
        + (f"; below: {'; '.join(lags)}" if lags else "")
        + f". Of the metrics here HFD is best in {n_best(results)}"
    )
    whole = reached == judged or (None if reached else False)
    return [Claim("Table 3: V-measure of HFD, column by column", found, whole)] if judged else []
