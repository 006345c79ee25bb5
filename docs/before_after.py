"""Draws the same rows before and after: maps of the rows and of their vectors (docs/vectors.md).

    METRICFOREST_DATA=... python docs/before_after.py        # writes docs/images/vectors.png

Image Segmentation: patches of seven kinds of outdoor images, 18 numbers each. 1,000 rows and 500 labelled
pairs of them are learned from; t-SNE draws the 1,310 others, the rows standardised.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from metricforest import HierarchyForest, datasets
from metricforest.demo import labelled_pairs

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#333333")
KNOWN, PAIRS = 1_000, 500


def main() -> None:
    found = datasets.load("segmentation")
    order = np.random.default_rng(0).permutation(len(found.X))
    X, y = found.X[order], found.y[order]
    pairs, same = labelled_pairs(y[:KNOWN], PAIRS, seed=0)
    metric = HierarchyForest(n_jobs=-1, random_state=0)
    metric.fit(X[:KNOWN], pairs=pairs, pair_labels=same)
    before = StandardScaler().fit(X[:KNOWN]).transform(X[KNOWN:])
    y = y[KNOWN:]
    fig = Figure(figsize=(10, 4.6), layout="constrained")
    for ax, Z, title in zip(
        fig.subplots(1, 2),
        (before, metric.transform(X[KNOWN:])),
        ("the rows", f"their vectors, learned from {PAIRS} labelled pairs"),
        strict=True,
    ):
        place = TSNE(init="pca", random_state=0).fit_transform(Z)
        for k, colour in enumerate(COLOURS):
            name = str(found.class_names[k])
            ax.scatter(*place[y == k].T, s=5, color=colour, label=name)
        ax.set_title(title)
        ax.set_xticks([])
        ax.set_yticks([])
        vote = KNeighborsClassifier(10).fit(Z[::2], y[::2])
        print(f"{title}: {vote.score(Z[1::2], y[1::2]):.1%} right by the vote of ten neighbours")
    fig.legend(*ax.get_legend_handles_labels(), ncols=7, loc="outside lower center", markerscale=3)
    fig.savefig(Path(__file__).parent / "images" / "vectors.png", dpi=80)


if __name__ == "__main__":
    main()
