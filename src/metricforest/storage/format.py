"""Versioned files without pickle: the bytes that docs/file_format.md describes, written and read.

    preamble, 32 bytes | header, JSON | array 0 | array 1 | ...    each starts at a multiple of 64

What a value may be is in `values.py`. Arrays lie in the file as they lie in memory, so that a file can
be mapped; everything else stands in the header. Reading trusts nothing: sizes are compared with those
of the file before anything is allocated.
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from mmap import ACCESS_COPY
from mmap import mmap as map_file
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .outputs import PathLike, check_output, node, replace_file
from .values import BLOCK, MAX_DEPTH, NUMBERS, TEXT, Decoder, Encoder, blocks, demand

FORMAT = "metricforest"
MAGIC = b"\x89MFD\r\n\x1a\n"
VERSION = 1
PREAMBLE = struct.Struct("<8sIIQII")  # magic, version, header bytes, file bytes, two checksums
ALIGN = 64
OVERWRITE = "name another file, or overwrite=True replaces it"
MAX_HEADER = 1 << 20
MAX_VALUES = 1 << 15  # commas and brackets in a header: what it may grow to when parsed is bounded


class Content(NamedTuple):
    """What one file holds."""

    class_name: str
    library: str  # the version of the library that wrote it
    params: dict[str, Any]
    state: dict[str, Any]


def aligned(position: int) -> int:
    return -(-position // ALIGN) * ALIGN


# ------------------------------------------------------------------------------------- writing


def write(
    path: PathLike,
    content: Content,
    *,
    check: Callable[[Path], object] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a file beside and rename it: at `path` is the old file or all of the new one.

    Raises TypeError, before anything is written, where a value cannot be stored, OSError where the
    file cannot be written, and what `check` raises of the finished file.
    """
    foreign = None if overwrite else no_model
    check_output(path, foreign=foreign, hint=OVERWRITE)
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

    replace_file(path, parts(), check=check, foreign=foreign, hint=OVERWRITE)


def no_model(path: Path) -> str:
    """Why a file that is there is not replaced by a model, or ""."""
    with open(path, "rb") as file:
        return "" if file.read(len(MAGIC)) == MAGIC else "what is there is not a model"


def checksums(pieces: list[Any]) -> list[int]:
    """CRC-32 of every piece, by several threads where there are large ones."""
    if sum(len(piece) for piece in pieces) < BLOCK:
        return [zlib.crc32(piece) for piece in pieces]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(zlib.crc32, pieces))


def count_values(header: bytes) -> int:
    return sum(header.count(mark) for mark in (b",", b"[", b"{"))


# ------------------------------------------------------------------------------------- reading


def read(path: PathLike, *, mmap: bool = True, verify: bool = True) -> Content:
    """The content of a file, or a ValueError that says what is wrong with it.

    The values are of the types that can be stored, nothing else is known about them. With `mmap` the
    arrays are a private mapping: pages are shared by all processes that map the file, and one that
    is written to becomes a copy of its own.
    """
    what = node(path)
    if what:
        raise ValueError(f"it is {what}, not a regular file")
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
        demand(type(header[name]) is kind, f"{name} in its header is not of type {kind.__name__}")
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
