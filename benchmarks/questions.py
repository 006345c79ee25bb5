"""Do suggested pairs teach more than random ones, and does `suspect_pairs` find wrong labels?

    METRICFOREST_DATA=folder python benchmarks/questions.py [--seeds 10] [--n-jobs 2] [-o curves.png]

Suggested or random: of every data set some hundred rows are drawn to learn from and others are held out.
A forest learns from 20 random pairs; then, five times, 20 more pairs are labelled, `suggest_pairs(20)`
or random ones, and a new forest learns from all of them and from what they imply (`implied_pairs=True`).
The figure is the pair AUC on pairs of held-out rows, half of them of one class, by number of labelled
pairs. Both ways start from the same pairs on the same rows; random pairs are drawn three times over,
since luck in them weighs as much as the way of choosing. "gain" is the mean difference over the five
steps, with its standard error over the seeds. "alone" are the random pairs of the first draw, learned
without what they imply.

Suspects: 10 % of 400 random labelled pairs are turned round, and the share of these that is among the most
suspect 10 % is counted, with distances of the forest itself and of forests that have not seen it (cv=5).

Data sets that are not here are left out; digits are always there. JSON lines of all runs: --json FILE.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from bench import load
from metricforest import HierarchyForest, pair_auc

ROWS = {  # data set: rows to learn from
    "sonar": 150,
    "ionosphere": 250,
    "balance": 400,
    "segmentation": 400,
    "magic": 400,
    "usps": 300,
}
FLIPPED = ("ionosphere", "segmentation", "balance")
START, BATCH, STEPS = 20, 20, 5
KINDS = {"alone": 1, "random": 3, "suggested": 1}  # draws of pairs per seed
HELD_OUT, ASKED = 1_500, 4_000
TREES = 50
ALPHA = 4.0  # for telling pairs apart: docs/parameters.md
JUDGED, WRONG = 400, 40


def judge(y: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    return np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def random_pairs(n_rows: int, n: int, labelled: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """n distinct pairs of rows that are not labelled yet."""
    seen = {tuple(pair) for pair in labelled.tolist()}
    found: list[tuple[int, int]] = []
    while len(found) < n:
        a, b = sorted(rng.choice(n_rows, 2, replace=False).tolist())
        if (a, b) not in seen:
            seen.add((a, b))
            found.append((a, b))
    return np.array(found)


def mixed_pairs(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n pairs of rows to measure AUC with, half of them of one class."""
    pairs = rng.integers(len(y), size=(40 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return np.concatenate([pairs[same][: n // 2], pairs[~same][: n // 2]])


def learn(
    name: str, X: np.ndarray, pairs: np.ndarray, labels: np.ndarray, seed: int, implied: bool
) -> HierarchyForest:
    max_features: Any = None if name == "balance" else 1 / 3  # as in the paper
    metric = HierarchyForest(
        TREES, max_features=max_features, alpha=ALPHA, implied_pairs=implied, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric.fit(X, pairs=pairs, pair_labels=labels)


def rows_of(name: str, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    order = np.random.default_rng(1_000 + seed).permutation(len(X))
    n = ROWS.get(name, 400)
    train, test = order[:n], order[n : n + HELD_OUT]
    return X[train], y[train], X[test], y[test]


def curve(name: str, X: np.ndarray, y: np.ndarray, seed: int, kind: str, draw: int) -> dict:
    """Pair AUC after every step, and the share of "same" among all answers."""
    X, y, X_new, y_new = rows_of(name, X, y, seed)
    rng = np.random.default_rng(seed)
    asked = mixed_pairs(y_new, ASKED, rng)
    pairs = random_pairs(len(X), START, np.empty((0, 2), int), rng)
    rng = np.random.default_rng((seed, draw))
    scores = []
    for step in range(STEPS + 1):
        metric = learn(name, X, pairs, judge(y, pairs), seed, kind != "alone")
        scores.append(pair_auc(metric, X_new, asked, judge(y_new, asked)))
        if step < STEPS:
            more = (
                metric.suggest_pairs(BATCH, random_state=seed * 100 + step)
                if kind == "suggested"
                else random_pairs(len(X), BATCH, pairs, rng)
            )
            pairs = np.concatenate([pairs, more])
    same = float((judge(y, pairs) == 1).mean())
    return {"data": name, "seed": seed, "pairs": kind, "auc": scores, "same": same}


def recall(name: str, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Share of the wrong labels among the most suspect tenth."""
    X, y, _, _ = rows_of(name, X, y, seed)
    rng = np.random.default_rng(seed)
    pairs = random_pairs(len(X), JUDGED, np.empty((0, 2), int), rng)
    labels = judge(y, pairs)
    labels[:WRONG] *= -1  # the pairs are in random order
    metric = learn(name, X, pairs, labels, seed, False)
    wrong = {tuple(pair) for pair in pairs[:WRONG].tolist()}
    found = {
        way: sum(tuple(pair) in wrong for pair in metric.suspect_pairs(WRONG, cv=cv).pairs.tolist())
        for way, cv in (("forest", None), ("cv=5", 5))
    }
    far = metric.pair_distance(X[pairs[:, 0]], X[pairs[:, 1]])
    rank = np.argsort(np.argsort(far)) / JUDGED
    plain = np.argsort(-np.where(labels == 1, rank, 1 - rank), kind="stable")[:WRONG]
    found["rank of distance"] = int((plain < WRONG).sum())
    return {"data": name, "seed": seed, **{way: n / WRONG for way, n in found.items()}}


def mean_and_error(values: Any) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return values.mean(axis=0), error


def draw(results: list[dict[str, Any]], path: str) -> None:
    """The curves, a panel per data set, with bands of one standard error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    names = list(dict.fromkeys(run["data"] for run in results))
    figure, axes = plt.subplots(2, 3, figsize=(9, 5.2), layout="constrained", squeeze=False)
    counts = START + BATCH * np.arange(STEPS + 1)
    for name, ax in zip(names, axes.flat, strict=False):
        for kind, colour, line in (("suggested", "#0072B2", "-"), ("random", "#E69F00", "--")):
            runs = [r["auc"] for r in results if r["data"] == name and r["pairs"] == kind]
            by_seed = np.reshape(runs, (-1, KINDS[kind], STEPS + 1))
            mean, error = mean_and_error(by_seed.mean(axis=1))
            ax.plot(counts, mean, line, color=colour, label=kind, lw=2)
            ax.fill_between(counts, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
        ax.set_title(name, fontsize=10)
    for ax in axes.flat[len(names) :]:
        ax.axis("off")
    axes[0, 0].legend(frameon=False)
    figure.supxlabel("labelled pairs")
    figure.supylabel("pair AUC on held-out rows")
    figure.savefig(path, dpi=80)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="data sets")
    parser.add_argument("-o", "--output", default="curves.png")
    parser.add_argument("--json")
    options = parser.parse_args()
    started = time.perf_counter()
    loaded = {name: load(name) for name in options.only or [*ROWS]}
    data = {name: both for name, both in loaded.items() if both is not None}
    if not data:
        data = {"digits": load("digits")}
    parallel = Parallel(n_jobs=options.n_jobs, prefer="threads")
    seeds = range(options.seeds)

    counts = [START + BATCH * step for step in range(STEPS + 1)]
    print(f"\npair AUC by number of labelled pairs, {options.seeds} seeds")
    print(f"{'data':<14}{'pairs':<11}" + "".join(f"{count:>8}" for count in counts)
          + f"{'same':>7}   gain over random")  # fmt: skip
    results: list[dict[str, Any]] = []
    for name, both in data.items():
        runs = parallel(
            delayed(curve)(name, *both, seed, kind, 1 + draw)
            for kind, draws in KINDS.items()
            for seed in seeds
            for draw in range(draws)
        )
        results += runs
        by_kind = {
            kind: np.array([run["auc"] for run in runs if run["pairs"] == kind])
            .reshape(len(seeds), draws, -1)
            .mean(axis=1)
            for kind, draws in KINDS.items()
        }
        gain = (by_kind["suggested"] - by_kind["random"])[:, 1:].mean(axis=1)
        for kind, scores in by_kind.items():
            same = np.mean([run["same"] for run in runs if run["pairs"] == kind])
            line = f"{name:<14}{kind:<11}" + "".join(f"{s:8.3f}" for s in scores.mean(axis=0))
            mean, error = mean_and_error(gain)
            print(f"{line}{same:7.2f}" + (f"   {mean:+.4f} ±{error:.4f}" if kind == "suggested" else ""),
                  flush=True)  # fmt: skip

    print(
        "\nshare of the wrong labels among the most suspect 10 %, 400 labelled pairs, 40 of them wrong"
    )
    flipped = [name for name in FLIPPED if name in data] or list(data)[:1]
    for name in flipped:
        found = parallel(delayed(recall)(name, *data[name], seed) for seed in range(5))
        results += found
        cells = []
        for way in ("rank of distance", "forest", "cv=5"):
            mean, error = mean_and_error([run[way] for run in found])
            cells.append(f"{way} {mean:.2f} ±{error:.2f}")
        print(f"{name:<14}" + "   ".join(cells), flush=True)

    draw([run for run in results if "auc" in run], options.output)
    if options.json:
        Path(options.json).write_text("".join(json.dumps(run) + "\n" for run in results))
    print(f"\n{options.output}: the curves. {time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
