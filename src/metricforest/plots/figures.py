"""Pictures of a metric: maps, hierarchies, histograms, precision and recall, galleries, heat maps.

Every function draws into the Axes it is given, or into a new Figure, and returns the Axes. It needs
matplotlib (``pip install "metricforest[plot]"``), which is only imported when something is drawn.
Classes have the colours of Okabe and Ito, which can be distinguished with any colour vision, and beyond seven
classes also other markers; quantities have cividis. Text and lines take the colours of the
style in use, dark or light.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.utils.validation import check_is_fitted

from ..base import Metric
from ..checks import check_count
from ..core import LEAF
from ..hierarchy import HierarchyForest
from ..inspection import calibration
from ..supervision.labels import UNLABELLED, plain_labels, unlabelled_among
from . import layout

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
MARKERS = "os^DvP*X"
QUANTITY = "cividis"
LANDMARKS = 200  # rows that start a map
MOST_ROWS = 1_000  # of a heat map


def plot_map(
    metric: Metric,
    labels: ArrayLike | None = None,
    *,
    n_neighbors: int = 15,
    random_state: int = 0,
    ax: Any = None,
) -> Any:
    """Map of the rows under a metric: near in the picture are neighbours.

    Made from the neighbour graph alone. Who is beside whom means something; how far apart two
    groups lie means little, and the axes mean nothing.

    Parameters
    ----------
    metric : Metric
        Fitted. Drawn are the rows it searches, in the order of `ids_` where it has ids.
    labels : array-like of shape (n_rows,), default=None
        Classes, with -1 for unlabelled; or numbers with fractions, drawn as shades.
    n_neighbors : int, default=15
        Neighbours of each row that are drawn near to it.
    random_state : int, default=0
        The same number gives the same map.
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
        Each class is one collection of it, in ascending order, unlabelled rows first.
    """
    k = check_count("n_neighbors", n_neighbors, 1)
    seed = check_count("random_state", random_state, 0)
    check_is_fitted(metric)
    rows = metric._searched_rows()
    if len(rows) < 3:
        raise ValueError(f"a map needs at least 3 rows, the metric has {len(rows)}")
    shown = None if labels is None else check_row_labels(labels, len(rows))
    points = map_rows(metric, rows, min(k, len(rows) - 1), seed)
    ax = axes(ax, (6.0, 6.0))
    size = float(np.clip(20_000 / len(rows), 4.0, 36.0))
    scatter(ax, points, shown, size)
    ax.set(xticks=[], yticks=[], title=f"{len(rows):,} rows by their {k} nearest neighbours")
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def map_rows(metric: Metric, rows: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Points (n, 2) of prepared rows."""
    distance, ids = metric.kneighbors(None, k)
    known = getattr(metric, "ids_", np.arange(len(rows)))
    order = np.argsort(known)  # a table's ids stand in the order of its rows
    place = order[np.searchsorted(known, ids, sorter=order)]
    some = np.random.default_rng(seed).permutation(len(rows))[:LANDMARKS]
    to_landmarks = metric._pairwise_distance(rows, rows[some])
    return layout.arrange(layout.start(to_landmarks, to_landmarks[some]), distance, place, seed)


def plot_hierarchy(
    metric: HierarchyForest,
    tree: int = 0,
    labels: ArrayLike | None = None,
    *,
    max_depth: int = 4,
    ax: Any = None,
) -> Any:
    """One tree of the forest: how it splits the rows of `fit`, how many, and how purely.

    A node is a bar as wide as the root of its share of the rows, with their number above. With labels
    the bar is cut by class, and the share of the commonest class stands below. Three dots: the
    node is split further.

    Parameters
    ----------
    metric : HierarchyForest
    tree : int, default=0
    labels : array-like of shape (n_rows,), default=None
        Classes of the rows of `fit`; -1 for unlabelled, which are counted but have no class.
    max_depth : int, default=4
        Levels drawn below the root.
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
    """
    check_is_fitted(metric)
    if not isinstance(metric, HierarchyForest):
        raise TypeError(f"metric must be a HierarchyForest, got a {type(metric).__name__}")
    forest = metric.forest_
    t, deepest = check_count("tree", tree, 0), check_count("max_depth", max_depth, 0)
    if t >= forest.n_trees:
        raise ValueError(f"tree must be below {forest.n_trees}, the number of trees, got {tree}")
    N = forest.n_points
    code = np.empty(0, np.int64)
    classes: Any = None
    if labels is not None:
        classes, code = classes_of(check_row_labels(labels, N))
    nodes = drawn_nodes(forest, t, deepest)
    ax = axes(ax, (max(6.0, 0.75 * sum(n.is_end for n in nodes)), 1.0 + 1.1 * (1 + deepest)))
    plt = pyplot()
    ink, small = plt.rcParams["text.color"], 8
    ax.set(xlim=(-0.6, sum(n.is_end for n in nodes) - 0.4), ylim=(-0.45 - nodes[-1].lowest, 0.5))
    # As wide as can be without one bar running into the next.
    scale = min(4.0, *(0.86 * n.n_ends / np.sqrt(n.size / N) for n in nodes))
    for n in nodes:
        for child in n.children:
            x, y = [n.x, child.x], [-n.depth - 0.09, -child.depth + 0.09]
            share = child.size / N
            ax.plot(x, y, color=ink, alpha=0.5, lw=0.5 + 4.0 * share, zorder=1)
    for n in nodes:
        rows = None if classes is None else code[forest.order[t, n.start : n.start + n.size]]
        width = max(0.1, scale * np.sqrt(n.size / N))
        note = draw_bar(ax, n.x - width / 2, -n.depth - 0.09, width, rows, classes)
        ax.text(n.x, -n.depth + 0.12, f"{n.size:,}", ha="center", va="bottom", fontsize=small,
                zorder=3, bbox=backing(ax))  # fmt: skip
        below = note + (("\n" if note else "") + "..." if n.is_end and n.is_split else "")
        ax.text(n.x, -n.depth - 0.12, below, ha="center", va="top", fontsize=small, zorder=3,
                bbox=backing(ax))  # fmt: skip
    ax.axis("off")
    what = ", its commonest class below" if classes is not None else ""
    ax.set_title(f"Tree {t} of {forest.n_trees}: rows of each node above it{what}")
    if classes is not None:
        names = [str(c) for c in classes]
        if (code == UNLABELLED).any():
            names.append("unlabelled")
        handles = [plt.Rectangle((0, 0), 1, 1, **fill(ax, c, classes)) for c in range(len(names))]
        ax.legend(handles, names, ncols=min(len(names), 10), loc="upper center", frameon=False,
                  bbox_to_anchor=(0.5, 0.02), fontsize=small)  # fmt: skip
    return ax


def draw_bar(
    ax: Any, left: float, bottom: float, width: float, codes: np.ndarray | None, classes: Any
) -> str:
    """The bar of a node, cut by the classes of its rows; what its commonest class is, and how common."""
    rectangle = pyplot().Rectangle
    if codes is None:
        ax.add_patch(rectangle((left, bottom), width, 0.18, fc=COLOURS[0], zorder=2))
        return ""
    counts = np.bincount(codes + 1, minlength=len(classes) + 1)
    parts = np.concatenate([counts[1:], counts[:1]]) / len(codes) * width
    for c, part in enumerate(parts):
        ax.add_patch(rectangle((left, bottom), part, 0.18, zorder=2, **fill(ax, c, classes)))
        left += part
    if not counts[1:].sum():
        return ""
    top = int(counts[1:].argmax())
    return f"{classes[top]}: {counts[1 + top] / counts[1:].sum():.0%}"


def plot_pair_distances(
    metric: Metric,
    pairs: ArrayLike,
    pair_labels: ArrayLike,
    X: ArrayLike | None = None,
    *,
    bins: int = 30,
    ax: Any = None,
) -> Any:
    """Histogram of the distances of labelled pairs, with the threshold between same and different.

    Parameters
    ----------
    metric : Metric
    pairs : array-like of shape (n_pairs, 2) or (n_pairs, 2, n_features)
        Row numbers of `X`, or the rows themselves. Take pairs that `fit` has not seen.
    pair_labels : array-like of shape (n_pairs,)
        +1 (or True) for the same, -1 (or 0, or False) for not.
    X : array-like of shape (n, n_features), default=None
        The rows that `pairs` are numbers of. None: the rows of `fit`.
    bins : int, default=30
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
        The line is `threshold_` after `calibrate_threshold`, otherwise the cut that is right for most of
        these pairs.
    """
    n_bins = check_count("bins", bins, 1)
    distance, same = labelled_distances(metric, pairs, pair_labels, X)
    ax = axes(ax, (6.4, 3.8))
    edges = np.linspace(distance.min(), max(distance.max(), distance.min() + 1e-9), n_bins + 1)
    for own, name, shade in ((same, "same", COLOURS[0]), (~same, "different", COLOURS[1])):
        if own.any():
            share = np.full(own.sum(), 1.0 / own.sum())
            ax.hist(distance[own], edges, weights=share, color=shade, alpha=0.35)
            ax.hist(distance[own], edges, weights=share, color=shade, histtype="step", lw=1.8,
                    label=f"{own.sum():,} {name}")  # fmt: skip
    cut, how = threshold_of(metric, distance, same)
    if cut is not None:
        right = np.mean((distance <= cut) == same)
        ax.axvline(cut, color=pyplot().rcParams["text.color"], ls="--", lw=1.3,
                   label=f"{how} {cut:.3g}: {right:.0%} right")  # fmt: skip
    ax.set(
        xlabel="distance",
        ylabel="share of the pairs of a kind",
        title="Distances of labelled pairs",
    )
    ax.legend(frameon=False)
    return ax


def plot_precision_recall(
    metric: Metric,
    pairs: ArrayLike,
    pair_labels: ArrayLike,
    X: ArrayLike | None = None,
    *,
    ax: Any = None,
) -> Any:
    """Precision against recall, where pairs no farther apart than a threshold are called the same.

    Parameters
    ----------
    metric : Metric
    pairs, pair_labels, X
        As in `plot_pair_distances`.
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
        The dotted line is the precision of calling every pair the same, the dot the threshold as
        in `plot_pair_distances`.
    """
    distance, same = labelled_distances(metric, pairs, pair_labels, X)
    if same.all() or not same.any():
        raise ValueError(
            f"precision and recall need pairs of both kinds, but all {len(same)} pairs are labelled "
            f"{'same' if same.all() else 'different'}"
        )
    precision, recall, _ = precision_recall_curve(same, -distance)
    average = average_precision_score(same, -distance)
    ax = axes(ax, (5.2, 4.6))
    name = type(metric).__name__
    ax.plot(recall, precision, color=COLOURS[0], lw=2, drawstyle="steps-post",
            label=f"{name}, average precision {average:.3f}")  # fmt: skip
    ink = pyplot().rcParams["text.color"]
    ax.axhline(same.mean(), color=ink, ls=":", lw=1.2, label=f"all the same: {same.mean():.2f}")
    cut, how = threshold_of(metric, distance, same)
    if cut is not None and (distance <= cut).any():
        called = distance <= cut
        hits = (called & same).sum()
        ax.plot(hits / same.sum(), hits / called.sum(), "o", ms=8, color=COLOURS[5],
                label=f"{how} {cut:.3g}", zorder=3)  # fmt: skip
    ax.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.03))
    ax.set_title(f"{same.sum():,} of {len(same):,} pairs are labelled same")
    ax.legend(frameon=False, loc="lower left")
    return ax


def images_of_queries(X_queries: Any, query_images: Any, n: int, shown: np.ndarray) -> np.ndarray:
    """One image per query: those given, or the queries themselves in the shape of the others."""
    if query_images is not None:
        queries = np.asarray(query_images)
        if len(queries) != n:
            raise ValueError(f"query_images has {len(queries)} images, X_queries {n} rows")
        return queries
    values = np.asarray(X_queries)
    if values[0].size != shown[0].size:
        raise ValueError(
            f"a query has {values[0].size} features and an image {shown[0].size} numbers: "
            "give query_images"
        )
    return values.reshape(n, *shown.shape[1:])


def plot_neighbors(
    metric: Metric,
    X_queries: ArrayLike,
    images: ArrayLike,
    *,
    query_images: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    query_labels: ArrayLike | None = None,
    n_neighbors: int = 8,
    ax: Any = None,
) -> Any:
    """Gallery: each query as an image, then its nearest rows, with their distances.

    Parameters
    ----------
    metric : Metric
    X_queries : array-like of shape (n_queries, n_features)
    images : array-like of shape (n_rows, height, width) or (n_rows, height, width, 3 or 4)
        Image of every row that is searched; a row's id is its place.
    query_images : array-like of shape (n_queries, height, width, ...), default=None
        None: the queries themselves, where they have as many features as an image has numbers.
    labels, query_labels : array-like of shape (n_rows,) and (n_queries,), default=None
        Classes. With both, neighbours of the query's class are framed by a full line, others
        by a dashed line of another colour.
    n_neighbors : int, default=8
    ax : ndarray of matplotlib Axes of shape (n_queries, n_neighbors + 1), default=None

    Returns
    -------
    ax : ndarray of matplotlib Axes of shape (n_queries, n_neighbors + 1)
        The queries are the first column.
    """
    shown = np.asarray(images)
    if shown.ndim not in (3, 4):
        raise ValueError(
            f"images must have shape (n_rows, height, width) or (..., 3 or 4), got {shown.shape}"
        )
    distance, ids = metric.kneighbors(X_queries, n_neighbors)
    if ids.max() >= len(shown):
        raise ValueError(f"a neighbour has id {ids.max()}, but there are {len(shown)} images")
    n, k = ids.shape
    queries = images_of_queries(X_queries, query_images, n, shown)
    right = None
    if labels is not None and query_labels is not None:
        own, asked = np.asarray(labels), np.asarray(query_labels)
        if len(own) != len(shown) or len(asked) != n:
            raise ValueError(
                f"labels must be one per image and query_labels one per query: {len(own)} labels, "
                f"{len(shown)} images, {len(asked)} query_labels, {n} queries"
            )
        right = own[ids] == asked[:, None]
    plt = pyplot()
    if ax is None:
        size = (0.85 * (k + 1), 1.05 * n + 0.5)
        _, ax = plt.subplots(n, k + 1, figsize=size, squeeze=False, layout="constrained")
    ax = np.asarray(ax)
    if ax.shape != (n, k + 1):
        raise ValueError(f"ax must be an array of {n} x {k + 1} Axes, got shape {ax.shape}")
    ink = plt.rcParams["text.color"]
    for i in range(n):
        for j in range(k + 1):
            cell = ax[i, j]
            image = queries[i] if j == 0 else shown[ids[i, j - 1]]
            cell.imshow(image, cmap="gray" if image.ndim == 2 else None)
            cell.set(xticks=[], yticks=[])
            frame, line, width = ink, "-", 2.5
            if j > 0:
                cell.set_title(f"{distance[i, j - 1]:.3f}", fontsize=8, pad=3)
                width = 1.0 if right is None else 2.5
                if right is not None:
                    good = right[i, j - 1]
                    frame, line = (COLOURS[4], "-") if good else (COLOURS[5], "--")
            else:
                cell.set_title("query", fontsize=8, pad=3)
            for spine in cell.spines.values():
                spine.set(color=frame, linestyle=line, linewidth=width)
    return ax


def plot_distances(
    metric: Metric, X: ArrayLike, labels: ArrayLike | None = None, *, ax: Any = None
) -> Any:
    """All distances between rows as a heat map, rows sorted so that near ones are neighbours.

    With labels, rows are sorted by class, and inside a class (or without labels) by a hierarchical
    clustering of the distances. Of more than 1,000 rows, 1,000 evenly chosen ones are drawn.

    Parameters
    ----------
    metric : Metric
    X : array-like of shape (n, n_features)
    labels : array-like of shape (n,), default=None
        Classes; -1 for unlabelled rows, which come last.
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
    """
    rows = metric._check_rows(X)
    if len(rows) < 2:
        raise ValueError(f"a heat map needs at least 2 rows, got {len(rows)}")
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.int64)
    distance = metric._pairwise_distance(rows[chosen], rows[chosen])
    classes: Any = None
    code = np.zeros(len(chosen), np.int64)
    if labels is not None:
        classes, code = classes_of(check_row_labels(labels, len(rows)))
        code = code[chosen]
        code = np.where(code == UNLABELLED, len(classes), code)
    order = np.concatenate([
        np.flatnonzero(code == c)[by_nearness(distance[np.ix_(code == c, code == c)])]
        for c in np.unique(code)
    ])  # fmt: skip
    ax = axes(ax, (6.2, 5.2))
    image = ax.imshow(distance[np.ix_(order, order)], cmap=QUANTITY, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="distance", shrink=0.85)
    ax.set_title(f"Distances between {len(order):,} rows")
    if classes is None:
        ax.set(xlabel="rows, near ones together", yticks=[], xticks=[])
        return ax
    ends = np.flatnonzero(np.diff(code[order])) + 1
    for end in ends:
        ax.axhline(end - 0.5, color="w", lw=0.7)
        ax.axvline(end - 0.5, color="w", lw=0.7)
    middle = (np.concatenate([[0], ends]) + np.concatenate([ends, [len(order)]]) - 1) / 2
    names = [*map(str, classes), "unlabelled"]
    present = [names[c] for c in np.unique(code)]
    turn = 45 if max(map(len, present)) > 3 else 0
    ax.set_xticks(middle, present, rotation=turn, ha="right" if turn else "center")
    ax.set_yticks(middle, present)
    return ax


# --------------------------------------------------------------------------------------- pieces


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'pictures need matplotlib ({error}): pip install "metricforest[plot]"'
        ) from error
    return plt


def axes(ax: Any, size: tuple[float, float]) -> Any:
    """The Axes given, or those of a new Figure."""
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def colour(c: int) -> str:
    return COLOURS[c % len(COLOURS)]


def unlabelled_colour() -> str:
    return "0.6"


def fill(ax: Any, c: int, classes: Any) -> dict[str, Any]:
    """How the area of class c is filled; one past the last class is unlabelled.

    Where colours repeat, hatches distinguish them.
    """
    if c == len(classes):
        return {"fc": unlabelled_colour()}
    hatch = ("", "////", "xxxx", "....")[c // len(COLOURS) % 4]
    return {"fc": colour(c), "hatch": hatch, "ec": ax.get_facecolor(), "lw": 0}


def backing(ax: Any) -> dict[str, Any]:
    """A box behind text that hides lines: in the colour of the ground."""
    return {"fc": ax.get_facecolor(), "ec": "none", "pad": 0.6}


def check_row_labels(labels: ArrayLike, n_rows: int) -> np.ndarray:
    given = plain_labels(labels)
    if given.shape != (n_rows,):
        raise ValueError(f"labels must be one per row: {n_rows} rows, labels of {given.shape}")
    return given


def classes_of(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Classes ascending, and the number of each row's; UNLABELLED where a label is -1."""
    unlabelled = labels == unlabelled_among(labels)
    code = np.full(len(labels), UNLABELLED)
    classes, code[~unlabelled] = np.unique(labels[~unlabelled], return_inverse=True)
    return classes, code


def scatter(ax: Any, points: np.ndarray, labels: np.ndarray | None, size: float) -> None:
    """Points by class, or by number."""
    if labels is None:
        ax.scatter(*points.T, s=size, color=COLOURS[0], linewidths=0)
        return
    if labels.dtype.kind == "f" and (labels != np.round(labels)).any():
        drawn = ax.scatter(*points.T, s=size, c=labels, cmap=QUANTITY, linewidths=0)
        ax.figure.colorbar(drawn, ax=ax, shrink=0.8)
        return
    classes, code = classes_of(labels)
    if (code == UNLABELLED).any():
        own = points[code == UNLABELLED]
        ax.scatter(*own.T, s=size / 2, color=unlabelled_colour(), linewidths=0, label="unlabelled")
    for c, name in enumerate(classes):
        marker = MARKERS[c // len(COLOURS) % len(MARKERS)]
        own = points[code == c]
        ax.scatter(*own.T, s=size, color=colour(c), marker=marker, linewidths=0, label=str(name))
    if len(classes) > 20:
        return
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=1.8)
    for c, name in enumerate(classes):
        x, y = middle_of(points[code == c])
        ax.text(x, y, str(name), ha="center", va="center", weight="bold",
                bbox={**backing(ax), "alpha": 0.7, "boxstyle": "round,pad=0.15"})  # fmt: skip


def middle_of(points: np.ndarray) -> np.ndarray:
    """The point nearest to the median of all: in the midst of the largest group."""
    return points[np.abs(points - np.median(points, axis=0)).sum(axis=1).argmin()]


def labelled_distances(
    metric: Metric, pairs: Any, pair_labels: Any, X: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of labelled pairs, and whether they are the same."""
    check_is_fitted(metric)
    a, b, same = metric._labelled(pairs, pair_labels, X)
    if len(same) == 0:
        raise ValueError("there are no pairs to draw")
    return metric._pair_distance(a, b), same


def threshold_of(
    metric: Metric, distance: np.ndarray, same: np.ndarray
) -> tuple[float | None, str]:
    """The metric's threshold and what to call it; without one the best cut of these pairs."""
    if hasattr(metric, "threshold_"):
        return metric.threshold_, "threshold"
    if same.all() or not same.any():
        return None, ""
    return calibration.choose_threshold(distance, same), "best cut"


def by_nearness(distance: np.ndarray) -> np.ndarray:
    """An order of rows that puts near ones together."""
    if len(distance) < 3:
        return np.arange(len(distance))
    condensed = squareform(distance, checks=False)
    return leaves_list(linkage(condensed, "average", optimal_ordering=len(distance) <= 300))


class DrawnNode:
    """A node of a tree that is drawn, with its place in the picture."""

    def __init__(self, forest: Any, node: int, depth: int):
        self.node, self.depth = node, depth
        self.start, self.size = int(forest.start[node]), int(forest.stop[node] - forest.start[node])
        self.is_split = bool(forest.left[node] != LEAF)
        self.is_end = True
        self.children: list[DrawnNode] = []
        self.x = 0.0
        self.lowest = depth
        self.n_ends = 1


def drawn_nodes(forest: Any, t: int, max_depth: int) -> list[DrawnNode]:
    """Nodes of tree t down to max_depth, the root last: ends side by side, others above their own."""
    ends = 0

    def visit(node: int, depth: int) -> list[DrawnNode]:
        nonlocal ends
        own = DrawnNode(forest, node, depth)
        below: list[DrawnNode] = []
        if own.is_split and depth < max_depth:
            own.is_end = False
            for child in (forest.left[node], forest.right[node]):
                below += visit(int(child), depth + 1)
                own.children.append(below[-1])
            own.x = float(np.mean([child.x for child in own.children]))
            own.lowest = max(child.lowest for child in own.children)
            own.n_ends = sum(child.n_ends for child in own.children)
        else:
            own.x, ends = float(ends), ends + 1
        return [*below, own]

    return visit(int(forest.root[t]), 0)
