"""Every picture of `metricforest.plots` on scikit-learn's digits, in a light and a dark style.

    pip install "metricforest[plot]"
    python examples/gallery.py [FOLDER]

writes map.png, map-dark.png, hierarchy.png and so on into FOLDER (default: gallery). The pictures of
docs/pictures.md are made so: ``python examples/gallery.py docs/images``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image
from sklearn.datasets import load_digits

from metricforest import HierarchyForest, plots
from metricforest.demo import labelled_pairs

STYLES = {"": "default", "-dark": "dark_background"}


def pictures() -> dict[str, Callable[[], Any]]:
    """Name of each picture, and the call that draws it."""
    X, y = load_digits(return_X_y=True)
    known, asked = slice(0, 1200), slice(1200, None)
    pairs, same = labelled_pairs(y[known], 1000, seed=0)
    metric = HierarchyForest(100, n_jobs=-1, random_state=0)
    metric.fit(X[known], pairs=pairs, pair_labels=same)
    metric.calibrate_threshold(*labelled_pairs(y[asked], 1000, seed=1), X=X[asked])
    shown = (*labelled_pairs(y[asked], 2000, seed=2), X[asked])
    images = X[known].reshape(-1, 8, 8)
    return {
        "map": lambda: plots.plot_map(metric, y[known]),
        "hierarchy": lambda: plots.plot_hierarchy(metric, tree=0, labels=y[known], max_depth=4),
        "pair_distances": lambda: plots.plot_pair_distances(metric, *shown),
        "precision_recall": lambda: plots.plot_precision_recall(metric, *shown),
        "neighbors": lambda: plots.plot_neighbors(
            metric, X[1210:1214], images, labels=y[known], query_labels=y[1210:1214]
        ),
        "distances": lambda: plots.plot_distances(metric, X[1200::3], y[1200::3]),
    }


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "gallery")
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in pictures().items():
        for suffix, style in STYLES.items():
            with plt.style.context(style):
                draw()
                path = folder / f"{name}{suffix}.png"
                plt.savefig(path, dpi=80)
                plt.close("all")
                Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)
                print(path)


if __name__ == "__main__":
    main()
