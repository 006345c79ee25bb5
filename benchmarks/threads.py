"""Eight threads search, add to, remove from and save one index: is anything lost, or given twice?

    python benchmarks/threads.py --minutes 60     # or --seconds 5

Every change is logged while it holds the writers' turn, so that the log has the order in which the
changes were made. Three things are then true, or the run ends with an error that says which is not:

- The log replayed by one thread gives the same index, array by array. Every change that a thread made
  stands in the log once, and no id was given twice.
- Every answer is that of some state between the start and the end of the call. Neighbours and rows
  within a radius are compared with distances that were measured beforehand, without any index, and
  sorted; of approximate neighbours the ids must have been there and the distances be right.
- Every file and every pickle written meanwhile holds one such state.

Rows come from a fixed pool, so that an answer can be checked by the number of a row in the pool.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

import numpy as np

import metricforest
from metricforest import HierarchyForest
from metricforest.forest_search import prepared
from metricforest.search import shared

N_FIT, N_POOL, N_QUERIES, K = 600, 3_000, 24, 7
REMEMBERED = 5_000  # states that an answer may be compared with


class State(NamedTuple):
    """The rows searched after so many changes."""

    number: int
    ids: np.ndarray  # ascending
    pool: np.ndarray  # their rows' numbers in the pool


class Journal:
    """Every change of an index in the order it was made, and the states they led to."""

    def __init__(self, rows: np.ndarray) -> None:
        self.number_of = {row.tobytes(): i for i, row in enumerate(rows)}
        self.changes: list[tuple[str, np.ndarray, np.ndarray]] = []
        self.states = deque([State(0, np.arange(N_FIT), np.arange(N_FIT))], REMEMBERED)

    def add(self, forest: Any, index: Any, rows: Any, ids: Any, n_threads: int) -> Any:
        after, given = ADD(forest, index, rows, ids, n_threads)
        pool = np.array([self.number_of[row.tobytes()] for row in rows])
        _, old_ids, old_pool = self.states[-1]
        ids, at = np.concatenate([old_ids, given]), np.concatenate([old_pool, pool])
        order = np.argsort(ids)
        self._note("add", given, pool, ids[order], at[order])
        return after, given

    def remove(self, forest: Any, index: Any, ids: Any, n_threads: int) -> Any:
        after = REMOVE(forest, index, ids, n_threads)
        _, old_ids, old_pool = self.states[-1]
        kept = ~np.isin(old_ids, ids)
        self._note("remove", ids, ids[:0], old_ids[kept], old_pool[kept])
        return after

    def _note(self, what: str, ids: Any, pool: Any, live: np.ndarray, at: np.ndarray) -> None:
        self.changes.append((what, ids, pool))
        self.states.append(State(len(self.changes), live, at))

    def last(self) -> int:
        return self.states[-1].number

    def between(self, first: int, last: int) -> list[State]:
        """The states an answer may be of. A change is noted just before it can be seen."""
        while True:
            try:
                found = [s for s in self.states if first - 1 <= s.number <= last]
                break
            except RuntimeError:  # changed while it was read
                continue
        if not found or found[0].number > max(0, first - 1):
            raise AssertionError(
                "the states were forgotten before the answer came: raise REMEMBERED"
            )
        return found


ADD, REMOVE = shared.add_points, shared.remove_points


class Run:
    """One metric, its journal, and what the threads do with it."""

    def __init__(self, seed: int, folder: Path) -> None:
        rng = np.random.default_rng(seed)
        self.pool = rng.normal(size=(N_POOL, 6))
        side = np.arange(N_FIT) % 3
        self.pool[:N_FIT, 0] += 4.0 * side
        self.queries = rng.normal(size=(N_QUERIES, 6))
        self.metric = HierarchyForest(12, n_constraints=300, random_state=seed)
        self.metric.fit(self.pool[:N_FIT], side)
        self.before = pickle.dumps(self.metric)
        # Before anything is searched, and without an index.
        self.far = self.metric.pairwise_distances(self.queries, self.pool)
        self.journal = Journal(self.metric._prepare(self.pool))
        self.folder = folder
        self.stop, self.errors = Event(), []
        self.count: Counter[str] = Counter()
        self.counting = Lock()
        self.given: list[tuple[str, tuple[int, ...]]] = []  # changes as the threads saw them

    def thread(self, act: Callable[[np.random.Generator], str], seed: int) -> Thread:
        def work() -> None:
            rng = np.random.default_rng(seed)
            while not self.stop.is_set():
                try:
                    what = act(rng)
                except Exception:
                    self.errors.append(traceback.format_exc())
                    self.stop.set()
                    return
                with self.counting:
                    self.count[what] += 1

        return Thread(target=work)

    # ------------------------------------------------------------------------------- the threads

    def search(self, rng: np.random.Generator) -> str:
        asked = rng.integers(0, N_QUERIES, 3)
        X = self.queries[asked]
        kind = ("exact", "approximate", "radius", "graph", "ids")[rng.integers(5)]
        first = self.journal.last()
        if kind == "exact":
            answer = self.metric.kneighbors(X, K, n_candidates=None)
        elif kind == "approximate":
            answer = self.metric.kneighbors(X, K)
        elif kind == "radius":
            answer = self.metric.radius_neighbors(X, 0.3)
        elif kind == "graph":
            answer = self.metric.kneighbors_graph(X, K, mode="distance", n_candidates=None)
        else:
            answer = self.metric.ids_
        states = self.journal.between(first, self.journal.last())
        if not any(self.is_answer(kind, asked, answer, state) for state in states):
            raise AssertionError(
                f"{kind}: of none of the {len(states)} states there were: {answer}"
            )
        return kind

    def is_answer(self, kind: str, asked: np.ndarray, answer: Any, state: State) -> bool:
        if kind == "ids":
            return np.array_equal(answer, state.ids)
        far = self.far[asked][:, state.pool]
        if kind == "approximate":
            place = np.searchsorted(state.ids, answer[1]).clip(max=len(state.ids) - 1)
            there = (state.ids[place] == answer[1]).all()
            return there and np.array_equal(np.take_along_axis(far, place, 1), answer[0])
        order = np.argsort(far, axis=1, kind="stable")
        if kind == "radius":
            wanted = [row[row_far[row] <= 0.3] for row, row_far in zip(order, far, strict=True)]
            return all(
                np.array_equal(ids, state.ids[want]) and np.array_equal(d, row_far[want])
                for d, ids, want, row_far in zip(*answer, wanted, far, strict=True)
            )
        want = order[:, :K]
        wanted_far = np.take_along_axis(far, want, 1)
        if kind == "exact":
            return np.array_equal(answer[1], state.ids[want]) and np.array_equal(
                answer[0], wanted_far
            )
        return (
            answer.shape == (len(asked), len(state.ids))
            and np.array_equal(answer.indices, want.ravel())
            and np.array_equal(answer.data, wanted_far.ravel())
        )

    def add(self, rng: np.random.Generator) -> str:
        if len(self.metric.ids_) > 2 * N_FIT:
            time.sleep(0.01)
            return "add: full"
        X = self.pool[rng.choice(N_POOL, int(rng.integers(1, 40)), replace=False)]
        ids = self.metric.add(X)
        self.given.append(("add", tuple(ids.tolist())))
        time.sleep(0.02 * rng.random())
        return "add"

    def remove(self, rng: np.random.Generator) -> str:
        ids = self.metric.ids_
        if len(ids) < N_FIT:
            time.sleep(0.01)
            return "remove: too few"
        chosen = rng.choice(ids, int(rng.integers(1, 40)), replace=False)
        try:
            self.metric.remove(chosen)
        except ValueError as error:
            if "not in the index" not in str(error):  # another thread was first with one of them
                raise
            return "remove: too late"
        self.given.append(("remove", tuple(chosen.tolist())))
        time.sleep(0.02 * rng.random())
        return "remove"

    def write(self, rng: np.random.Generator) -> str:
        """A file or a pickle, read again: one state, which can be searched."""
        first = self.journal.last()
        if rng.random() < 0.7:
            path = self.folder / "metric.mf"
            self.metric.save(path)
            what, last = "save", self.journal.last()
            again = metricforest.load(path)
        else:
            written = pickle.dumps(self.metric)
            what, last = "pickle", self.journal.last()
            again = pickle.loads(written)
        asked = np.arange(3)
        ids, answer = again.ids_, again.kneighbors(self.queries[:3], K, n_candidates=None)
        states = self.journal.between(first, last)
        if not any(
            np.array_equal(ids, state.ids) and self.is_answer("exact", asked, answer, state)
            for state in states
        ):
            raise AssertionError(f"{what} holds none of the {len(states)} states there were")
        return what

    # ----------------------------------------------------------------------------- and afterwards

    def check_changes(self) -> None:
        logged = Counter((what, tuple(ids.tolist())) for what, ids, _ in self.journal.changes)
        assert logged == Counter(self.given), "the log has other changes than the threads made"
        added = [i for what, ids in self.given if what == "add" for i in ids]
        assert len(added) == len(set(added)), "an id was given twice"
        assert not added or min(added) >= N_FIT, "an id of fit was given again"

    def check_replay(self) -> None:
        alone = pickle.loads(self.before)
        for what, ids, pool in self.journal.changes:
            if what == "add":
                given = alone.add(self.pool[pool])
                assert np.array_equal(given, ids), "the replay gave other ids"
            else:
                alone.remove(ids)
        mine, theirs = (prepared(m, m._index(), None, np.inf, False) for m in (self.metric, alone))
        for name, a, b in zip(mine._fields, mine, theirs, strict=True):
            assert np.array_equal(a, b), f"{name} of the index differs from that of the replay"


def run(seconds: float, seed: int = 0) -> Counter[str]:
    """What was done how often; AssertionError where anything was wrong."""
    with tempfile.TemporaryDirectory() as folder:
        work = Run(seed, Path(folder))
        shared.add_points, shared.remove_points = work.journal.add, work.journal.remove
        try:
            acts = (work.search,) * 4 + (work.add,) * 2 + (work.remove, work.write)
            threads = [work.thread(act, 1_000 * seed + i) for i, act in enumerate(acts)]
            for thread in threads:
                thread.start()
            work.stop.wait(seconds)
            work.stop.set()
            for thread in threads:
                thread.join()
        finally:
            shared.add_points, shared.remove_points = ADD, REMOVE
        if work.errors:
            raise AssertionError("\n".join(work.errors))
        work.check_changes()
        work.check_replay()
        return work.count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    seconds = 60 * args.minutes + args.seconds or 5.0
    started = time.perf_counter()
    count = run(seconds, args.seed)
    passed = time.perf_counter() - started
    done = ", ".join(f"{n:,} {what}" for what, n in sorted(count.items()))
    print(f"{passed:,.0f} s, 8 threads: {done}. Nothing lost, no id twice, equal to the replay")


if __name__ == "__main__":
    main()
