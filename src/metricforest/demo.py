"""A first look: learn from a few hundred labelled pairs, beside plain Euclidean distance.

Run as ``python -m metricforest.demo`` (or ``make demo``). Prints one table and writes one picture,
``demo.png``, into the working directory. Everything is embedded: scikit-learn's digits, and the
balance-scale set, which is the rule of the lever on a grid.

How it is measured: 30 % of the rows are held out, pairs are only drawn among the others, and every
figure is about held-out rows. Their neighbours are sought among the training rows. Euclidean
distance gets the same standardised features.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import cpu_count
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import paired_euclidean_distances, pairwise_distances
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from .hierarchy import HierarchyForest
from .storage.outputs import PICTURE, check_output, replace_file
from .supervision.constraints import draw_pairs
from .warn import warn

N_SPLITS = 3  # random cuts into training and held-out rows; the table shows their mean
HELD_OUT = 0.3
N_LABELLED = 500  # pairs to learn from
N_ASKED = 5_000  # held-out pairs to measure AUC on
K_VOTE, K_RETRIEVE = 5, 10
DRAWING = Path("demo.png")
EUCLIDEAN, FOREST = "Euclidean", "HierarchyForest"
# Paul Tol's "muted" colours, told apart with any colour vision, and black.
COLOURS = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933",
           "#DDCC77", "#CC6677", "#882255", "#AA4499", "#000000")  # fmt: skip


class Scores(NamedTuple):
    """What the table shows of one distance on one cut."""

    accuracy: float  # of the vote of the 5 nearest training rows
    auc: float  # that a held-out must-link is nearer than a cannot-link
    precision: float  # share of the right class among the 10 nearest training rows


class Cut(NamedTuple):
    """Training and held-out rows of one random cut."""

    X: np.ndarray
    X_new: np.ndarray
    y: np.ndarray
    y_new: np.ndarray


def digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits: (1,797 x 64 rows, classes 0 to 9)."""
    data: Any = load_digits()
    return data.data, data.target


def balance_scale() -> tuple[np.ndarray, np.ndarray]:
    """The UCI balance-scale set from its rule: (625 x 4 rows, classes 0 right, 1 level, 2 left)."""
    grid = np.stack(np.meshgrid(*[np.arange(1.0, 6.0)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    left_weight, left_distance, right_weight, right_distance = grid.T
    torque = left_weight * left_distance - right_weight * right_distance
    return grid, np.sign(torque).astype(np.int64) + 1


def labelled_pairs(y: np.ndarray, n_pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (n_pairs, 2) and labels (+1 same class, -1 different), as a person might give them.

    A third of the pairs are of one class; no pair comes twice.
    """
    return draw_pairs(y, n_pairs, np.random.default_rng(seed))


def __getattr__(name: str) -> Any:
    if name == "judged_pairs":  # its name before
        warn("metricforest.demo.judged_pairs is now called labelled_pairs", FutureWarning)
        return labelled_pairs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def learn(
    X: np.ndarray, pairs: np.ndarray, same: np.ndarray, max_features: Any = 1 / 3
) -> HierarchyForest:
    """The few lines that learn: the README's first example."""
    metric = HierarchyForest(max_features=max_features, n_jobs=-1, random_state=0, verbose=1)
    metric.fit(X, pairs=pairs, pair_labels=same)
    return metric


def cuts(X: np.ndarray, y: np.ndarray) -> Iterator[tuple[int, Cut]]:
    """(seed, training and held-out rows), `N_SPLITS` times."""
    for seed in range(N_SPLITS):
        parts: Any = train_test_split(X, y, test_size=HELD_OUT, stratify=y, random_state=seed)
        yield seed, Cut(*parts)


def score(to_train: np.ndarray, cut: Cut, asked_distance: np.ndarray, same: np.ndarray) -> Scores:
    """Scores of one distance: of held-out to training rows, and of the held-out pairs asked."""
    near = cut.y[np.argsort(to_train, axis=1, kind="stable")[:, :K_RETRIEVE]]
    votes = np.stack([(near[:, :K_VOTE] == c).sum(axis=1) for c in range(cut.y.max() + 1)], axis=1)
    return Scores(
        accuracy=float((votes.argmax(axis=1) == cut.y_new).mean()),
        auc=float(roc_auc_score(same == 1, -asked_distance)),
        precision=float((near == cut.y_new[:, None]).mean()),
    )


def compare(
    X: np.ndarray, y: np.ndarray, max_features: Any = 1 / 3
) -> tuple[dict[str, list[Scores]], HierarchyForest, Cut]:
    """Scores of both distances on every cut, and the metric and rows of the first cut."""
    scores: dict[str, list[Scores]] = {EUCLIDEAN: [], FOREST: []}
    first = None
    for seed, cut in cuts(X, y):
        pairs, same = labelled_pairs(cut.y, N_LABELLED, seed)
        asked, asked_same = labelled_pairs(cut.y_new, N_ASKED, seed)
        a, b = cut.X_new[asked[:, 0]], cut.X_new[asked[:, 1]]

        metric = learn(cut.X, pairs, same, max_features)
        to_train = metric.pairwise_distances(cut.X_new, cut.X)
        scores[FOREST].append(score(to_train, cut, metric.pair_distance(a, b), asked_same))

        scale = StandardScaler().fit(cut.X).transform
        to_train = pairwise_distances(scale(cut.X_new), scale(cut.X))
        between = paired_euclidean_distances(scale(a), scale(b))
        scores[EUCLIDEAN].append(score(to_train, cut, between, asked_same))
        first = first or (metric, cut)
    assert first is not None
    return scores, *first


def table(results: dict[str, dict[str, list[Scores]]]) -> str:
    """The results as plain text: mean over the cuts, and half the range."""
    heads = (f"{K_VOTE}-NN accuracy", "pair AUC", f"precision at {K_RETRIEVE}")
    lines = [f"{'data':<15}{'distance':<17}" + "".join(f"{head:>19}" for head in heads)]
    lines.append("-" * len(lines[0]))
    for data, by_distance in results.items():
        for distance, scores in by_distance.items():
            mean, spread = np.mean(scores, axis=0), np.ptp(scores, axis=0) / 2
            cells = "".join(f"{f'{m:.3f} ±{s:.3f}':>19}" for m, s in zip(mean, spread, strict=True))
            lines.append(f"{data:<15}{distance:<17}{cells}")
    return "\n".join(lines)


def flat_map(distance: np.ndarray) -> np.ndarray:
    """Points in the plane whose neighbours are those of the given distances (t-SNE)."""
    tsne = TSNE(metric="precomputed", init="random", perplexity=30, random_state=0)
    with threadpool_limits(
        1
    ):  # threads that wait for each other by spinning are slower on few cores
        return tsne.fit_transform(distance)


def draw(metric: HierarchyForest, cut: Cut, path: Path) -> None:
    """Map the held-out digits under both distances, side by side, into a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patheffects import withStroke

    scaled = StandardScaler().fit(cut.X).transform(cut.X_new)
    maps = {
        "Euclidean distance": flat_map(pairwise_distances(scaled)),
        f"HierarchyForest, learned from {N_LABELLED} labelled pairs": flat_map(
            metric.pairwise_distances(cut.X_new)
        ),
    }
    figure, axes = plt.subplots(1, 2, figsize=(10, 5.6), layout="constrained")
    for axis, (title, points) in zip(axes, maps.items(), strict=True):
        for digit, colour in enumerate(COLOURS):
            own = points[cut.y_new == digit]
            axis.scatter(*own.T, s=20, color=colour, linewidths=0.3, edgecolors="white")
        for digit, colour in enumerate(COLOURS):
            x, y = np.median(points[cut.y_new == digit], axis=0)
            halo = [withStroke(linewidth=4, foreground="white")]
            axis.text(
                x, y, str(digit), color=colour, fontsize=22, fontweight="bold",
                ha="center", va="center", path_effects=halo,
            )  # fmt: skip
        axis.set_title(title, fontsize=12)
        axis.set(xticks=[], yticks=[])
        axis.set_box_aspect(1)
        axis.spines[:].set_color("0.8")
    figure.suptitle(
        f"{len(cut.X_new)} held-out handwritten digits, mapped by their distances (t-SNE)",
        fontsize=13,
    )
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    replace_file(path, [picture.getvalue()], foreign=PICTURE)
    plt.close(figure)


def main() -> None:
    """Learn, compare, print, draw."""
    check_output(DRAWING, foreign=PICTURE)
    started = time.perf_counter()
    print(
        f"metricforest on {cpu_count()} cores: {N_LABELLED} labelled pairs, {N_SPLITS} random cuts"
    )
    print("compiling, once (some 10 s; the next run reads it from a cache) ...", flush=True)
    learn_nothing()
    print(f"ready after {time.perf_counter() - started:.0f} s\n", flush=True)

    print("digits: 1,797 images of 8 x 8 pixels, ten classes", flush=True)
    on_digits, metric, cut = compare(*digits())
    print("balance scale: 625 rows, 4 features, three classes", flush=True)
    on_balance, _, _ = compare(*balance_scale(), max_features=None)
    print(f"\n{table({'digits': on_digits, 'balance scale': on_balance})}")
    print(
        f"Held-out rows only; mean of {N_SPLITS} cuts, and half the range between them.\n"
        "Both distances see standardised features.\n"
    )

    try:
        draw(metric, cut, DRAWING)
    except ModuleNotFoundError as error:
        print(f'no picture: {error}. pip install "metricforest[plot]"')
    else:
        print(f"{DRAWING}: the held-out digits of the first cut under both distances")
    print(f"{time.perf_counter() - started:.0f} s in all")


def learn_nothing() -> None:
    """Have the core compiled (or read from the cache): the smallest forest there is."""
    X = np.arange(16.0).reshape(8, 2)
    metric = HierarchyForest(n_estimators=1, random_state=0)
    metric.fit(X, pairs=[[0, 1], [0, 7]], pair_labels=[1, -1])
    metric.pair_distance(X, X)
    metric.pairwise_distances(X)


if __name__ == "__main__":
    main()
