"""Quality and speed of searching, two tables (`make bench`, or run this file).

Quality is Table 1 of the paper: T = 100 trees, every point a query, 50 neighbours. Average precision
at 10, 20, ..., 50 found, a hit being no farther than the true 50th neighbour, divided by the number
found; mean over these and the queries. Speed is shown beside scikit-learn's brute-force Euclidean
search on the same rows in the same run, as a ratio of medians; code is warm. The paper does not say
from how many constraints the forest of Table 1 was learned: shown are its counts for classification,
and unsupervised. Wall time and processor time are both shown: on a shared machine only the latter means
much. Each run appends one JSON line per figure to ``benchmarks/results.jsonl`` (not committed).

    python benchmarks/search.py [--only quality speed singles cifar] [--repeat 5] [--trees 20]

CIFAR-10 (only when asked for by name) is measured with few trees and scaled to 500, and says so.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors

from bench import HERE, data_folder, load
from metricforest import HierarchyForest
from metricforest.experiments.neighbours import mean_average_precision
from metricforest.experiments.paper import CANDIDATES, TABLE_1
from metricforest.forest_search import prepared
from metricforest.search.index import Index

K = 50
DEFAULT = ("quality", "speed", "singles")
CONSTRAINTS = {"sonar": 2_000, "segmentation": 7_000, "usps": 30_000}
Figure = tuple[str, str, str]


def clock(run: Callable, repeat: int) -> tuple[float, float]:
    """Median wall and processor seconds of warm runs."""
    wall, cpu = [], []
    for _ in range(repeat):
        start, used = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return statistics.median(wall), statistics.median(cpu)


def quality_of(distance: np.ndarray, exact: np.ndarray) -> float:
    return mean_average_precision(distance <= exact[:, -1:], tuple(range(10, K + 1, 10)))


@cache
def learn(name: str, alone: bool = False, **params) -> HierarchyForest | None:
    """A forest of labelled pairs, or unsupervised."""
    data = load(name)
    if data is None:
        return None
    metric = HierarchyForest.paper(
        100, n_constraints=CONSTRAINTS[name], n_jobs=2, random_state=0, **params
    )
    return metric.fit(data[0]) if alone else metric.fit(*data)


def searchable(metric: HierarchyForest) -> Index:
    """The metric's index, with certainties."""
    return prepared(metric, metric._index(), None, np.inf, False)


def bytes_per_point(metric: HierarchyForest) -> float:
    """Bytes of the index per point and tree; rows and nodes, which a forest has anyway, apart."""
    index = searchable(metric)
    return (index.certain.nbytes + index.order.nbytes + index.place.nbytes) / index.order.size


def quality() -> Iterator[Figure]:
    for name, params, how in [
        ("sonar", {}, ""),
        ("sonar", {"solver": "subgradient"}, " (subgradient solver)"),
        ("sonar", {"alone": True}, " (unsupervised)"),
        ("segmentation", {}, ""),
        ("segmentation", {"alone": True}, " (unsupervised)"),
        ("usps", {}, ""),
        ("usps", {"alone": True}, " (unsupervised)"),
    ]:
        metric = learn(name, **params)
        title = f"{name}{how}: mAP at k_O = 1 3 5 10 20 30"
        if metric is None:
            yield title, "not on this machine", ""
            continue
        exact, _ = metric.kneighbors(None, K, n_candidates=None)
        cells = [
            quality_of(metric.kneighbors(None, K, n_candidates=k)[0], exact) for k in CANDIDATES
        ]
        paper = " ".join(f"{p:.3f}" for p in TABLE_1[name])
        yield title, " ".join(f"{cell:.3f}" for cell in cells), f"paper {paper}"


def speed(repeat: int) -> Iterator[Figure]:
    metric = learn("usps")
    if metric is None:
        yield "usps: search", "not on this machine", ""
        return
    X = metric._rows.astype(np.float64)
    n = len(X)
    searchable(metric)  # compiles
    again = copy(metric)
    again._keep(metric._rows)
    wall, cpu = clock(lambda: searchable(again), 1)
    yield "usps: making the index, once", f"{wall:.1f} s ({cpu:.1f} s of processor)", ""
    yield "usps: bytes per point and tree", f"{bytes_per_point(metric):.0f}", ""
    peer = NearestNeighbors(n_neighbors=K, algorithm="brute", n_jobs=2).fit(X)
    exact = metric.kneighbors(None, K, n_candidates=None)[0]
    runs: dict[str, Callable] = {
        "scikit-learn, brute force, Euclidean": peer.kneighbors,
        "exact": lambda: metric.kneighbors(None, K, n_candidates=None),
    }
    for k in (10, 12):
        found = metric.kneighbors(None, K, n_candidates=k)[0]
        title = f"approximate, k_O = {k}, mAP {quality_of(found, exact):.3f}"
        runs[title] = lambda k=k: metric.kneighbors(None, K, n_candidates=k)
    alone = learn("usps", alone=True)
    assert alone is not None
    true = alone.kneighbors(None, K, n_candidates=None)[0]
    found = alone.kneighbors(None, K, n_candidates=10)[0]
    title = f"approximate, k_O = 10, unsupervised forest, mAP {quality_of(found, true):.3f}"
    runs[title] = lambda: alone.kneighbors(None, K, n_candidates=10)
    base = None
    for title, run in runs.items():
        run()
        wall, cpu = clock(run, repeat)
        base = base or (wall, cpu)
        yield (
            f"usps: {title}",
            f"{wall:.2f} s, {n / wall:.0f} queries/s, {wall / base[0]:.1f} x "
            f"({cpu:.1f} s of processor, {cpu / base[1]:.1f} x)",
            "<= 6 x" if title == "exact" else "<= 2 x" if title.startswith("approx") else "",
        )
    lean = copy(metric).set_params(keep_certainties=False)
    for title, k in (("exact", None), ("approximate, k_O = 10", 10)):
        lean.kneighbors(None, K, n_candidates=k)
        wall, cpu = clock(lambda k=k: lean.kneighbors(None, K, n_candidates=k), 1)
        yield (
            f"usps: {title}, keep_certainties=False",
            f"{wall:.1f} s ({cpu:.1f} s of processor), {bytes_per_point(lean):.0f} bytes",
            "",
        )
    yield from what_people_do_today(metric, load("usps")[0], repeat)


def what_people_do_today(metric: HierarchyForest, X: np.ndarray, repeat: int) -> Iterator[Figure]:
    few = 40
    callable_metric = NearestNeighbors(
        n_neighbors=K, algorithm="brute", metric=metric.get_metric()
    ).fit(X[:400])
    wall, _ = clock(lambda: callable_metric.kneighbors(X[:few]), 1)
    whole = wall / (few * 400) * len(X) ** 2
    yield (
        "usps: our distance as a callable in scikit-learn",
        f"{whole / 3600:.1f} h, extrapolated from {few} x 400 pairs",
        "slower than ours",
    )
    try:
        from pynndescent import NNDescent
    except ModuleNotFoundError:
        yield "usps: pynndescent", "not installed", ""
        return
    rows = metric._rows

    def descend() -> None:
        NNDescent(rows, n_neighbors=K, n_jobs=2, random_state=0).neighbor_graph  # noqa: B018

    start = time.perf_counter()
    descend()
    cold = time.perf_counter() - start
    wall, cpu = clock(descend, repeat)
    yield (
        "usps: pynndescent, its own Euclidean metric (it takes no estimator as a metric)",
        f"{wall:.2f} s ({cpu:.1f} s of processor) warm, {cold:.0f} s the first time",
        "slower than ours at k_O = 10",
    )


def cifar(repeat: int, trees: int) -> Iterator[Figure]:
    path = data_folder() / "cifar10.npz"
    if not path.exists():
        yield "cifar10: search", "not on this machine", ""
        return
    with np.load(path) as archive:
        X, y, Q = (archive[name] for name in ("X", "y", "X_test"))
    X, Q = X.astype(np.float64), Q.astype(np.float64)
    cost = {}
    for n in (12_500, 50_000):
        metric = HierarchyForest.paper(
            trees,
            min_node_size=30,
            max_features=100,
            n_constraints=12 * n,
            n_jobs=2,
            random_state=0,
        ).fit(X[:n], y[:n])
        metric.kneighbors(Q[:10], K, n_candidates=5)
        cost[n] = clock(lambda m=metric: m.kneighbors(Q, K, n_candidates=5), repeat)
    wall, cpu = cost[50_000]
    yield (
        f"cifar10: 10,000 queries, {trees} trees, k_O = 5",
        f"{wall:.1f} s, {len(Q) / wall:.0f} queries/s ({cpu:.1f} s of processor)",
        "",
    )
    yield (
        "cifar10: bytes per point and tree",
        f"{bytes_per_point(metric):.0f}",
        "",
    )
    yield (
        "cifar10: cost of a query at n = 50,000 over that at 12,500",
        f"{cpu / cost[12_500][1]:.2f} x",
        "<= 1.5 x",
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield "peak memory of this process", f"{peak:.2f} GiB", ""


def singles(repeat: int) -> Iterator[Figure]:
    """A service's questions: one row at a time, beside the same rows in one batch."""
    rng = np.random.default_rng(0)
    centres = 1.2 * rng.normal(size=(10, 30))
    y = np.arange(10_000) % 10
    X = centres[y] + rng.normal(size=(10_000, 30))
    Q = centres[y[:1000]] + rng.normal(size=(1000, 30))
    metric = HierarchyForest(100, random_state=0).fit(X, y)
    for _ in range(11):  # rows measured until certainties are worth keeping
        together = metric.kneighbors(Q, 10)
    each, batches, ones = [], [], []
    for _ in range(repeat):
        batches.append(clock(lambda: metric.kneighbors(Q, 10), 1))
        start, used, answers = time.perf_counter(), time.process_time(), []
        for q in Q:
            began = time.perf_counter()
            answers.append(metric.kneighbors(q[None], 10))
            each.append(time.perf_counter() - began)
        ones.append((time.perf_counter() - start, time.process_time() - used))
    for mine, alone in zip(together, zip(*answers, strict=True), strict=True):
        np.testing.assert_array_equal(mine, np.concatenate(alone))  # to the bit
    (wall, cpu), (wall_1, cpu_1) = np.median(batches, axis=0), np.median(ones, axis=0)
    title = "one row among 10,000, 100 trees, 10 neighbours"
    yield (
        f"{title}, warm",
        f"{1000 * np.median(each):.2f} ms ({1000 * cpu_1 / len(Q):.2f} ms of processor)",
        "<= 1 ms",
    )
    yield (
        "1,000 such rows one by one, beside one batch",
        f"{wall_1 / wall:.1f} x ({cpu_1 / cpu:.1f} x of processor)",
        "<= 3 x",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Quality and speed of searching.")
    parser.add_argument("--only", nargs="*", default=list(DEFAULT), choices=[*DEFAULT, "cifar"])
    parser.add_argument("--repeat", type=int, default=5, help="timings per figure (median)")
    parser.add_argument("--trees", type=int, default=20, help="trees of the CIFAR-10 forest")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    jobs = {
        "quality": quality,
        "speed": lambda: speed(options.repeat),
        "singles": lambda: singles(options.repeat),
        "cifar": lambda: cifar(options.repeat, options.trees),
    }
    print("| figure | measured | bar |\n|---|---|---|")
    with open(HERE / "results.jsonl", "a") as out:
        for name in options.only:
            for figure, measured, bar in jobs[name]():
                print(f"| {figure} | {measured} | {bar} |", flush=True)
                line = {"figure": figure, "measured": measured, "bar": bar}
                out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
