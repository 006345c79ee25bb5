"""`vectors`: the rows of a table as vectors whose Euclidean distance follows the learned one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    ANYWAY,
    Result,
    example,
    force_option,
    jobs_option,
    load_model,
    main,
    naming,
    queries,
    say,
    sep_option,
)

if TYPE_CHECKING:
    from ..tables.metric import TableMetric

FORMATS = ("csv", "tsv", "parquet", "npy")
MANY = 100_000  # rows between two lines of progress


@main.command(
    epilog=example(
        "metricforest vectors shop.mf products.csv -o vectors.parquet",
        "metricforest vectors shop.mf products.csv --dtype int8 -o vectors.npy",
    )
)
@click.argument("model")
@click.argument("table")
@click.option("-o", "--output", metavar="FILE", required=True, help=".parquet, .npy, .csv or .tsv.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "int8"]),
    default="float32",
    show_default=True,
    help="Half the room, or a quarter.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1),
    metavar="ROWS",
    help="Rows read and written at once: what bounds memory.  [default: 20,000]",
)
@force_option
@sep_option
@jobs_option
def vectors(
    model: str,
    table: str,
    output: str,
    dtype: str,
    at_once: int | None,
    force: bool,
    sep: str | None,
    jobs: int,
) -> None:
    """Vectors of the rows of TABLE: ids beside a list of numbers (.npy: the numbers alone).

    The table is read, and the vectors are written, piece by piece: they may be more than fit into
    memory. If the command fails, nothing is written. A .npy file takes a table that can be read twice.
    """
    from ..storage.outputs import check_output, write_through
    from ..tables.columns import as_table
    from ..tables.earlier import foreign_npy
    from ..tables.pair_labels import row_ids
    from ..tables.vector_files import vector_parts

    format_ = Path(output).suffix.lower().removeprefix(".")
    if format_ not in FORMATS:
        raise click.UsageError(f"{output}: vectors are written as .{', .'.join(FORMATS)}")
    if format_ == "npy":
        if table == "-":
            raise click.UsageError(
                "a .npy file begins with the number of rows, and standard input cannot be counted "
                "first: name a table, or another format"
            )
        foreign = None if force else foreign_npy
        check_output(output, inputs=(model, table), stream=True, foreign=foreign, hint=ANYWAY)
    else:
        columns = ("id", "vector") if format_ == "parquet" else ("id", "v0")
        Result(output, format_, force).checked(columns, model, table)
    metric: TableMetric = load_model(model, jobs)
    inner: Any = metric.metric_
    n_rows = (
        sum(len(frame) for frame in queries(metric, table, sep, at_once)) if format_ == "npy" else 0
    )
    with naming(model):
        metric.transform_names()

    def pieces() -> Iterator[Any]:
        n = 0
        for frame in queries(metric, table, sep, at_once):
            with naming(table):
                yield row_ids(as_table(frame), metric.id), metric.transform(frame, dtype=dtype)
            if n // MANY != (n + len(frame)) // MANY:
                say(f"{n + len(frame):,} rows")
            n += len(frame)
        say(f"{n:,} vectors of {len(metric.transform_names())} numbers ({dtype}) in {output}")
        if dtype == "int8":
            say(f"multiply with {inner.int8_scale_!r} to have them in the scale of float32")

    write_through(output, vector_parts(pieces(), format_, n_rows))
