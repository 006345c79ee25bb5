"""Vectors on disk, piece by piece: ids beside a list of numbers in Parquet, plain columns in CSV, or .npy."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .files import FileError, Pipe, csv_parts, pandas

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
            yield header.getvalue()
        n += len(Z)
        yield Z.astype(Z.dtype.newbyteorder("<")).tobytes()
    if n != n_rows:
        raise FileError(f"the table had {n_rows:,} rows when they were counted, and now has {n:,}")


def parquet_parts(pieces: Pieces) -> Iterator[bytes]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise FileError('writing Parquet needs pyarrow: pip install "metricforest[cli]"') from error
    pipe, writer = Pipe(), None
    for ids, Z in pieces:
        numbers = pa.array(np.ascontiguousarray(Z).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(numbers, Z.shape[1])
        column = pa.array(ids, None if writer is None else writer.schema.field("id").type)
        table = pa.Table.from_arrays([column, vectors], ["id", "vector"])
        writer = writer or pq.ParquetWriter(pipe, table.schema)
        writer.write_table(table)
        yield pipe.take()
    if writer is not None:
        writer.close()
    yield pipe.take()
