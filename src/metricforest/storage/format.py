"""Versioned files without pickle: the bytes that docs/file_format.md describes, written and read.

    preamble, 32 bytes | header, JSON | array 0 | array 1 | ...    parts start at multiples of 64

Values are numbers, text, None, arrays, lists, tuples and dicts of those, and the named tuples of
`RECORDS`. Arrays lie in the file as they lie in memory, so that a file can be mapped; everything
else stands in the header. Reading trusts nothing: sizes are compared with those of the file before
anything is allocated, and no name in a file is ever looked up anywhere but in a fixed table.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from mmap import ACCESS_COPY
from mmap import mmap as map_file
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..core.forest import Forest
from ..supervision.constraints import Constraints
from .sklearn_trees import Trees

FORMAT = "metricforest"
MAGIC = b"\x89MFD\r\n\x1a\n"
VERSION = 1
PREAMBLE = struct.Struct("<8sIIQII")  # magic, version, header bytes, file bytes, two checksums
ALIGN = 64
BLOCK = 1 << 24  # bytes of an array under one checksum
MAX_HEADER = 1 << 20
MAX_VALUES = 1 << 15  # commas and brackets in a header: what it may grow to when parsed is bounded
MAX_DEPTH = 32
SPARE = 1 << 24  # bytes that text may take beyond twice the file

NUMBERS = frozenset(f"{'|' if n == 1 else '<'}{k}{n}" for k in "iuf" for n in (1, 2, 4, 8))
NUMBERS = NUMBERS - {"|f1"} | {"|b1"}
TEXT = re.compile(r"<U[1-9][0-9]{0,6}")
RECORDS: dict[str, type] = {"Constraints": Constraints, "Forest": Forest, "Trees": Trees}


class Content(NamedTuple):
    """What one file holds."""

    class_name: str
    library: str  # the version of the library that wrote it
    params: dict[str, Any]
    state: dict[str, Any]


def demand(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)


def aligned(position: int) -> int:
    return -(-position // ALIGN) * ALIGN


def check_array(
    value: Any, name: str, dtype: type | str, shape: tuple[int | None, ...], finite: bool = True
) -> np.ndarray:
    """The array, or a ValueError that names what is off; None in `shape` stands for any length."""
    demand(isinstance(value, np.ndarray), f"{name} is no array but {type(value).__name__}")
    fits = value.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(value.shape, shape, strict=True)
    )
    wanted = ", ".join("any" if n is None else str(n) for n in shape)
    demand(
        fits and value.dtype == dtype,
        f"{name} is {value.dtype} {list(value.shape)}, expected {np.dtype(dtype)} [{wanted}]",
    )
    if finite:
        for piece in blocks(value.reshape(-1)):
            demand(np.isfinite(piece).all(), f"{name} holds NaN or infinity")
    return value


# -------------------------------------------------------------------------------------- values


class Encoder:
    """Values as JSON; their arrays are collected, to follow the header."""

    def __init__(self) -> None:
        self.arrays: list[tuple[str, np.ndarray]] = []

    def encode(self, value: Any, name: str, depth: int = 0) -> Any:
        """JSON of a value, or a TypeError with its name."""

        def inner(part: Any, place: object) -> Any:
            return self.encode(part, f"{name}{place}", depth + 1)

        if depth > MAX_DEPTH:
            raise TypeError(f"{name[:80]} cannot be stored: it is nested deeper than {MAX_DEPTH}")
        if isinstance(value, np.generic) and value.dtype.newbyteorder("<").str in NUMBERS:
            return {"scalar": [value.dtype.newbyteorder("<").str, inner(value.item(), "")]}
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 64:
                raise TypeError(f"{name} cannot be stored: {value} takes more than 64 bits")
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if type(value) is np.ndarray or type(value) is np.memmap:
            return self._array(value, name)
        if type(value) is list:
            return [inner(part, f"[{i}]") for i, part in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [inner(part, f"[{i}]") for i, part in enumerate(value)]}
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return {"dict": {key: inner(part, f"[{key!r}]") for key, part in value.items()}}
        kind: Any = type(value)
        if RECORDS.get(kind.__name__) is kind:
            fields = {field: inner(getattr(value, field), f".{field}") for field in kind._fields}
            return {"record": [kind.__name__, fields]}
        raise TypeError(
            f"{name} cannot be stored: {kind.__module__}.{kind.__qualname__} is neither "
            f"a number, text, None, an array, a list, a tuple, a dict with text as keys, nor one of "
            f"{', '.join(RECORDS)}"
        )

    def _array(self, array: np.ndarray, name: str) -> dict[str, Any]:
        if array.dtype == object and array.ndim == 1 and all(isinstance(s, str) for s in array):
            try:
                parts = [s.encode() for s in array]
            except UnicodeEncodeError as error:
                raise TypeError(f"{name} cannot be stored: {error}") from error
            ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
            letters = np.frombuffer(b"".join(parts), np.uint8)
            return {"text": [self._add(f"{name}.ends", ends), self._add(f"{name}.utf8", letters)]}
        dtype = array.dtype.newbyteorder("<")
        if dtype.str not in NUMBERS and not TEXT.fullmatch(dtype.str):
            raise TypeError(f"{name} cannot be stored: it is an array of {array.dtype}")
        return {"array": self._add(name, np.asarray(array, dtype, order="C"))}

    def _add(self, name: str, array: np.ndarray) -> int:
        self.arrays.append((name, array))
        return len(self.arrays) - 1


class Decoder:
    """Values from JSON and the arrays of a file, each of which is used once."""

    def __init__(self, arrays: list[np.ndarray], file_size: int) -> None:
        self.arrays = dict(enumerate(arrays))
        self.room = 2 * file_size + SPARE

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(part) for part in value]
        if not isinstance(value, dict):
            return value
        demand(len(value) == 1, f"a value has the tags {sorted(value)}, not one")
        ((tag, body),) = value.items()
        demand(tag in DECODERS, f"a value has the unknown tag {tag[:40]!r}")
        demand(isinstance(body, DECODERS[tag][0]), f"{tag} holds {type(body).__name__}")
        return DECODERS[tag][1](self, body)

    def array(self, index: object) -> np.ndarray:
        demand(type(index) is int and index in self.arrays, f"array {index!r} is not there to use")
        return self.arrays.pop(index)  # type: ignore[call-overload]

    def text(self, body: list) -> np.ndarray:
        demand(len(body) == 2, "text needs two arrays")
        ends = check_array(self.array(body[0]), "the ends of text", np.int64, (None,))
        letters = check_array(self.array(body[1]), "text", np.uint8, (None,))
        self.room -= 80 * len(ends) + 4 * len(letters)
        demand(self.room >= 0, f"{len(ends)} pieces of text are too many for a file of this size")
        last = int(ends[-1]) if len(ends) else 0
        rising = len(ends) == 0 or (ends[0] >= 0 and (ends[1:] >= ends[:-1]).all())
        demand(rising and last == len(letters), "the ends of text do not rise to its length")
        answer = np.empty(len(ends), object)
        low = 0
        for i, high in enumerate(ends):
            answer[i] = letters[low:high].tobytes().decode("utf-8")
            low = high
        return answer

    def scalar(self, body: list) -> Any:
        demand(len(body) == 2 and str(body[0]) in NUMBERS, f"a scalar of type {str(body[:1])[:40]}")
        value, dtype = self.decode(body[1]), np.dtype(body[0])
        wanted = {"b": bool, "f": float}.get(dtype.kind, int)
        demand(type(value) is wanted, f"a scalar {dtype} holds {type(value).__name__}")
        if wanted is int:
            bounds = np.iinfo(dtype)
            demand(bounds.min <= value <= bounds.max, f"{value} is outside {dtype}")
        return dtype.newbyteorder("=").type(value)

    def record(self, body: list) -> Any:
        demand(
            len(body) == 2 and isinstance(body[0], str) and isinstance(body[1], dict), "a record"
        )
        kind: Any = RECORDS.get(body[0])
        demand(kind, f"unknown record {body[0][:40]!r}; known are {', '.join(RECORDS)}")
        required = set(kind._fields) - set(kind._field_defaults)
        demand(
            required <= set(body[1]) <= set(kind._fields),
            f"{body[0]} has the fields {sorted(body[1])}, expected {list(kind._fields)}"[:400],
        )
        return kind(**{field: self.decode(part) for field, part in body[1].items()})

    def infinite(self, body: str) -> float:
        demand(body in ("nan", "inf", "-inf"), f"a float is {body[:40]!r}")
        return float(body)


DECODERS: dict[str, tuple[type, Callable[[Decoder, Any], Any]]] = {
    "array": (int, Decoder.array),
    "text": (list, Decoder.text),
    "scalar": (list, Decoder.scalar),
    "tuple": (list, lambda decoder, body: tuple(map(decoder.decode, body))),
    "dict": (dict, lambda decoder, body: {k: decoder.decode(v) for k, v in body.items()}),
    "record": (list, Decoder.record),
    "float": (str, Decoder.infinite),
}


# ------------------------------------------------------------------------------------- writing


def write(path: str | os.PathLike[str], content: Content) -> None:
    """Write a file beside and rename it: at `path` is the old file or all of the new one.

    Raises TypeError, before anything is written, where a value cannot be stored, and OSError where
    the file cannot be written.
    """
    encoder = Encoder()
    params = {name: encoder.encode(value, name) for name, value in content.params.items()}
    state = {name: encoder.encode(value, name) for name, value in content.state.items()}
    flat = [array.reshape(-1).view(np.uint8) for _, array in encoder.arrays]
    sums = iter(checksums([block for array in flat for block in blocks(array)]))
    table = []
    position = 0
    for (name, array), raw in zip(encoder.arrays, flat, strict=True):
        table.append(
            {
                "name": name,
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "offset": position,
                "crc32": [next(sums) for _ in blocks(raw)],
            }
        )
        position += aligned(len(raw))
    header = json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "library": content.library,
            "class": content.class_name,
            "params": params,
            "state": state,
            "arrays": table,
        },
        allow_nan=False,
        separators=(",", ":"),
    ).encode("ascii")
    if len(header) > MAX_HEADER or count_values(header) > MAX_VALUES:
        raise TypeError(
            f"{content.class_name} cannot be stored: beside its arrays it has {count_values(header)} "
            f"values in {len(header)} bytes; {MAX_VALUES} values in {MAX_HEADER} bytes is the most"
        )
    start = aligned(PREAMBLE.size + len(header))
    preamble = PREAMBLE.pack(MAGIC, VERSION, len(header), start + position, zlib.crc32(header), 0)
    preamble = preamble[:-4] + struct.pack("<I", zlib.crc32(preamble[:-4]))

    def parts() -> Iterator[Any]:
        yield preamble + header + bytes(start - PREAMBLE.size - len(header))
        for raw in flat:
            yield from blocks(raw)
            yield bytes(aligned(len(raw)) - len(raw))

    replace_file(path, parts())


def replace_file(path: str | os.PathLike[str], parts: Iterator[Any]) -> None:
    """Put a file of these bytes at `path`, durably and whole, or leave everything as it was."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"cannot save to {os.fspath(path)}: it is a folder")
    beside = target.with_name(f".metricforest-{secrets.token_hex(8)}.tmp")
    try:
        with open(beside, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException as error:  # an interrupt as well
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            why = f"cannot save to {os.fspath(path)}: {error.strerror}"
            raise OSError(error.errno, f"{why}; what was there before is unchanged") from error
        raise
    if os.name == "posix":
        with suppress(OSError):  # the rename is done; not every file system can be asked to keep it
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def blocks(raw: np.ndarray) -> list[np.ndarray]:
    """Bytes in pieces under one checksum each."""
    return [raw[low : low + BLOCK] for low in range(0, len(raw), BLOCK)]


def checksums(pieces: list[Any]) -> list[int]:
    """CRC-32 of every piece, by several threads where there are large ones."""
    if sum(len(piece) for piece in pieces) < BLOCK:
        return [zlib.crc32(piece) for piece in pieces]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(zlib.crc32, pieces))


def count_values(header: bytes) -> int:
    return sum(header.count(mark) for mark in (b",", b"[", b"{"))


# ------------------------------------------------------------------------------------- reading


def read(path: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True) -> Content:
    """The content of a file, or a ValueError that says what is wrong with it.

    The values are of the types that can be stored, nothing else is known about them. With `mmap` the
    arrays are a private mapping: pages are shared by all processes that map the file, and one that
    is written to becomes a copy of its own.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a regular file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, start = read_header(file, size)
        entries = array_table(header["arrays"], size - start)
        if mmap:
            whole = np.frombuffer(map_file(file.fileno(), size, access=ACCESS_COPY), np.uint8)
        else:
            whole = np.empty(size + ALIGN, np.uint8)
            whole = whole[-whole.ctypes.data % ALIGN :][:size]
            file.seek(0)
            buffer: Any = whole
            demand(file.readinto(buffer) == size, "it shrank while it was read")
    raws = [whole[start + e.offset :][: e.n_bytes] for e in entries]
    if verify:
        verify_arrays(entries, raws, whole, start)
    arrays = [as_array(entry, raw) for entry, raw in zip(entries, raws, strict=True)]
    decoder = Decoder(arrays, size)
    try:
        params, state = (
            {name: decoder.decode(value) for name, value in header[part].items()}
            for part in ("params", "state")
        )
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    demand(not decoder.arrays, "it holds arrays that nothing uses")
    return Content(header["class"], header["library"], params, state)


def read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """(header, position of the first array) after everything about the two has been checked."""
    found = file.read(PREAMBLE.size)
    demand(
        found[: len(MAGIC)] == MAGIC[: len(found)] and found,
        f"not a metricforest file: it starts with {found[:8]!r}, expected {MAGIC!r}",
    )
    demand(len(found) == PREAMBLE.size, f"truncated: {size} bytes are less than a preamble")
    _, version, length, total, header_sum, own_sum = PREAMBLE.unpack(found)
    demand(
        version == VERSION,
        f"its format has version {version}, this metricforest reads version {VERSION}"
        + ("; a newer metricforest is needed" if version > VERSION else ""),
    )
    demand(zlib.crc32(found[:-4]) == own_sum, "damaged: the checksum of the preamble is wrong")
    demand(size >= total, f"truncated: {size} bytes of {total}")
    demand(size == total, f"damaged: {size} bytes, {total} were written")
    demand(length <= MAX_HEADER, f"its header has {length} bytes, more than {MAX_HEADER}")
    start = aligned(PREAMBLE.size + length)
    demand(start <= size, f"its header of {length} bytes does not fit into {size} bytes")
    raw = file.read(start - PREAMBLE.size)
    demand(len(raw) == start - PREAMBLE.size, "it shrank while it was read")
    raw, padding = raw[:length], raw[length:]
    demand(zlib.crc32(raw) == header_sum, "damaged: the checksum of the header is wrong")
    demand(not any(padding), "damaged: something stands between the header and the arrays")
    demand(count_values(raw) <= MAX_VALUES, f"its header holds more than {MAX_VALUES} values")
    header = parse_json(raw)
    kinds = {
        "format": str,
        "version": int,
        "library": str,
        "class": str,
        "params": dict,
        "state": dict,
        "arrays": list,
    }
    demand(isinstance(header, dict), "its header is not a JSON object")
    demand(set(header) == set(kinds), f"its header has the entries {sorted(header)}"[:400])
    for name, kind in kinds.items():
        demand(type(header[name]) is kind, f"{name} in its header is no {kind.__name__}")
    demand(header["format"] == FORMAT, f"its header names the format {header['format'][:40]!r}")
    demand(header["version"] == VERSION, "its header and its preamble name different versions")
    return header, start


def parse_json(raw: bytes) -> Any:
    """Strict JSON: no NaN, no infinity, no integer beyond 64 bits, no key twice."""

    def whole(digits: str) -> int:
        demand(len(digits) <= 20, f"a number of {len(digits)} digits in its header")
        value = int(digits)
        demand(-(1 << 63) <= value < 1 << 64, f"the number {value} in its header")
        return value

    def real(digits: str) -> float:
        value = float(digits)
        demand(math.isfinite(value), f"the number {digits[:40]} in its header")
        return value

    def constant(name: str) -> None:
        raise ValueError(f"the number {name} in its header")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        answer = dict(pairs)
        demand(len(answer) == len(pairs), "a key stands twice in its header")
        return answer

    try:
        return json.loads(
            raw.decode("utf-8"),
            parse_int=whole,
            parse_float=real,
            parse_constant=constant,
            object_pairs_hook=unique,
        )
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"its header is not JSON: {error}") from None


class Entry(NamedTuple):
    """One row of the table of arrays."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    n_bytes: int
    sums: list[int]


def array_table(table: list, room: int) -> list[Entry]:
    """The table of arrays, which must fill exactly the bytes behind the header."""
    entries = []
    position = 0
    for row in table:
        demand(
            isinstance(row, dict) and set(row) == {"name", "dtype", "shape", "offset", "crc32"},
            "a row of the table of arrays lacks an entry or has one too many",
        )
        name, dtype, shape, sums = row["name"], row["dtype"], row["shape"], row["crc32"]
        demand(isinstance(name, str) and isinstance(dtype, str), "an array without name or dtype")
        name = name[:200]
        demand(dtype in NUMBERS or TEXT.fullmatch(dtype), f"array {name} of dtype {dtype[:40]!r}")
        demand(
            isinstance(shape, list)
            and len(shape) <= MAX_DEPTH
            and all(type(n) is int and n >= 0 for n in shape),
            f"the shape of array {name} is not a list of at most {MAX_DEPTH} lengths",
        )
        item = np.dtype(dtype).itemsize
        demand(
            math.prod(max(1, n) for n in shape) * item < 1 << 62,
            f"array {name} of shape {shape} is too large",
        )
        n_bytes = math.prod(shape) * item
        demand(
            row["offset"] == position and type(row["offset"]) is int,
            f"array {name} does not follow the one before it",
        )
        demand(
            n_bytes <= room - position,
            f"array {name} of {n_bytes} bytes does not fit into the file",
        )
        demand(
            isinstance(sums, list)
            and len(sums) == -(-n_bytes // BLOCK)
            and all(type(n) is int for n in sums),
            f"array {name} has not one checksum for every {BLOCK} bytes",
        )
        entries.append(Entry(name, dtype, tuple(shape), position, n_bytes, sums))
        position += aligned(n_bytes)
    demand(position == room, f"its arrays take {position} bytes, there are {room}")
    return entries


def verify_arrays(
    entries: list[Entry], raws: list[np.ndarray], whole: np.ndarray, start: int
) -> None:
    pieces = [(e, piece) for e, raw in zip(entries, raws, strict=True) for piece in blocks(raw)]
    wanted = [s for e in entries for s in e.sums]
    found = checksums([piece for _, piece in pieces])
    for (entry, _), want, have in zip(pieces, wanted, found, strict=True):
        demand(want == have, f"damaged: the checksum of array {entry.name} is wrong")
    for e in entries:
        end = start + e.offset + e.n_bytes
        demand(not whole[end : aligned(end)].any(), f"damaged: something stands behind {e.name}")


def as_array(entry: Entry, raw: np.ndarray) -> np.ndarray:
    """The bytes as an array of the machine's byte order, with values that every array may hold."""
    array = raw.view(entry.dtype).reshape(entry.shape)
    if array.dtype.kind == "b":
        demand(raw.max(initial=0) <= 1, f"array {entry.name} holds something beside true and false")
    if array.dtype.kind == "U":
        highest = raw.view("<u4").max(initial=0)
        demand(highest <= 0x10FFFF, f"array {entry.name} holds something beside text")
    return array.astype(array.dtype.newbyteorder("="), copy=False)
