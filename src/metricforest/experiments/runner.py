"""Running units of work and keeping what they find.

A unit whose line is stored (`stored`), made with the same settings, is not run again, unless lines made
by other code are not good enough; the new line then takes the place of the old one at the end of the
run. `OUT/raw/running` is locked while a run adds to the folder. Small units run side by side in
processes of one thread each; units that are timed or large run one after the other with all threads.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, TextIO

import numpy as np

from ..storage.outputs import check_output, replace_file
from ..storage.values import BAD_ARRAYS
from ..version import __version__
from .catalogue import EXPERIMENTS
from .protocol import Settings, Unit, chosen, load, relevant
from .same_code import SameCode
from .sources import code, commit
from .stored import Line, read_lines, remove_replaced, store

try:
    import fcntl
except ImportError:  # Windows: two runs in one folder are not noticed there
    fcntl = None

FIRST_GUESS = {False: 10.0, True: 0.5}  # seconds of a unit like no other so far, by whether quick


def settings_of(experiment: str, quick: bool) -> Settings:
    return chosen(EXPERIMENTS[experiment].SETTINGS, quick)


def digest(unit: Unit, settings: Settings) -> str:
    """Names the settings a line was made with."""
    text = json.dumps(relevant(unit, settings), sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"


def units(experiments: Iterable[str], quick: bool) -> list[Unit]:
    return [
        unit for name in experiments for unit in EXPERIMENTS[name].units(settings_of(name, quick))
    ]


def perform(unit: Unit, quick: bool, n_jobs: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Do one unit: its line, and its raw answers."""
    experiment: ModuleType = EXPERIMENTS[unit.experiment]
    settings = settings_of(unit.experiment, quick)
    made_by, at = code(unit.metric, unit.experiment), commit()  # before the files can change
    wall, used = time.perf_counter(), time.process_time()
    answer = experiment.answer(unit, settings, n_jobs)
    wall, used = time.perf_counter() - wall, time.process_time() - used
    name, _, labels = unit.dataset.partition("-")
    line = {
        "unit": unit.key,
        "experiment": unit.experiment,
        "dataset": unit.dataset,
        "metric": unit.metric,
        "seed": unit.seed,
        **dict(unit.more),
        "scores": experiment.score(unit, answer.raw, settings),
        "seconds": {key: round(value, 4) for key, value in answer.seconds.items()}
        | {"unit": round(wall, 3), "unit_processor": round(used, 3)},
        "notes": list(answer.notes),
        "quick": quick,
        "settings": digest(unit, settings),
        "data": load(name, labels or "fine").version,
        "threads": n_jobs,
        "library": __version__,
        "code": made_by,
        "commit": at,
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
    }
    return line, answer.raw


def machine() -> dict[str, Any]:
    """What the numbers were made on."""
    import joblib
    import numba
    import scipy
    import sklearn

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.partition(":")[2].strip()
            for line in cpuinfo.read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{m.__name__: m.__version__ for m in (np, scipy, sklearn, numba, joblib)},
        "metricforest": __version__,
    }


class Progress:
    """What is done, on standard error, with the time left."""

    def __init__(self, todo: list[Unit], done: list[Line], jobs: int, quick: bool, out: TextIO):
        self.out, self.jobs, self.first_guess = out, jobs, FIRST_GUESS[quick]
        self.left = {unit.key: unit for unit in todo}
        self.total = len(todo)
        self.known: dict[tuple, list[float]] = {}
        for line in done:
            self._learn(line)

    def _learn(self, line: dict[str, Any]) -> None:
        kind = (line["experiment"], line["dataset"], line["metric"])
        for known in (kind, kind[:2], kind[:1]):
            self.known.setdefault(known, []).append(line["seconds"]["unit"])

    def _expected(self, unit: Unit) -> float:
        kind = (unit.experiment, unit.dataset, unit.metric)
        for known in (kind, kind[:2], kind[:1]):
            if known in self.known:
                return float(np.mean(self.known[known]))
        return self.first_guess

    def seconds_left(self) -> float:
        return sum(
            self._expected(unit) / (1 if unit.alone else self.jobs) for unit in self.left.values()
        )

    def say(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def finished(self, unit: Unit, line: dict[str, Any]) -> None:
        self._learn(line)
        del self.left[unit.key]
        self.say(
            f"[{self.total - len(self.left)}/{self.total}] {unit.key}  "
            f"{line['seconds']['unit']:.1f} s; about {duration(self.seconds_left())} left"
        )


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"


def run(
    folder: Path,
    experiments: Iterable[str],
    *,
    quick: bool = False,
    jobs: int = 1,
    again: bool = False,
    out: TextIO = sys.stderr,
) -> list[str]:
    """Do every unit that is not done yet, or, with `again`, not by this code. Returns what went wrong."""
    with only_run(folder):
        return _run(folder, experiments, quick, jobs, again, out)


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Keeps other runs out of a folder; the lock ends with the process, however that ends."""
    path = folder / "raw" / "running"
    path.parent.mkdir(parents=True, exist_ok=True)
    check_output(path)
    with path.open("a+", encoding="utf-8") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise ValueError(
                    f"another run (process {file.read().strip() or 'unknown'}) is adding to {folder}; "
                    "wait for it, or give this one another folder"
                ) from None
            except OSError:  # a file system without locks
                pass
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _run(
    folder: Path, experiments: Iterable[str], quick: bool, jobs: int, again: bool, out: TextIO
) -> list[str]:
    done = lines_of_kind(folder, quick)
    by_unit = {(line["unit"], line["settings"]): line for line in done}
    same_code = SameCode(folder)
    wanted = units(experiments, quick)
    todo = []
    for unit in wanted:
        key = (unit.key, digest(unit, settings_of(unit.experiment, quick)))
        if key not in by_unit or (again and not same_code.is_present(by_unit[key])):
            todo.append(unit)
    progress = Progress(todo, done, jobs, quick, out)
    progress.say(
        f"{len(wanted)} units of work, {len(wanted) - len(todo)} done before; results in {folder}"
    )
    if todo:
        note_machine(folder, quick)
    failed = []
    for dataset, error in not_there(todo).items():
        without = [unit for unit in todo if unit.dataset == dataset]
        todo = [unit for unit in todo if unit.dataset != dataset]
        for unit in without:
            progress.left.pop(unit.key)
        failed.append(f"{len(without)} units with {dataset}: {error}")
        progress.say(f"LEFT OUT {failed[-1]}")
    for unit, result in outcomes(todo, quick, jobs):
        if isinstance(result, Exception):
            failed.append(f"{unit.key}: {type(result).__name__}: {result}")
            progress.left.pop(unit.key)
            progress.say(f"FAILED {failed[-1]}")
        else:
            store(folder, unit, *result)
            progress.finished(unit, result[0])
    remove_replaced(folder)
    return failed


def lines_of_kind(folder: Path, quick: bool) -> list[Line]:
    """The lines of a folder that a quick, or a full, run may add to."""
    folder.mkdir(parents=True, exist_ok=True)
    done = read_lines(folder)
    if any(line["quick"] != quick for line in done):
        kinds = ("a full run", "a quick one")
        raise ValueError(
            f"{folder} holds the results of {kinds[not quick]}; give {kinds[quick]} another folder"
        )
    return done


def not_there(todo: list[Unit]) -> dict[str, str]:
    """Why data sets that these units need cannot be had: asked once, before anything runs."""
    reasons = {}
    for dataset in dict.fromkeys(unit.dataset for unit in todo):
        name, _, labels = dataset.partition("-")
        try:
            load(name, labels or "fine")
        except BAD_ARRAYS as error:
            reasons[dataset] = str(error)
    return reasons


def note_machine(folder: Path, quick: bool) -> None:
    known = {**machine(), "quick": quick}
    text = json.dumps(known, indent=1) + "\n"
    replace_file(folder / "machine.json", [text.encode()])


def outcomes(todo: list[Unit], quick: bool, jobs: int) -> Iterator[tuple[Unit, Any]]:
    """Each unit with its line and raw answers, or with the exception it ended in, as they come."""
    small = [unit for unit in todo if not unit.alone]
    if jobs > 1 and len(small) > 1:
        yield from in_processes(small, quick, jobs)
    else:
        for unit in small:
            yield unit, attempt(unit, quick, jobs)
    for unit in todo:
        if unit.alone:
            yield unit, attempt(unit, quick, jobs)


def attempt(unit: Unit, quick: bool, n_jobs: int) -> Any:
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(n_jobs):  # linear algebra would take all cores
            return perform(unit, quick, n_jobs)
    except Exception as error:  # whatever it is, the other units are not to blame
        return error


def in_processes(small: list[Unit], quick: bool, jobs: int) -> Iterator[tuple[Unit, Any]]:
    """As `outcomes`, each unit in one of `jobs` processes; where one dies, others take over."""
    rest = deque(small)
    while rest:
        yield from in_pool(rest, quick, jobs)


def in_pool(rest: deque[Unit], quick: bool, jobs: int) -> Iterator[tuple[Unit, Any]]:
    """Takes units from `rest` until there are none or a process has died."""
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=become_worker) as pool:
        waiting = {}
        try:
            while rest or waiting:
                while rest and len(waiting) < jobs:
                    waiting[pool.submit(attempt, rest[0], quick, 1)] = rest[0]
                    rest.popleft()
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    yield waiting.pop(future), result
        except BrokenProcessPool:
            died = RuntimeError("a worker process died, perhaps for lack of memory")
            for unit in waiting.values():
                yield unit, died
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def become_worker() -> None:
    """In a worker process: load the libraries whose threads are limited, end when the run is killed."""
    import metricforest.rivals  # noqa: F401

    run = parent_process()
    if run is not None:
        Thread(target=lambda: (run.join(), os._exit(1)), daemon=True).start()
