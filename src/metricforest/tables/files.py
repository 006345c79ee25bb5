"""Tables in files, for the command line: read whole, sampled or piece by piece, and written whole.

Reading gives pandas frames. A CSV is read as text, and columns.py decides what its columns hold, or
reads them as a model needs them. Writing goes through `storage.outputs`: results are pieces of bytes, and
a file is there whole or not at all.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..storage.outputs import unreadable, write_through
from ..storage.values import BAD_ARRAYS
from .columns import as_text, plain_numbers

CHUNK = 20_000  # rows read, measured and written at once
SEPARATORS = ",\t;|"
FORMATS = ("csv", "tsv", "parquet", "json")


class FileError(ValueError):
    """A file that cannot be used; the message says which and why."""


def pandas() -> Any:
    """pandas, or one line that says how to get it."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise FileError(
            f"reading tables needs pandas, which is installed with this ({error}): "
            "pip install pandas"
        ) from error
    return pandas


def kind_of_file(path: str) -> str:
    """csv, tsv, xlsx, parquet, npy or npz, by the suffix; standard input is CSV."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in (".gz", ".bz2", ".xz", ".zst"):
        suffixes.pop()
    kind = suffixes[-1].removeprefix(".") if suffixes else "csv"
    kind = {"txt": "csv", "tab": "tsv", "pq": "parquet"}.get(kind, kind)
    if kind not in ("csv", "tsv", "xlsx", "parquet", "npy", "npz"):
        raise FileError(
            f"{path}: a table is a .csv, .tsv, .xlsx, .parquet, .npy or .npz file, not .{kind}"
        )
    return kind


def read_chunks(
    path: str,
    *,
    sep: str | None = None,
    numbers: Container[str] = (),
    twice: bool = False,
    rows: int = CHUNK,
) -> Iterator[Any]:
    """Frames of at most so many rows; an error names the file.

    The cells of a CSV are text, and only an empty one is missing: NA is a country. Columns that are
    known to hold `numbers` become numbers where all of a piece are. With `twice` a CSV may have two
    columns of one name.
    """
    kind = kind_of_file(path)
    if path != "-":
        check_readable(path)
    try:
        if kind in ("csv", "tsv"):
            sep = sep or ("\t" if kind == "tsv" else None)
            for frame in csv_chunks(path, sep, twice, rows):
                yield with_numbers(frame, numbers)
        elif kind == "xlsx":
            for frame in sheet_chunks(path, twice, rows):
                yield with_numbers(frame, numbers)
        elif kind == "parquet":
            yield from parquet_chunks(path, rows)
        else:
            yield from array_chunks(path, kind, rows)
    except FileError:
        raise
    except BAD_ARRAYS as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise FileError(f"{path}: cannot be read as {kind}: {why}"[:400]) from error


def check_readable(path: str) -> None:
    """Raise unless the file is there and may be read; the message has its name."""
    why = unreadable(path)
    if why:
        raise FileError(f"{path}: {why}")
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise FileError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def csv_chunks(path: str, sep: str | None, twice: bool, rows: int) -> Iterator[Any]:
    """The rows of a CSV as text. The first line is read as it is: pandas would rename columns."""
    pd = pandas()
    source: Any = sys.stdin.buffer if path == "-" else path
    options: dict[str, Any] = {"sep": sep or ",", "chunksize": rows, "low_memory": False}
    options |= {"dtype": str, "keep_default_na": False, "na_values": [""]}
    options |= {"header": None, "skipinitialspace": True, "encoding": "utf-8-sig"}
    empty = True
    try:
        with pd.read_csv(source, **options) as reader:
            head = reader.get_chunk(1).iloc[0]
            names = [f"Unnamed: {j}" if pd.isna(n) else str(n) for j, n in enumerate(head)]
            check_separator(path, names, sep)
            again = [name for j, name in enumerate(names) if name in names[:j]]
            if again and not twice:
                raise FileError(f"{path}: it has the column {again[0]!r} twice")
            for frame in reader:
                frame.columns = names
                empty = False
                yield frame
    except (pd.errors.EmptyDataError, StopIteration):
        raise FileError(f"{path}: it is empty") from None
    except pd.errors.ParserError as error:
        why = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if " in line 2, " in why:
            raise FileError(f"{path}: its rows have more values than its header") from None
        raise FileError(
            f"{path}: {why}. Is {sep or ','!r} the separator? --sep names another"
        ) from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: it is not UTF-8 text (byte {error.start})") from error
    if empty:
        raise FileError(f"{path}: it has a header and no rows")


def sheet_chunks(path: str, twice: bool, rows: int) -> Iterator[Any]:
    """The rows of a workbook's first sheet as text, as a CSV of it would have them."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ModuleNotFoundError as error:
        raise FileError(f'{path}: needs openpyxl: pip install "metricforest[xlsx]"') from error
    pd = pandas()
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except InvalidFileException as error:
        raise ValueError(str(error)) from error
    try:
        lines = (line for line in book.worksheets[0].iter_rows(values_only=True) if any_value(line))
        head = next(lines, None)
        if head is None:
            raise FileError(f"{path}: its first sheet is empty")
        width = max(j + 1 for j, name in enumerate(head) if name is not None)
        names = [f"Unnamed: {j}" if n is None else as_cell(n) for j, n in enumerate(head[:width])]
        again = [name for j, name in enumerate(names) if name in names[:j]]
        if again and not twice:
            raise FileError(f"{path}: it has the column {again[0]!r} twice")
        start = 0
        while block := list(islice(lines, rows)):
            cells = [[as_cell(value) for value in line[:width]] for line in block]
            yield pd.DataFrame(
                cells, columns=names, index=range(start, start + len(block)), dtype=object
            )
            start += len(block)
        if start == 0:
            raise FileError(f"{path}: its first sheet has a header and no rows")
    finally:
        book.close()


def any_value(line: tuple[Any, ...]) -> bool:
    return any(value is not None for value in line)


def as_cell(value: Any) -> str | None:
    """A cell of a sheet as text: 7.0 as 7, a day as 2024-01-31; None: empty."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        day = value.time() == time()
        return value.date().isoformat() if day else value.isoformat()
    return as_text(value).strip() or None


def with_numbers(frame: Any, names: Container[str]) -> Any:
    """The frame with these columns as numbers, where every text is plainly one."""
    for name in frame.columns:
        if name in names:
            values = plain_numbers(frame[name].tolist())
            if values is not None:
                frame[name] = values
    return frame


def check_separator(path: str, names: list[str], sep: str | None) -> None:
    """A single column with another separator in its name was cut by the wrong one."""
    if len(names) > 1:
        return
    name = names[0]
    others = [other for other in SEPARATORS if other in name and other != (sep or ",")]
    if others:
        shown = "'\\t'" if others[0] == "\t" else repr(others[0])
        raise FileError(
            f"{path}: cut at {sep or ','!r} it has the one column {name[:60]!r}; "
            f"is it separated by {shown}? Then pass --sep {shown}"
        )


def guess_separator(path: str) -> str | None:
    """What separates the columns of a small CSV: whatever its first line has most of."""
    if not path.lower().endswith((".csv", ".txt")):
        return None
    check_readable(path)
    with open(path, "rb") as file:
        first = file.readline(4096).decode("utf-8", "replace")
    return max(SEPARATORS, key=first.count)


def parquet_chunks(path: str, rows: int) -> Iterator[Any]:
    pandas()
    try:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException
    except ModuleNotFoundError as error:
        raise FileError(f'{path}: needs pyarrow: pip install "metricforest[cli]"') from error
    try:
        with pq.ParquetFile(path) as file:
            if not file.metadata.num_rows:
                raise FileError(f"{path}: it has no rows")
            for batch in file.iter_batches(rows):
                frame = batch.to_pandas()
                yield frame.reset_index(drop=frame.index.names == [None])
    except ArrowException as error:
        raise FileError(f"{path}: {' '.join(str(error).split())[:300]}") from error


def array_chunks(path: str, kind: str, rows: int) -> Iterator[Any]:
    pd = pandas()
    if kind == "npy":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            name = "X" if "X" in archive.files else archive.files[0] if archive.files else ""
            if len(archive.files) != 1 and name != "X":
                found = ", ".join(archive.files[:8]) or "nothing"
                raise FileError(
                    f"{path}: the table must be its only array or called X; it has {found}"
                )
            array = archive[name]
    if array.ndim != 2 or not len(array):
        raise FileError(f"{path}: a table has rows and columns, this has shape {array.shape}")
    names = [f"x{j}" for j in range(array.shape[1])]
    for low in range(0, len(array), rows):
        yield pd.DataFrame(np.asarray(array[low : low + rows]), columns=names)


def numbered(chunks: Iterable[Any]) -> Iterator[Any]:
    """The frames with rows numbered from 0 through all of them."""
    start = 0
    for frame in chunks:
        frame.index = range(start, start + len(frame))
        start += len(frame)
        yield frame


def read_table(path: str, *, sep: str | None = None, twice: bool = False) -> Any:
    """The whole table as one frame."""
    frames = list(numbered(read_chunks(path, sep=sep, twice=twice)))
    return frames[0] if len(frames) == 1 else pandas().concat(frames)


def read_sample(
    path: str,
    most: int,
    keep: Callable[[Any], np.ndarray],
    *,
    sep: str | None = None,
    seed: int = 0,
    seen: Callable[[int], None] = lambda rows: None,
) -> tuple[Any, int]:
    """(a random sample of at most `most` rows, in order, beside all that `keep` picks; rows in all).

    Every row draws a number, and those with the lowest stay. One pass, and never more in memory
    than the sample and a piece of the file.
    """
    rng = np.random.default_rng(seed)
    kept, draw, total = None, np.empty(0), 0
    for frame in numbered(read_chunks(path, sep=sep)):
        total += len(frame)
        seen(total)
        fresh = np.where(keep(frame), -1.0, rng.random(len(frame)))
        draw = np.concatenate([draw, fresh])
        kept = frame if kept is None else pandas().concat([kept, frame])
        n_keep = max(most, int((draw < 0).sum()))
        if len(draw) > n_keep:
            lowest = np.sort(np.argpartition(draw, n_keep - 1)[:n_keep])
            kept, draw = kept.iloc[lowest], draw[lowest]
    if kept is None:
        raise FileError(f"{path}: it has no rows")
    return kept, total


# --------------------------------------------------------------------------------------- results


def format_of(output: str | None, asked: str | None) -> str:
    """The format asked for, or that of the output's suffix, or CSV."""
    if asked:
        return asked
    suffix = Path(output).suffix.lower().removeprefix(".") if output else ""
    if suffix and suffix not in FORMATS:
        raise FileError(
            f"{output}: results are written as .csv, .tsv, .parquet or .json; "
            "--format names one for any other name"
        )
    return suffix or "csv"


def write_frames(output: str | None, frames: Iterable[Any], format: str) -> None:
    """Write frames with the same columns one after the other, to a file or standard output."""
    parts = {"parquet": parquet_parts, "json": json_parts}.get(format)
    if parts is None:
        write_through(output, csv_parts(frames, "\t" if format == "tsv" else ","))
    else:
        write_through(output, parts(frames))


def csv_parts(frames: Iterable[Any], sep: str) -> Iterator[bytes]:
    for number, frame in enumerate(frames):
        out = io.StringIO()
        frame.to_csv(out, sep=sep, index=False, header=number == 0, quoting=csv.QUOTE_MINIMAL,
                     float_format="%.6g", lineterminator="\n")  # fmt: skip
        yield out.getvalue().encode("utf-8")


def json_parts(frames: Iterable[Any]) -> Iterator[bytes]:
    """A list of objects, one per row."""
    mark = "[\n"
    for frame in frames:
        for record in frame.to_dict("records"):
            yield (mark + json.dumps(record, default=plain, ensure_ascii=False)).encode("utf-8")
            mark = ",\n"
    yield (("" if mark == ",\n" else "[") + "\n]\n").encode("utf-8")


def plain(value: Any) -> Any:
    """A value of NumPy or pandas for JSON."""
    return value.item() if hasattr(value, "item") else as_text(value)


class Pipe(io.RawIOBase):
    """A file to write to; what was written is taken out piece by piece."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self.pieces.append(piece)
        self.position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self.position

    def take(self) -> bytes:
        taken = b"".join(self.pieces)
        self.pieces.clear()
        return taken


def parquet_parts(frames: Iterable[Any]) -> Iterator[bytes]:
    def as_table(arrow: Any, frame: Any, schema: Any) -> Any:
        return arrow.Table.from_pandas(frame, schema=schema, preserve_index=False)

    return parquet_bytes(frames, as_table)


def parquet_bytes(
    pieces: Iterable[Any], as_table: Callable[[Any, Any, Any], Any]
) -> Iterator[bytes]:
    """The bytes of a Parquet file, piece by piece; `as_table` takes pyarrow, a piece and the schema
    of the pieces before, or None."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise FileError('writing Parquet needs pyarrow: pip install "metricforest[cli]"') from error
    pipe, writer = Pipe(), None
    for piece in pieces:
        table = as_table(pa, piece, None if writer is None else writer.schema)
        writer = writer or pq.ParquetWriter(pipe, table.schema)
        writer.write_table(table)
        yield pipe.take()
    if writer is not None:
        writer.close()
    yield pipe.take()
