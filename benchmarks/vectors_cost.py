"""What vectors cost, and the search by them beside the search by leaves: docs/vectors.md's figures.

    METRICFOREST_DATA=... python benchmarks/vectors_cost.py [SET ...] [--trees 500] [--out FILE] [--table]

Each set's forest learns from all rows (10,000 of CIFAR-10) but 200, which then are queries for ten neighbours
(a tenth of a small set). Both searches take as few candidates as find .95 of the true ten nearest of these
queries; `search="auto"` chooses from own rows, and its recall is measured. One core; processor time,
compiled before, the better of two for what is short. Every set is one line of JSON in FILE, not made again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from metricforest import HierarchyForest, datasets
from metricforest.search import index_over
from vectors import data, grid

RESULTS = Path(__file__).resolve().parent.parent / "results" / "vectors_cost.jsonl"
SETS: dict[str, dict[str, Any]] = {
    "sonar": {},
    "ionosphere": {},
    "segmentation": {},
    "digits": {},
    "mixed": {},
    "magic": {},
    "usps": {},
    "cifar10 x 100": {"standardize": False},
    "cifar10 x 300": {"standardize": False},
}
TARGET, K = 0.95, 10
PER_TREE = (1, 2, 3, 5, 7, 10, 13, 17, 22, 30, 40, 50, 70, 100, 130, 170, 220, 300)
IN_ALL = [round(10 * 1.3**j) for j in range(30)]  # candidates by vectors that are tried
MOST = {"cifar10": 10_200}  # rows


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    short = name.partition(" ")[0]
    if short in ("sonar", "ionosphere"):
        found = datasets.load(short)
        return found.X, found.y
    X, y = data(short)
    if short == "cifar10":
        X = X[:, : int(name.rpartition(" ")[2])].astype(np.float32)
    some = np.random.default_rng(1).permutation(len(X))[: MOST.get(short, len(X))]
    return X[some], y[some]


def clock(run: Any, times: int = 2) -> tuple[float, Any]:
    """Least processor seconds, and what came out."""
    least, out = np.inf, None
    for _ in range(times):
        start = time.process_time()
        out = run()
        least = min(least, time.process_time() - start)
    return least, out


def recall(far: np.ndarray, exact: np.ndarray) -> float:
    return float((far <= exact[:, -1:]).mean())


def enough(search: Any, tried: Any, exact: np.ndarray) -> tuple[int, float, float] | None:
    """The least number of candidates that find enough, what they find, and seconds."""
    for count in tried:
        found = recall(search(n_candidates=count)[0], exact)
        if found >= TARGET:
            return count, found, clock(partial(search, n_candidates=count))[0]
    return None


def file_bytes(metric: HierarchyForest) -> int:
    with tempfile.TemporaryDirectory() as folder:
        metric.save(Path(folder) / "metric.mf")
        return (Path(folder) / "metric.mf").stat().st_size


def measure(name: str, trees: int) -> dict[str, Any]:
    X, y = rows_of(name)
    order = np.random.default_rng(0).permutation(len(X))
    n_queries = min(200, len(X) // 10)
    Q, X, y = X[order[:n_queries]], X[order[n_queries:]], y[order[n_queries:]]
    metric = HierarchyForest(trees, n_jobs=1, random_state=0, **SETS[name])
    fit_s, _ = clock(lambda: metric.fit(X, y), 1)
    without = file_bytes(metric)
    learn_s, _ = clock(lambda: metric.n_components_, 1)
    with_ = file_bytes(metric)
    some = X[:5_000]
    rows = metric._check_rows(some)
    result: dict[str, Any] = {
        "set": name, "rows": len(X), "features": X.shape[1], "trees": trees, "queries": n_queries,
        "fit_s": fit_s, "learn_s": learn_s, "file": without, "more": with_ - without,
        "add_s": clock(lambda: index_over(metric.forest_, rows, metric.alpha, 1))[0],
        "transform_s": clock(lambda: metric.transform(some))[0], "some": len(some),
    }  # fmt: skip
    first = metric.set_params(n_components="auto")
    result["learn_auto_s"], _ = clock(lambda: first.n_components_, 1)
    result["auto"] = metric.n_components_
    metric.set_params(n_components=64)
    exact, _ = metric.kneighbors(Q, K, n_candidates=None)
    search = partial(metric.kneighbors, Q, K)
    result["leaves"] = enough(partial(search, search="leaves"), PER_TREE, exact)
    result["first_s"], _ = clock(lambda: metric.kneighbors(Q[:1], K, search="auto"), 1)
    result["vectors"] = enough(partial(search, search="vectors"), IN_ALL, exact)
    index = metric._index()
    for how in ("leaves", "vectors", "auto"):
        chosen = partial(search, search=how, target_recall=TARGET)
        seconds, (far, _) = clock(chosen)
        result[f"{how} at target"] = [recall(far, exact), seconds]
    effort = next(iter(metric._proposer._efforts.values()))
    result["effort"] = [float(e) if e is not None else None for e in effort]
    result["indexed"] = len(index.ids)
    return result


def table(results: list[dict[str, Any]]) -> str:
    head = [
        "set",
        "rows",
        "fit",
        "learn 64",
        "learn auto",
        "add",
        "transform",
        "file",
        "vectors in it",
    ]
    costs = [
        [r["set"], f"{r['rows']:,} x {r['features']}", f"{r['fit_s']:.1f} s",
         f"{r['learn_s']:.2f} s ({r['learn_s'] / r['fit_s']:.0%})",
         f"{r['learn_auto_s']:.2f} s ({r['auto']})",
         f"{1e6 * r['add_s'] / r['some']:.0f} us", f"{1e6 * r['transform_s'] / r['some']:.0f} us",
         f"{r['file'] / 1e6:.1f} MB", f"{r['more'] / 1e6:.2f} MB"]
        for r in results
    ]  # fmt: skip
    searches = ["set", "leaves", "per tree", "vectors", "in all", "faster", '"auto"', "its recall"]

    def ms(r: dict[str, Any], seconds: float) -> str:
        return f"{1e3 * seconds / r['queries']:.3g} ms"

    rows = []
    for r in results:
        leaves, near = r["leaves"], r["vectors"]
        ratio = "" if leaves is None or near is None else f"{leaves[2] / near[2]:.1f} x"
        cells = [
            cell
            for one in (leaves, near)
            for cell in ((ms(r, one[2]), f"{one[0]}") if one else ("not found", ""))
        ]
        chosen = r["auto at target"]
        rows.append([r["set"], *cells, ratio, ms(r, chosen[1]), f"{chosen[0]:.3f}"])
    return "\n".join([*grid(head, costs), "", *grid(searches, rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="SET")
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print what is there, measure nothing")
    given = parser.parse_args()
    made = (
        [json.loads(line) for line in given.out.read_text().splitlines()]
        if given.out.exists()
        else []
    )
    there = {r["set"] for r in made}
    if not given.table and set(given.sets) - there:
        measure("sonar", 5)  # compiles
    for name in [] if given.table else given.sets:
        if name not in SETS:
            parser.error(f"{name} is not one of {', '.join(SETS)}")
        if name not in there:
            with threadpool_limits(1):
                made.append(measure(name, given.trees))
            with given.out.open("a") as file:
                file.write(json.dumps(made[-1]) + "\n")
            print(json.dumps(made[-1]), flush=True)
    print(table([r for name in SETS for r in made if r["set"] == name]))


if __name__ == "__main__":
    main()
