"""Vectors of the metric beside the metric itself and beside other vectors: docs/vectors.md's table.

    METRICFOREST_DATA=... python benchmarks/vectors.py [SET ...] [--out FILE] [--table]

Half of the rows are learned from, with the pairs that `fit` draws from their labels; at most 2,000 of the
others are judged: AUC over 40,000 random pairs and precision at 10 among themselves, and for 200 of them
the share of the ten nearest rows of the learned half, in the metric, that are among the 100 nearest vectors.
The large sets take fewer rows and trees (SETS). Every set's result is one line of JSON in FILE, and is not
made again; seconds are those of one core's processor time, so that neighbours on the machine count little.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.metrics import pairwise_distances, roc_auc_score
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from threadpoolctl import threadpool_limits

from metricforest import HierarchyForest, datasets
from metricforest.search import index_over
from metricforest.search import vectors as search_vectors
from metricforest.tables.preparation import TablePreparation

SETS: dict[str, tuple[int, int, dict[str, Any]]] = {  # rows to learn from, at most; trees; settings
    "segmentation": (10_000, 100, {}),
    "digits": (10_000, 100, {}),
    "magic": (10_000, 100, {}),
    "usps": (10_000, 100, {}),
    "mixed": (10_000, 100, {}),
    "cifar10": (20_000, 30, {"standardize": False, "min_node_size": 30}),
    "cifar100": (20_000, 30, {"standardize": False, "min_node_size": 30}),
    "surface": (50_000, 50, {"min_node_size": 50}),
}
CHOSEN_ON = ("segmentation", "digits", "magic", "usps", "cifar10")  # the formula's exponents
JUDGED, ASKED = 2_000, 200
ALPHA = 4.0


def mixed(n: int = 6_000) -> tuple[np.ndarray, np.ndarray]:
    """A made table of eight classes: numbers on different scales, categories, gaps."""
    rng = np.random.default_rng(0)
    y = rng.integers(8, size=n)
    table: dict[str, Any] = {}
    for j in range(8):
        table[f"number {j}"] = (rng.normal(size=8)[y] + rng.normal(size=n)) * 10.0 ** rng.integers(
            3
        )
        table[f"number {j}"][rng.random(n) < 0.05] = np.nan
    for j in range(6):
        likely = rng.integers(5, size=8)[y]
        level = np.where(rng.random(n) < 0.5, likely, rng.integers(5, size=n))
        table[f"kind {j}"] = np.array(list("abcde"))[level]
    return TablePreparation().fit_transform(table), y


def surface(n: int = 1_000_000) -> tuple[np.ndarray, np.ndarray]:
    """A made surface of 8 dimensions in 50, bent, in ten regions."""
    rng = np.random.default_rng(0)
    flat = rng.uniform(-1, 1, size=(n, 8)).astype(np.float32)
    bend, turn = rng.normal(size=(8, 100)), rng.normal(size=(100, 50)) / 10
    X = np.tanh(flat @ bend.astype(np.float32)) @ turn.astype(np.float32)
    centre = rng.uniform(-1, 1, size=(10, 8)).astype(np.float32)
    y = np.square(flat[:, None, :4] - centre[None, :, :4]).sum(axis=2).argmin(axis=1)
    return X, y


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "digits":
        return load_digits(return_X_y=True)
    if name in ("mixed", "surface"):
        return {"mixed": mixed, "surface": surface}[name]()
    found = datasets.load(name)
    return found.X, found.y


def quality(D: np.ndarray, y: np.ndarray) -> list[float]:
    """Pair AUC and precision at 10 of distances of rows to each other."""
    a, b = np.random.default_rng(1).integers(len(D), size=(2, 40_000))
    a, b = a[a != b], b[a != b]
    auc = roc_auc_score(y[a] == y[b], -D[a, b])
    near = np.argsort(D + np.diag(np.full(len(D), np.inf)), axis=1)[:, :10]
    return [round(float(auc), 4), round(float((y[near] == y[:, None]).mean()), 4)]


def found_among(true: np.ndarray, queries: np.ndarray, rows: np.ndarray, most: int) -> float:
    """Share of the true nearest among the nearest vectors."""
    hits = 0
    for low in range(0, len(queries), 50):
        D = pairwise_distances(queries[low : low + 50], rows)
        near = np.argpartition(D, most, axis=1)[:, :most]
        hits += sum(
            len(np.intersect1d(a, b)) for a, b in zip(near, true[low : low + 50], strict=True)
        )
    return round(hits / true.size, 4)


def clock(run: Any) -> tuple[float, Any]:
    start = time.process_time()
    result = run()
    return round(time.process_time() - start, 3), result


def compile_all() -> None:
    """So that no time below is the compiler's."""
    X = np.random.default_rng(0).normal(size=(600, 5))
    metric = HierarchyForest(3, n_components=8, random_state=0).fit(X, X[:, 0] > 0)
    metric.transform(X)
    metric.set_params(n_components="auto").transform(X)
    index_over(metric.forest_, metric._check_rows(X), metric.alpha, 1)


def measure(name: str) -> dict[str, Any]:
    most, trees, settings = SETS[name]
    X, y = data(name)
    order = np.random.default_rng(0).permutation(len(X))
    learned = order[: min(len(X) // 2, most)]
    held = order[-JUDGED:] if name == "surface" else order[len(X) // 2 :][:JUDGED]
    indexed = order[: len(X) - JUDGED] if name == "surface" else learned
    metric = HierarchyForest(trees, alpha=ALPHA, n_jobs=1, random_state=0, **settings)
    fit_s, _ = clock(lambda: metric.fit(X[learned], y[learned]))
    judged, asked = X[held], X[held[:ASKED]]
    far = metric.pairwise_distances(asked, X[indexed])
    true = np.argpartition(far, 10, axis=1)[:, :10]
    del far
    result: dict[str, Any] = {
        "set": name, "rows": len(learned), "indexed": len(indexed), "features": X.shape[1],
        "trees": trees, "fit_s": fit_s, "soft": quality(metric.pairwise_distances(judged), y[held]),
    }  # fmt: skip

    def judge(label: str, make: Any) -> None:
        Z = make(judged)
        whole = make(X[indexed])
        result[label] = [
            *quality(pairwise_distances(Z), y[held]),
            found_among(true, make(asked), whole, 100),
        ]

    for n in (32, 64, 128, "auto"):
        metric.set_params(n_components=n)
        seconds, _ = clock(lambda: metric.n_components_)
        result[f"learn_{n}_s"] = seconds
        judge(f"vectors_{n}", metric.transform)
        if n == "auto":
            projection = metric._made().projection
            result["auto"] = [projection.directions.shape[1], len(projection.correction)]
        if n == 64:
            result["transform_s"], _ = clock(lambda: metric.transform(X[learned]))
            rows = metric._check_rows(X[learned])
            add = partial(index_over, metric.forest_, rows, metric.alpha, 1)
            result["add_s"], _ = clock(add)
            judge("float16", lambda A: metric.transform(A, dtype="float16").astype(np.float32))
            judge("int8", lambda A: metric.transform(A, dtype="int8").astype(np.float32))
    scale = StandardScaler(with_std=settings.get("standardize", True)).fit(X[learned])
    small = learned[:5_000]
    pca = PCA(min(64, X.shape[1]), random_state=0).fit(scale.transform(X[learned]))
    judge("pca_64", lambda A: pca.transform(scale.transform(A)))
    if name != "surface":
        project = GaussianRandomProjection(64, random_state=0).fit(metric.hard_vectors(X[:2]))
        judge("hard_64", lambda A: project.transform(metric.hard_vectors(A)))
        trees_ = RandomTreesEmbedding(100, max_depth=8, random_state=0).fit(X[learned])
        svd = TruncatedSVD(64, random_state=0).fit(trees_.transform(X[small]))
        judge("random_trees_64", lambda A: svd.transform(trees_.transform(A)))
        few = learned[:2_000]
        width = min(64, X.shape[1])
        nca = NeighborhoodComponentsAnalysis(width, max_iter=30, random_state=0)
        nca.fit(scale.transform(X[few]), y[few])
        judge("nca_64", lambda A: nca.transform(scale.transform(A)))
    splits = search_vectors.upper_nodes(metric.forest_, 64)
    result["splits"], result["bytes_64"] = len(splits), len(splits) * (2 * 64 + 4)
    result["forest_bytes"] = metric.forest_.nbytes
    return result


COLUMNS = {
    "soft": "soft distance", "vectors_32": "32", "vectors_64": "64", "vectors_128": "128",
    "vectors_auto": "auto", "float16": "64 float16", "int8": "64 int8", "pca_64": "PCA of rows",
    "hard_64": "hard, projected", "random_trees_64": "random trees + SVD", "nca_64": "NCA",
}  # fmt: skip


def table(results: list[dict[str, Any]]) -> str:
    lines = []
    for k, title in enumerate(("Pair AUC", "Precision at 10", "True ten nearest among 100")):
        shown = [c for c in COLUMNS if k < 2 or c != "soft"]
        lines += ["", f"{title}:", "", f"| set | {' | '.join(COLUMNS[c] for c in shown)} |"]
        lines += ["|---" * (1 + len(shown)) + "|"]
        for r in results:
            cells = [f"{r[c][k]:.3f}".lstrip("0") if c in r else "" for c in shown]
            lines.append(f"| {r['set']} | {' | '.join(cells)} |")
    lines += [
        "",
        "| set | rows | trees | auto | fit | learn 64 | learn auto | transform | add | bytes |",
    ]
    lines += ["|---" * 10 + "|"]
    for r in results:
        lines.append(
            f"| {r['set']} | {r['rows']:,} | {r['trees']} | {r['auto'][0]} + {r['auto'][1]} | "
            f"{r['fit_s']:.1f} s | {r['learn_64_s']:.2f} s | {r['learn_auto_s']:.2f} s | "
            f"{r['transform_s']:.2f} s | {r['add_s']:.2f} s | {r['bytes_64']:,} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="SET")
    parser.add_argument("--out", type=Path, default=Path("vectors.jsonl"))
    parser.add_argument("--table", action="store_true", help="print what is there, measure nothing")
    given = parser.parse_args()
    made = (
        [json.loads(line) for line in given.out.read_text().splitlines()]
        if given.out.exists()
        else []
    )
    if not given.table:
        compile_all()
    for name in [] if given.table else given.sets:
        if name not in SETS:
            parser.error(f"{name} is not one of {', '.join(SETS)}")
        if name not in {r["set"] for r in made}:
            with threadpool_limits(1):
                made.append(measure(name))
            with given.out.open("a") as file:
                file.write(json.dumps(made[-1]) + "\n")
            print(json.dumps(made[-1]), flush=True)
    print(table([r for name in SETS for r in made if r["set"] == name]))


if __name__ == "__main__":
    main()
