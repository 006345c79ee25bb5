"""Vectors of the metric beside the metric itself and beside other vectors: docs/vectors.md's tables.

    METRICFOREST_DATA=... python benchmarks/vectors.py [SET ...] [--out FILE] [--table]

Half of the rows are learned from (10,000 of CIFAR), with the pairs that `fit` draws from their labels; at
most 2,000 of the others are judged: AUC over 40,000 random pairs and precision at 10 among themselves, and
for 200 of them the share of the ten nearest rows of the learned ones, in the metric, that are among the 100
nearest vectors. The surface has 1,000,000 rows: trees grow on a twentieth, neighbours are sought among all.
Every set's result is one line of JSON in FILE, and is not made again.
"""

from __future__ import annotations

import argparse
import json
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
from metricforest.tables.preparation import TablePreparation

RESULTS = Path(__file__).resolve().parent.parent / "results" / "vectors.jsonl"
SETS: dict[str, dict[str, Any]] = {  # settings
    "segmentation": {},
    "digits": {},
    "magic": {},
    "usps": {},
    "mixed": {},
    "cifar10": {"standardize": False},
    "cifar100": {"standardize": False},
    "surface": {},
}
CHOSEN_ON = (
    "segmentation",
    "digits",
    "magic",
    "usps",
    "mixed",
    "cifar10",
)  # some part of the formula
TREES = 100
FEWER = {"cifar10": 50, "cifar100": 50, "surface": 30}  # trees
LEARNED = {"cifar10": 10_000, "cifar100": 10_000, "surface": 50_000}  # rows, at most
WIDTHS = (32, 64, 128, "auto")
WIDTH = 64  # of other vectors
DTYPES = ("float32", "float16", "int8")
AT_ONCE = 50_000  # rows made into vectors together
JUDGED, ASKED = 2_000, 200


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


def nearest(metric: HierarchyForest, Q: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The ten nearest rows of X, without room for all distances."""
    far, who = np.empty((len(Q), 0)), np.empty((len(Q), 0), np.int64)
    for low in range(0, len(X), AT_ONCE):
        block = metric.pairwise_distances(Q, X[low : low + AT_ONCE])
        far = np.hstack([far, block])
        who = np.hstack([who, low + np.tile(np.arange(block.shape[1]), (len(Q), 1))])
        first = np.argpartition(far, 10, axis=1)[:, :10]
        far, who = (np.take_along_axis(both, first, axis=1) for both in (far, who))
    return who


def in_blocks(make: Any, X: np.ndarray) -> np.ndarray:
    parts = [make(X[low : low + AT_ONCE]) for low in range(0, len(X), AT_ONCE)]
    return np.concatenate([np.asarray(part, np.float32) for part in parts])


class Judge:
    """Pair AUC, precision at 10 and share of the true ten nearest among 100, of any vectors."""

    def __init__(self, name: str, metric: HierarchyForest, X: np.ndarray, y: np.ndarray) -> None:
        order = np.random.default_rng(0).permutation(len(X))
        made = name == "surface"
        self.learned = order[: LEARNED.get(name, len(X) // 2)]
        held = order[-JUDGED:] if made else order[len(X) // 2 :][:JUDGED]
        self.rows, self.y = X[held], y[held]
        self.indexed = X[order[:-JUDGED]] if made else X[self.learned]
        metric.fit(X[self.learned], y[self.learned])
        self.true = nearest(metric, self.rows[:ASKED], self.indexed)
        self.soft = quality(metric.pairwise_distances(self.rows), self.y)

    def __call__(self, Z: np.ndarray, whole: np.ndarray | None) -> list[float]:
        near = [] if whole is None else [found_among(self.true, Z[:ASKED], whole, 100)]
        return [*quality(pairwise_distances(Z), self.y), *near]


def rounded(Z: np.ndarray, dtype: str, metric: HierarchyForest) -> np.ndarray:
    """What `transform` of this dtype would have given, as float32."""
    if dtype == "float16":
        return Z.astype(np.float16).astype(np.float32)
    return np.rint(Z / metric.int8_scale_).clip(-127, 127)


def measure(name: str) -> dict[str, Any]:
    settings = SETS[name]
    X, y = data(name)
    trees = FEWER.get(name, TREES)
    metric = HierarchyForest(trees, n_jobs=1, random_state=0, **settings)
    judge = Judge(name, metric, X, y)
    learned = judge.learned
    result: dict[str, Any] = {
        "set": name, "rows": len(learned), "indexed": len(judge.indexed), "features": X.shape[1],
        "n_trees": trees,
        "soft": judge.soft,
    }  # fmt: skip
    for n in WIDTHS:
        metric.set_params(n_components=n)
        Z, whole = metric.transform(judge.rows), in_blocks(metric.transform, judge.indexed)
        result[f"{n} float32"] = judge(Z, whole)
        for dtype in ("float16", "int8"):
            result[f"{n} {dtype}"] = judge(
                metric.transform(judge.rows, dtype=dtype).astype(np.float32),
                in_blocks(partial(rounded, dtype=dtype, metric=metric), whole),
            )
    projection = metric._made().projection
    result["auto"] = [projection.directions.shape[1], len(projection.correction)]
    scale = StandardScaler(with_std=settings.get("standardize", True)).fit(X[learned])
    own = min(WIDTH, X.shape[1])
    few, labels = scale.transform(X[learned[:2_000]]), y[learned[:2_000]]
    pca = PCA(own, random_state=0).fit(scale.transform(X[learned]))
    hard = GaussianRandomProjection(WIDTH, random_state=0).fit(metric.hard_vectors(X[:2]))
    forest = RandomTreesEmbedding(TREES, max_depth=8, random_state=0).fit(X[learned[:10_000]])
    svd = TruncatedSVD(WIDTH, random_state=0).fit(forest.transform(X[learned[:5_000]]))
    nca = NeighborhoodComponentsAnalysis(own, max_iter=30, random_state=0).fit(few, labels)
    others = {
        "PCA": lambda A: pca.transform(scale.transform(A)),
        "hard": lambda A: hard.transform(metric.hard_vectors(A)),
        "trees": lambda A: svd.transform(forest.transform(A)),
        "NCA": lambda A: nca.transform(scale.transform(A)),
    }
    for other, make in others.items():
        slow = name == "surface" and other in ("hard", "trees")
        whole = None if slow else in_blocks(make, judge.indexed)
        result[other] = judge(np.asarray(make(judge.rows), np.float32), whole)
    return result


OTHERS = {
    "PCA": "PCA of the rows", "hard": "hard vectors, projected",
    "trees": "RandomTreesEmbedding + SVD", "NCA": "NCA",
}  # fmt: skip
FIGURES = ("Pair AUC", "Precision at 10", "True ten nearest among the 100 nearest vectors")


def grid(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def table(results: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for k, title in enumerate(FIGURES):
        soft = [] if k == 2 else ["soft distance"]
        names = [f"{n} {dtype}" for n in WIDTHS for dtype in DTYPES]
        head = ["set", *soft, *[name.replace("float", "f").replace("int", "i") for name in names]]
        rows = [
            [r["set"], *[short(r["soft"][k]) for _ in soft], *[short(r[c][k]) for c in names]]
            for r in results
        ]
        lines += ["", f"{title}:", "", *grid(head, rows)]
    for k, title in enumerate(FIGURES):
        head = ["set", "`transform`", *OTHERS.values()]
        cells = [
            [r[c][k] if k < len(r[c]) else None for c in ("64 float32", *OTHERS)] for r in results
        ]
        rows = [
            [r["set"], *["" if c is None else short(c) for c in row]]
            for r, row in zip(results, cells, strict=True)
        ]
        lines += ["", f"{title}, {WIDTH} numbers:", "", *grid(head, rows)]
    head = [
        "set",
        "rows to learn from",
        "among",
        "features",
        "trees",
        '"auto" takes',
        "formula chosen on it",
    ]
    sizes = [
        [r["set"], f"{r['rows']:,}", f"{r['indexed']:,}", f"{r['features']}", f"{r['n_trees']}",
         f"{r['auto'][0]} directions + {r['auto'][1]} random",
         "yes" if r["set"] in CHOSEN_ON else "no"]
        for r in results
    ]  # fmt: skip
    return "\n".join([*grid(head, sizes), *lines, "", *bars(results)])


def bars(results: list[dict[str, Any]]) -> list[str]:
    """What was to be shown, and what is."""
    auc = np.array([r["64 float32"][0] - r["soft"][0] for r in results])
    near = np.array([r["auto float32"][1] - r["soft"][1] for r in results])
    found = np.array([r["auto float32"][2] for r in results])
    return [
        f"Pair AUC at 64 less the soft distance's: least {auc.min():+.3f}, mean {auc.mean():+.4f}",
        f'Precision at 10 at "auto" less the soft one\'s: least {near.min():+.3f}, mean {near.mean():+.4f}',
        f'.95 of the true ten nearest at "auto": {(found >= 0.95).sum()} of {len(found)} sets',
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="SET")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print what is there, measure nothing")
    given = parser.parse_args()
    made = (
        [json.loads(line) for line in given.out.read_text().splitlines()]
        if given.out.exists()
        else []
    )
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
