"""Draws the figures of docs/method.md into docs/images (`python docs/draw.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from metricforest import HierarchyForest
from metricforest.core.forest import LEAF
from metricforest.demo import labelled_pairs
from metricforest.rivals import Euclidean

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
COLOURS = ListedColormap([BLUE, ORANGE, GREEN, "#CC79A7"])


def four_groups(n: int = 240, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Two pairs of groups: near within a pair, far between."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    centres = np.array([[-3.0, 1.2], [-3.0, -1.2], [3.0, 1.2], [3.0, -1.2]])
    return centres[y] + 0.55 * rng.normal(size=(n, 2)), y


def panels(n: int, width: float, height: float) -> tuple[Figure, Any]:
    fig = Figure(figsize=(width, height), layout="constrained")
    axes = fig.subplots(1, n)
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
    return fig, axes


def constraints_by_node(metric: HierarchyForest) -> dict[int, list[int]]:
    """The constraints that reach each node of the first tree: all ends inside."""
    F, table = metric.forest_, metric.constraints_
    reach = {}
    for node in range(F.root[0], F.root[1]):
        inside = np.zeros(F.n_points, bool)
        inside[F.order[0, F.start[node] : F.stop[node]]] = True
        reach[node] = np.flatnonzero(inside[table.members[:, :2]].all(axis=1)).tolist()
    return reach


def draw_hierarchy() -> Figure:
    """One tree of the four groups, level by level: regions, and the pairs still to be labelled."""
    X, y = four_groups()
    pairs, same = labelled_pairs(y, 60, seed=1)
    metric = HierarchyForest(1, max_features=None, min_node_size=12, random_state=2)
    metric.fit(X, pairs=pairs, pair_labels=same)
    F, table = metric.forest_, metric.constraints_
    reach = constraints_by_node(metric)
    fig, axes = panels(3, 10, 3.4)
    grid = np.stack(np.meshgrid(np.linspace(-5, 5, 300), np.linspace(-3.5, 3.5, 220)), axis=-1)
    rows = metric._prepare(grid.reshape(-1, 2))
    features = F.features
    for level, ax in enumerate(axes):
        node = np.full(len(rows), F.root[0])
        shown = {int(F.root[0])}
        for _ in range(level):
            for i in np.unique(node):
                if F.left[i] != LEAF:
                    s, here = F.split[i], node == i
                    side = rows[here][:, features[s]] @ F.weights[s, :-1] + F.weights[s, -1] > 0
                    node[here] = np.where(side, F.right[i], F.left[i])
            shown = {
                child
                for i in shown
                for child in ((F.left[i], F.right[i]) if F.left[i] != LEAF else (i,))
            }
        regions = np.unique(node, return_inverse=True)[1].reshape(grid.shape[:2])
        ax.contourf(
            grid[..., 0], grid[..., 1], regions, levels=np.arange(-0.5, 8), cmap="Greys", alpha=0.25
        )
        ax.scatter(*X.T, c=y, cmap=COLOURS, s=9)
        for i in shown:
            for j in reach[int(i)]:
                a, b = table.members[j, :2]
                cannot = table.kind[j] == 1
                ax.plot(
                    *X[[a, b]].T,
                    color=RED if cannot else "#333333",
                    lw=0.9,
                    ls="-" if cannot else ":",
                )
        ax.set_title(("the root", "after one split", "after two levels")[level])
    return fig


def draw_distance() -> Figure:
    """How far everything is from one point, before and after learning."""
    X, y = make_moons(300, noise=0.08, random_state=0)
    pairs, same = labelled_pairs(y, 150, seed=0)
    learned = HierarchyForest(150, max_features=None, random_state=0, n_jobs=-1)
    learned.fit(X, pairs=pairs, pair_labels=same)
    grid = np.stack(np.meshgrid(np.linspace(-1.4, 2.4, 160), np.linspace(-0.9, 1.4, 120)), axis=-1)
    fig, axes = panels(2, 9, 3)
    query = np.array([[0.95, 0.35]])  # at the end of the upper moon
    for ax, metric, title in (
        (axes[0], Euclidean().fit(X), "Euclidean"),
        (axes[1], learned, "learned from 150 labelled pairs"),
    ):
        far = metric.pairwise_distances(query, grid.reshape(-1, 2)).reshape(grid.shape[:2])
        drawn = ax.contourf(
            grid[..., 0], grid[..., 1], far / far.max(), levels=12, cmap="viridis_r"
        )
        ax.scatter(
            *X.T,
            c=np.where(y == 0, "#ffffff", "#333333"),
            s=7,
            edgecolors="#333333",
            linewidths=0.3,
        )
        ax.plot(*query[0], marker="*", ms=17, color=RED, mec="#ffffff")
        ax.set_title(title)
        ax.set_aspect("equal")
    fig.colorbar(drawn, ax=axes, label="distance from the star (largest = 1)")
    return fig


def draw_depth() -> Figure:
    """A tree as a tree: sizes of nodes, and how the distance of two rows is read off."""
    fig = Figure(figsize=(7.5, 3.2), layout="constrained")
    ax = fig.subplots()
    ax.set_axis_off()
    places = {
        "100": (4, 3),
        "60": (2, 2),
        "40": (6, 2),
        "35": (1, 1),
        "25": (3, 1),
        "15": (5, 1),
        "25 ": (7, 1),
    }
    edges = [("100", "60"), ("100", "40"), ("60", "35"), ("60", "25"), ("40", "15"), ("40", "25 ")]
    for a, b in edges:
        ax.plot(*zip(places[a], places[b], strict=True), color="#888888", zorder=1)
    for name, (x, y) in places.items():
        separates = name in ("100", "60")
        edge, width = (RED, 2) if separates else ("#888888", 1)
        box = {"boxstyle": "round", "fc": "#ffffff", "ec": edge, "lw": width}
        ax.text(x, y, f"{name.strip()} rows", ha="center", va="center", fontsize=10, bbox=box)
    for name, x in (("a", 0.8), ("b", 3.0), ("c", 7.0)):
        ax.text(x, 0.45, name, ha="center", fontsize=13, fontweight="bold")
    ax.text(
        8.2,
        2.4,
        "a and b are separated in the node of 60:\ndistance 60/100 x certainty",
        fontsize=10,
        va="center",
    )
    ax.text(
        8.2,
        1.5,
        "a and c are separated in the root:\ndistance 100/100 x certainty",
        fontsize=10,
        va="center",
    )
    ax.set_xlim(0, 12)
    ax.set_ylim(0.2, 3.4)
    return fig


def main() -> None:
    for name, draw in (
        ("method_hierarchy", draw_hierarchy),
        ("method_distance", draw_distance),
        ("method_depth", draw_depth),
    ):
        draw().savefig(IMAGES / f"{name}.png", dpi=90)


if __name__ == "__main__":
    main()
