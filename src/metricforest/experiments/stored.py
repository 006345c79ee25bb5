"""The folder of results: what a run keeps there, and how it is read again.

    OUT/scores.jsonl      one line per finished unit, appended at once
    OUT/raw/KEY.npz       its raw answers, written before the line

A line cut short by a kill is left out when the file is read, so that its unit runs again. Any other line
that is not a result is an error, which names the file and the line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import npz
from ..storage.outputs import append_line, replace_file
from .protocol import Unit

SCORES = "scores.jsonl"
KINDS: dict[str, type | tuple[type, ...]] = {  # what a line must have to be a result
    **dict.fromkeys(("unit", "experiment", "dataset", "metric", "settings", "data", "when"), str),
    **{"seed": int, "scores": dict, "seconds": dict, "notes": list, "quick": bool},
}


class Line(dict[str, Any]):
    """What one line holds; `place` says where it is, for messages."""

    place: str = ""


def json_lines(path: Path, kinds: dict[str, Any]) -> list[Line]:
    """The lines of a file, if it is there, each an object with fields of these types."""
    found = []
    if not path.is_file():
        return found
    for number, text in enumerate(path.read_bytes().split(b"\n"), 1):
        place = f"{path}, line {number}"
        try:
            values = json.loads(text)
        except RecursionError:
            raise ValueError(f"{place}: brackets are nested too deeply; delete the line") from None
        except ValueError:  # cut short
            continue
        wrong = [key for key, kind in kinds.items() if not has(values, key, kind)]
        if wrong:
            raise ValueError(f"{place}: no valid value of {', '.join(wrong)}; delete the line")
        line = Line(values)
        line.place = place
        found.append(line)
    return found


def has(values: Any, key: str, kind: type | tuple[type, ...]) -> bool:
    value = values.get(key) if isinstance(values, dict) else None
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def read_lines(folder: Path) -> list[Line]:
    """The lines stored so far, the last one for each unit."""
    lines = json_lines(folder / SCORES, KINDS)
    for line in lines:
        if not all(isinstance(note, str) for note in line["notes"]):
            raise ValueError(f"{line.place}: no valid value of notes; delete the line")
    return list({line["unit"]: line for line in lines}.values())


def check_line(
    line: Line, unit: Unit, scores: dict[str, tuple[int | None, ...]], times: Sequence[str]
) -> None:
    """Raise unless a line is the result of a unit, with these times and scores of these shapes."""
    said = {"experiment": unit.experiment, "dataset": unit.dataset, "metric": unit.metric}
    for key, value in {**said, "seed": unit.seed, **dict(unit.more)}.items():
        if line.get(key) != value:
            raise ValueError(
                f"{line.place}: {key} is {line.get(key)!r} in the results of {unit.key}; delete the line"
            )
    for name in ("unit", "unit_processor", *times):
        if not isinstance(line["seconds"].get(name), int | float):
            raise ValueError(f"{line.place}: no valid value of seconds ({name}); delete the line")
    for name, shape in scores.items():
        try:
            found = np.array(line["scores"].get(name))
        except ValueError:  # rows of several lengths
            found = np.array(None)
        right = found.dtype.kind in "if" and found.ndim == len(shape)
        if not right or any(n not in (None, m) for n, m in zip(shape, found.shape, strict=True)):
            raise ValueError(
                f"{line.place}: the score {name} of {unit.key} is missing or damaged; delete the line"
            )


def raw_path(folder: Path, unit: Unit) -> Path:
    return folder / "raw" / f"{unit.key}.npz"


def store(folder: Path, unit: Unit, line: dict[str, Any], raw: dict[str, np.ndarray]) -> None:
    """Keep a finished unit: raw answers beside and renamed, then its line in one write."""
    path = raw_path(folder, unit)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [npz(raw)])
    append_line(folder / SCORES, json.dumps(line, ensure_ascii=False))


def remove_replaced(folder: Path) -> None:
    """Leave one line per unit, the last, where units were run again."""
    path = folder / SCORES
    lines = read_lines(folder)
    if path.is_file() and len(path.read_bytes().splitlines()) > len(lines):
        texts = (json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
        replace_file(path, texts)
