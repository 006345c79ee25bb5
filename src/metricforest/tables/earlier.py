"""What stands where a result shall go: an earlier result of the same command, or work of the user's."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FIRST = 1 << 16  # bytes that hold the header, or the first row of JSON
MORE = re.compile(
    r"probability|distance|same|membership|v[0-9]+|.* \((left|right)\)", re.DOTALL
)  # columns that some results have on top
NPY_MARK = 128  # spaces that end the header of our .npy files: no other program writes so many
NOT_OURS = "what is there is not an earlier result of this command"


def foreign(columns: Sequence[str], format: str) -> Callable[..., str]:
    """A function of a path: why the file there is not to be replaced, or "".

    It may be replaced if it is of this format and has the columns that we write, these first.
    """

    def why(path: Path) -> str:
        try:
            names = READERS[format](path)
        except Exception:  # whatever it is, it is not what we write
            names = None
        if names is None or names[: len(columns)] != [*columns]:
            return NOT_OURS
        own = [name for name in names[len(columns) :] if not MORE.fullmatch(name)]
        if own:
            return f"what is there has a column {own[0][:80]!r}, which this command does not write"
        return ""

    return why


def n_filled(path: str, format: str, fill_in: str) -> int:
    """How many rows of a file have something in the column that users fill in; 0 if it is no such file."""
    place = Path(path)
    try:
        if not place.is_file() or fill_in not in (READERS[format](place) or ()):
            return 0
        return filled(place, format, fill_in)
    except Exception:  # whatever it is, it holds no answers of ours
        return 0


def foreign_npy(path: Path) -> str:
    """Why the .npy file there is not to be replaced, or "": an array of the user's own has no mark."""
    with open(path, "rb") as file:
        start = file.read(FIRST)
    length = int.from_bytes(start[8:10], "little")
    text = start[10 : 10 + length].removesuffix(b"\n")
    ours = start[:8] == b"\x93NUMPY\1\0" and text.endswith(b" " * NPY_MARK)
    return "" if ours else NOT_OURS


def articled(word: str | None) -> str:
    return f"an {word}" if word and word[0] in "aeiou" else f"a {word}"


def head(path: Path) -> str:
    with open(path, "rb") as file:
        return file.read(FIRST).decode("utf-8-sig")


def names_of_csv(path: Path, sep: str = ",") -> list[str]:
    return next(csv.reader(head(path).splitlines()[:1], delimiter=sep))


def names_of_json(path: Path) -> list[str] | None:
    lines = head(path).splitlines()
    return [*json.loads(lines[1].rstrip(","))] if lines[0] == "[" and len(lines) > 1 else None


def names_of_parquet(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    return pq.read_schema(path).names


READERS: dict[str, Callable[[Path], Any]] = {
    "csv": names_of_csv,
    "tsv": lambda path: names_of_csv(path, "\t"),
    "json": names_of_json,
    "parquet": names_of_parquet,
}


def filled(path: Path, format: str, column: str) -> int:
    """How many rows of an earlier result have a value in this column."""
    if format == "parquet":
        import pyarrow.parquet as pq

        values = pq.read_table(path, columns=[column]).column(0).to_pylist()
    elif format == "json":
        values = [row.get(column) for row in json.loads(path.read_text("utf-8-sig"))]
    else:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t" if format == "tsv" else ",")
            values = [row[column] for row in rows]
    return sum(bool(str(value or "").strip()) for value in values)
