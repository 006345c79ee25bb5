"""Values of files as JSON and arrays, and back: numbers, text, None, arrays, lists, tuples and dicts.

No name in a file is looked up anywhere but in fixed tables, and what text takes in memory is bounded.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..core import Forest
from ..supervision.constraints import Constraints
from .sklearn_trees import Trees

BLOCK = 1 << 24  # bytes of an array under one checksum, or checked at once
MAX_DEPTH = 32
SPARE = 1 << 24  # bytes that text may take beyond twice the file

NUMBERS = frozenset(f"{'|' if n == 1 else '<'}{k}{n}" for k in "iuf" for n in (1, 2, 4, 8))
NUMBERS = NUMBERS - {"|f1"} | {"|b1"}
TEXT = re.compile(r"<U[1-9][0-9]{0,6}")
RECORDS: dict[str, type] = {"Constraints": Constraints, "Forest": Forest, "Trees": Trees}


# What zipfile and numpy raise for a damaged .npy or .npz. RuntimeError: also a method of packing, or a
# version, that zipfile does not know, and a member with a password.
BAD_ARRAYS = (ValueError, OSError, EOFError, KeyError, BadZipFile, zlib.error, RuntimeError)
BAD_ARRAYS += (SyntaxError, TokenError, OverflowError, MemoryError)


def demand(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)


def blocks(raw: np.ndarray) -> list[np.ndarray]:
    """Bytes in pieces under one checksum each."""
    return [raw[low : low + BLOCK] for low in range(0, len(raw), BLOCK)]


def check_array(
    value: Any, name: str, dtype: type | str, shape: tuple[int | None, ...], finite: bool = True
) -> np.ndarray:
    """The array, or a ValueError that names what is off; None in `shape` stands for any length."""
    demand(isinstance(value, np.ndarray), f"{name} must be an array, got {type(value).__name__}")
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
