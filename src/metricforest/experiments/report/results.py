"""The stored results that a report is made of, and the small statistics all its sections use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...storage.values import BAD_ARRAYS
from ..catalogue import EXPERIMENTS
from ..protocol import Unit
from ..runner import digest, settings_of, units
from ..same_code import SameCode
from ..stored import Line, check_line, raw_path, read_lines
from .tables import Figure, Table

Parts = list[str | Table | Figure]
NAMES = {
    "usps": "USPS",
    "magic": "Magic",
    "cifar10": "CIFAR-10",
    "cifar100-coarse": "CIFAR-100, 20 classes",
    "cifar100-fine": "CIFAR-100, 100 classes",
}


class Claim(NamedTuple):
    """Something that the paper shows."""

    claim: str
    found: str
    reached: bool | None  # None: in part


def title_of(dataset: str) -> str:
    return NAMES.get(dataset, dataset.capitalize())


class Results:
    """The stored lines of one folder and how complete they are."""

    def __init__(self, folder: Path, rescore: bool = False):
        self.folder = folder
        stored = read_lines(folder)
        self.machine = read_machine(folder / "machine.json")
        self.same_code = SameCode(folder)
        self.quick = any(line["quick"] for line in stored)
        self.settings = {name: settings_of(name, self.quick) for name in EXPERIMENTS}
        wanted = {unit.key: unit for unit in units(EXPERIMENTS, self.quick)}
        self.lines: list[Line] = []
        self.stale = 0  # made with other settings than today's
        self.without_raw = 0  # could not be scored again
        for line in stored:
            unit = wanted.get(line["unit"])
            settings = self.settings[line["experiment"]] if unit else {}
            if unit is None or line["settings"] != digest(unit, settings):
                self.stale += 1
                continue
            times = getattr(EXPERIMENTS[unit.experiment], "TIMES", ())
            check_line(line, unit, shapes(unit, settings), times)
            self.without_raw += rescore and not raw_path(folder, unit).is_file()
            if rescore and raw_path(folder, unit).is_file():
                answers = read_raw(raw_path(folder, unit))
                score = EXPERIMENTS[unit.experiment].score
                line["scores"] = score(unit, answers, settings)
            self.lines.append(line)
        done = {line["unit"] for line in self.lines}
        self.missing: list[Unit] = [unit for key, unit in wanted.items() if key not in done]

    def of(self, experiment: str, **equal: Any) -> list[Line]:
        return [
            line
            for line in self.lines
            if line["experiment"] == experiment
            and all(line.get(key) == value for key, value in equal.items())
        ]

    def n_missing(self, experiment: str) -> int:
        return sum(unit.experiment == experiment for unit in self.missing)


def shapes(unit: Unit, settings: dict[str, Any]) -> dict[str, tuple[int | None, ...]]:
    """The shapes of a unit's scores: settings by their lengths, None for any length."""
    return {
        name: tuple(len(settings[axis]) if axis else None for axis in axes)
        for name, axes in EXPERIMENTS[unit.experiment].SCORES.items()
    }


def read_machine(path: Path) -> dict[str, Any]:
    """What the results were made on; nothing where it was not noted."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}); the next run writes it anew") from None


def read_raw(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as raw:
            return {key: raw[key] for key in raw.files}
    except BAD_ARRAYS:
        raise ValueError(
            f"{path} does not hold raw answers; delete it, or run its unit again"
        ) from None


def mean_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(np.mean(values)), float(spread)


def plus_minus(value: float, error: float, digits: int) -> str:
    """A value with its error, where there is one."""
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if np.isfinite(error) else "")


def with_error(values: Sequence[float], digits: int = 3) -> str:
    if not len(values):
        return ""
    return plus_minus(*mean_error(values), digits)


def best_variant(scores: list[list[float]]) -> list[float]:
    """Of the variants of a metric (columns), the one with the best mean over units (rows)."""
    table = np.array(scores)
    return table[:, table.mean(axis=0).argmax()].tolist() if len(table) else []


def notes_of(lines: Iterable[Line]) -> list[str]:
    """What deviates from the rest, metric by metric."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for line in lines:
        if line["notes"]:
            note = (line["metric"], "; ".join(line["notes"]))
            found.setdefault(note, {})[title_of(line["dataset"])] = None
    return [
        f"{metric} on {'; '.join(titles)}: {text}."
        for (metric, text), titles in sorted(found.items())
    ]


def gaps(results: Results, experiment: str) -> list[str]:
    """Why cells are empty."""
    missing = results.n_missing(experiment)
    said = []
    if missing:
        total = missing + len(results.of(experiment))
        said.append(
            f"{missing} of {total} units of work have not been run; empty cells wait for them."
        )
    return said


def joined(sentences: list[str]) -> Parts:
    return [" ".join(sentences)] if sentences else []
