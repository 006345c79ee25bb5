"""Vectors on disk, piece by piece: ids beside a list of numbers in Parquet, plain columns in CSV, or .npy."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .earlier import NPY_MARK
from .files import FileError, csv_parts, pandas, parquet_bytes

Pieces = Iterable[tuple[np.ndarray, np.ndarray]]  # (ids, vectors)


def vector_parts(pieces: Pieces, format: str, n_rows: int) -> Iterator[bytes]:
    """The bytes of a file of vectors; .npy begins with how many there are."""
    if format == "npy":
        return npy_parts(pieces, n_rows)
    if format == "parquet":
        return parquet_parts(pieces)
    return csv_parts(plain_frames(pieces), "\t" if format == "tsv" else ",")


def plain_frames(pieces: Pieces) -> Iterator[Any]:
    """Tables with the columns id, v0, v1, ..."""
    for ids, Z in pieces:
        frame = pandas().DataFrame(Z, columns=[f"v{j}" for j in range(Z.shape[1])])
        frame.insert(0, "id", ids)
        yield frame


def npy_parts(pieces: Pieces, n_rows: int) -> Iterator[bytes]:
    n = 0
    for _, Z in pieces:
        if n == 0:
            header = io.BytesIO()
            kind = {"descr": Z.dtype.newbyteorder("<").str, "fortran_order": False}
            np.lib.format.write_array_header_1_0(header, {**kind, "shape": (n_rows, Z.shape[1])})
            yield marked(header.getvalue())
        n += len(Z)
        yield Z.astype(Z.dtype.newbyteorder("<")).tobytes()
    if n != n_rows:
        raise FileError(f"the table had {n_rows:,} rows when they were counted, and now has {n:,}")


def marked(header: bytes) -> bytes:
    """The header of a .npy file with more spaces at its end, by which the file is known as ours."""
    length = int.from_bytes(header[8:10], "little") + NPY_MARK
    return header[:8] + length.to_bytes(2, "little") + header[10:-1] + b" " * NPY_MARK + b"\n"


def parquet_parts(pieces: Pieces) -> Iterator[bytes]:
    def as_table(arrow: Any, piece: tuple[np.ndarray, np.ndarray], schema: Any) -> Any:
        ids, Z = piece
        numbers = arrow.array(np.ascontiguousarray(Z).reshape(-1))
        vectors = arrow.FixedSizeListArray.from_arrays(numbers, Z.shape[1])
        column = arrow.array(ids, None if schema is None else schema.field("id").type)
        return arrow.Table.from_arrays([column, vectors], ["id", "vector"])

    return parquet_bytes(pieces, as_table)
