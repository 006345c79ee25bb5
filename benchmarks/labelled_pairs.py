"""Which distance to choose, by the number of labelled pairs: our forest beside all rivals.

Eighteen data sets (`labelled_pairs_data.py`), up to 3,000 rows each. Half of the rows are learned from,
with 50 to 10,000 labelled pairs among them, a third "same"; everything is measured on the other half.
All methods (`labelled_pairs_methods.py`) get the same pairs and are asked the same questions, and more
pairs of one draw hold the fewer. Four scores:

    auc        a "same" pair is nearer than a "different" one, both of held-out rows
    ap         average precision over those pairs, weighted as if one in a hundred matched
    p10        share of the ten nearest held-out rows of a held-out row that are of its class
    knn        accuracy of its five nearest rows among those learned from

A set has as many pairs as its rows allow. One JSON line per (set, pairs, draw, method) is appended as it
comes to results/labelled_pairs.jsonl; what is there is not run again. A unit that takes more than
--most seconds of its processor is given up, and its line says so.

    python benchmarks/labelled_pairs.py fetch
    python benchmarks/labelled_pairs.py run [--workers K] [--draws 5] [--methods ...] [--sets ...]
                                            [--pairs ...] [--minutes M] [--again]
    python benchmarks/labelled_pairs.py report [--docs docs/labelled_pairs.md]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split

from labelled_pairs_data import SETS, folder, load
from labelled_pairs_methods import METHODS, OURS, SLOW, Task, available

LINES = Path(__file__).parent.parent / "results" / "labelled_pairs.jsonl"
PAIRS = (50, 100, 300, 1_000, 3_000, 10_000)
TREES = 150  # of every forest
SAME_SHARE = 3  # one pair in so many is a "same" pair
MATCH_RATE = 0.01
MOST_SAME, MOST_DIFFERENT = 3_000, 9_000  # held-out pairs
QUERIES, AMONG = 200, 750  # held-out rows that ask, and rows of either half that they find
NEAR, VOTERS = 10, 5


class Unit(NamedTuple):
    """One line to be."""

    set: str
    pairs: int
    draw: int
    method: str


class Half(NamedTuple):
    """What a draw of a set gives to all methods."""

    X: np.ndarray  # rows learned from
    y: np.ndarray
    pairs: (
        np.ndarray
    )  # all labelled pairs of the draw, in an order in which any first n hold a third
    labels: np.ndarray
    test_X: np.ndarray
    test_y: np.ndarray
    test_pairs: np.ndarray
    differ: np.ndarray  # of test_pairs


# ---------------------------------------------------------------------------------------- the draw


def split_pairs(y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of rows in random order: (same, different)."""
    pairs = np.stack(np.triu_indices(len(y), 1), axis=1)
    rng.shuffle(pairs)
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[same], pairs[~same]


def n_same(n_pairs: int) -> int:
    return round(n_pairs / SAME_SHARE)


@lru_cache(2)
def draw_half(name: str, draw: int) -> Half:
    X, y = load(name)
    seed = zlib.crc32(f"{name} {draw}".encode())
    rows, rest = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed)
    rng = np.random.default_rng(seed)
    same, different = split_pairs(y[rows], rng)
    most = max(PAIRS)
    same, different = same[: n_same(most)], different[: most - n_same(most)]
    # the k-th "same" pair stands where the first n pairs hold round(n / 3) of them
    place = np.concatenate([SAME_SHARE * np.arange(len(same)) + 1, np.arange(len(different)) * 1.5])
    order = np.argsort(place, kind="stable")
    labels = np.repeat([1, -1], [len(same), len(different)])
    near, far = split_pairs(y[rest], rng)
    near, far = near[:MOST_SAME], far[:MOST_DIFFERENT]
    return Half(
        X[rows],
        y[rows],
        np.concatenate([same, different])[order],
        labels[order],
        X[rest],
        y[rest],
        np.concatenate([near, far]),
        np.repeat([False, True], [len(near), len(far)]),
    )


def has_pairs(name: str, n_pairs: int) -> bool:
    """Whether half of the rows allow so many pairs, with a "same" one in three."""
    sizes = np.bincount(load(name)[1]) // 2
    same = (sizes * (sizes - 1) // 2).sum()
    n = sizes.sum()
    return same >= n_same(n_pairs) and n * (n - 1) // 2 - same >= n_pairs - n_same(n_pairs)


def chosen(half: Half, n_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """The first pairs of each kind, as many as make n."""
    k = n_same(n_pairs)
    same, different = np.flatnonzero(half.labels == 1), np.flatnonzero(half.labels == -1)
    take = np.sort(np.concatenate([same[:k], different[: n_pairs - k]]))
    return half.pairs[take], half.labels[take]


# --------------------------------------------------------------------------------------- measuring


def scores_of(metric: Any, half: Half) -> dict[str, float]:
    i, j = half.test_pairs.T
    distance = metric.pair_distance(half.test_X[i], half.test_X[j])
    same = ~half.differ
    odds = MATCH_RATE / (1 - MATCH_RATE)
    weight = np.where(same, odds * half.differ.sum() / same.sum(), 1.0)
    asking = half.test_X[:QUERIES]
    to_test = metric.pairwise_distances(asking, half.test_X[:AMONG])
    to_own = metric.pairwise_distances(asking, half.X[:AMONG])
    each = np.arange(len(asking))
    to_test[each, each] = np.inf
    near = half.test_y[np.argsort(to_test, axis=1, kind="stable")[:, :NEAR]]
    voters = half.y[np.argsort(to_own, axis=1, kind="stable")[:, :VOTERS]]
    n_classes = half.y.max() + 1
    votes = np.stack([(voters == c).sum(axis=1) for c in range(n_classes)], axis=1)
    truth = half.test_y[:QUERIES]
    return {
        "auc": roc_auc_score(half.differ, distance),
        "ap": average_precision_score(same, -distance, sample_weight=weight),
        "p10": float((near == truth[:, None]).mean()),
        "knn": float((votes.argmax(axis=1) == truth).mean()),
    }


def give_up(signal_number: int, frame: Any) -> None:
    raise TimeoutError


def measure(unit: Unit, trees: int, most: float) -> dict[str, Any]:
    """The line of a unit."""
    half = draw_half(unit.set, unit.draw)
    pairs, labels = chosen(half, unit.pairs)
    task = Task(half.X, pairs, labels, unit.draw, trees)
    line: dict[str, Any] = {**unit._asdict(), "trees": trees}
    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, most)
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metric = METHODS[unit.method](task)
            line["fit"] = round(time.process_time() - start, 2)
            line |= {key: round(value, 4) for key, value in scores_of(metric, half).items()}
    except TimeoutError:
        line["over"] = most
    except ValueError as error:  # a rival that cannot learn from so few pairs
        line["failed"] = str(error)[:200]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    line["seconds"] = round(time.process_time() - start, 2)
    return line


# ----------------------------------------------------------------------------------------- running


def stored(path: Path = LINES) -> dict[Unit, dict[str, Any]]:
    """The last line of every unit."""
    found = {}
    for text in path.read_text().splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
        except ValueError:  # cut short
            continue
        found[Unit(*(line[field] for field in Unit._fields))] = line
    return found


def units(given: argparse.Namespace) -> Iterator[Unit]:
    """The grid, what decides first: two draws of the quick methods, one of the slow, then the rest."""
    quick = [method for method in given.methods if method not in SLOW]
    slow = [method for method in given.methods if method in SLOW]
    early, late = range(min(2, given.draws)), range(2, given.draws)
    for draws, methods in ((early, quick), (range(1), slow), (late, quick)):
        for draw in draws:
            for method in methods:
                for n_pairs in given.pairs:
                    for name in given.sets:
                        if has_pairs(name, n_pairs):
                            yield Unit(name, n_pairs, draw, method)


def run(given: argparse.Namespace) -> None:
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"  # of every worker, which has yet to start
    done = {} if given.again else stored(given.lines)
    todo = iter([unit for unit in units(given) if unit not in done])
    end = time.monotonic() + 60 * given.minutes
    given.lines.parent.mkdir(parents=True, exist_ok=True)
    n_done = 0
    with (
        given.lines.open("a") as lines,
        ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool,
    ):
        running = set()
        while True:
            while len(running) < 2 * given.workers and time.monotonic() < end:
                unit = next(todo, None)
                if unit is None:
                    break
                running.add(pool.submit(measure, unit, given.trees, given.most))
            if not running:
                break
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for one in finished:
                lines.write(json.dumps(one.result()) + "\n")
                lines.flush()
                n_done += 1
                if n_done % 50 == 0:
                    print(f"{n_done} units", file=sys.stderr, flush=True)
    left = sum(1 for _ in todo)
    print(f"{n_done} units run, {len(done)} were there, {left} left", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("fetch", "run", "report"))
    parser.add_argument("--lines", type=Path, default=LINES)
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--pairs", nargs="+", type=int, default=PAIRS)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    everything = [name for name in METHODS if name not in OURS and available(name)]
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=everything)
    parser.add_argument("--trees", type=int, default=TREES)
    parser.add_argument("--most", type=float, default=60.0, help="processor seconds of a unit")
    parser.add_argument("--minutes", type=float, default=600.0, help="after which no unit starts")
    parser.add_argument("--again", action="store_true", help="also what is there")
    parser.add_argument("--docs", type=Path, help="page whose tables are written anew")
    given = parser.parse_args()
    if given.command == "fetch":
        for name in SETS:
            load(name)
        print(f"{len(SETS)} sets in {folder()}")
    elif given.command == "run":
        run(given)
    else:
        from labelled_pairs_report import report

        report(stored(given.lines), given.docs)


if __name__ == "__main__":
    main()
