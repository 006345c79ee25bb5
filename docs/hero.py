"""Draws the picture of the README: offers of a shop, and which of them the model calls the same.

    python docs/hero.py        # fits examples/shop, writes docs/images/match.png

The rows are the first groups of the table that were matched, in the order of the table, and two rows
that were not. Numbers beside a group are the least probability of its pairs; pairs below LEAST do not count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from metricforest import TableMetric

HERE = Path(__file__).parent
SHOP = HERE.parent / "examples" / "shop"
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
COLUMNS = {
    "sku": 0.0,
    "type": 0.85,
    "brand": 1.55,
    "weight": 2.95,
    "price": 3.8,
    "colour": 3.95,
    "listed": 4.7,
}
TO_THE_RIGHT = ("weight", "price")
LEAST = 0.9  # probability of a pair that is shown as a match
RIGHT = 6.9  # where the second table begins


def groups_of(matches: pd.DataFrame, ids: pd.Index) -> list[np.ndarray]:
    """Row numbers of the groups that matches join, by their first row."""
    a, b = ids.get_indexer(matches["a"]), ids.get_indexer(matches["b"])
    links = coo_matrix((np.ones(len(a)), (a, b)), (len(ids), len(ids)))
    _, group = connected_components(links, directed=False)
    _, first = np.unique(group, return_index=True)
    return [np.flatnonzero(group == group[i]) for i in np.sort(first)]


def write_row(ax: Any, left: float, y: float, row: pd.Series, colour: str | None) -> None:
    if colour:
        ax.axhspan(
            y - 0.45, y + 0.45, (left - 0.1) / 14.2, (left + 6.1) / 14.2, color=colour, alpha=0.22
        )
    for name, x in COLUMNS.items():
        align = "right" if name in TO_THE_RIGHT else "left"
        ax.text(left + x, y, row[name], ha=align, va="center", fontsize=10, family="monospace")


def draw(
    table: pd.DataFrame, groups: list[np.ndarray], alone: np.ndarray, sure: list[float]
) -> Figure:
    shown = np.sort(np.concatenate([*groups, alone]))
    fig = Figure(figsize=(13, 0.36 * len(shown) + 1.3), layout="constrained")
    ax = fig.subplots()
    ax.axis("off")
    ax.set_xlim(0, 14.2)
    ax.set_ylim(len(shown) + 0.6, -2.2)
    for left, title in (
        (0.1, "a table"),
        (RIGHT, "the same rows, matched after 800 labelled pairs"),
    ):
        ax.text(left, -1.7, title, fontsize=13, fontweight="bold", va="center")
        header = pd.Series({name: name for name in COLUMNS})
        write_row(ax, left, -0.7, header, None)
        ax.plot([left - 0.1, left + 6.1], [-0.15, -0.15], color="black", linewidth=0.8)
    for y, i in enumerate(shown):
        write_row(ax, 0.1, y + 0.4, table.iloc[i], None)
    y = 0
    for group, colour, probability in zip(
        [*groups, alone], [*COLOURS, None], [*sure, None], strict=True
    ):
        for step, i in enumerate(group):
            write_row(ax, RIGHT, y + step + 0.4, table.iloc[i], colour)
        middle = y + (len(group) - 1) / 2 + 0.4
        said = "not matched" if probability is None else f"same: {probability:.0%}"
        ax.text(RIGHT + 6.25, middle, said, fontsize=11, va="center", color=colour or "black")
        y += len(group)
    return fig


def main() -> None:
    table = pd.read_csv(SHOP / "products.csv", dtype=str, keep_default_na=False)
    metric = TableMetric(id="sku", random_state=0)
    metric.fit(table, pairs=pd.read_csv(SHOP / "labelled.csv", dtype=str, keep_default_na=False))
    matches = metric.match(table, precision=0.9)
    matches = matches[matches["probability"] >= LEAST]
    found = groups_of(matches, pd.Index(table["sku"]))
    groups = [group for group in found if 2 <= len(group) <= 3][: len(COLOURS)]
    alone = np.concatenate([group for group in found if len(group) == 1][:2])
    sure = [
        matches.loc[matches["a"].isin(ids) & matches["b"].isin(ids), "probability"].min()
        for ids in (table["sku"].to_numpy()[group] for group in groups)
    ]
    path = HERE / "images" / "match.png"
    draw(table, groups, alone, sure).savefig(path, dpi=100)
    print(f"{path}: {len(matches)} matches in {len(table)} rows")


if __name__ == "__main__":
    main()
