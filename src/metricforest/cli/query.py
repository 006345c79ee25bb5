"""`neighbors` and `suspects`: tables of answers about rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from .common import (
    Result,
    counted,
    example,
    jobs_option,
    load_model,
    main,
    naming,
    queries,
    result_options,
    sep_option,
)

if TYPE_CHECKING:
    from ..tables.metric import TableMetric

# the columns by which an earlier result is known
NEIGHBORS = ("query", "rank", "neighbor", "distance")
SUSPECTS = ("a", "b", "answer", "suspicion", "distance")


@main.command(
    epilog=example(
        "metricforest neighbors shop.mf new.csv -k 5",
        "metricforest neighbors shop.mf products.csv --not-self -o nearest.parquet",
        "metricforest neighbors shop.mf --json | jq '.[0]'",
    )
)
@click.argument("model")
@click.argument("queries_", metavar="[QUERIES]", required=False)
@click.option("-k", type=click.IntRange(1), default=10, show_default=True)
@click.option(
    "--not-self/--self",
    default=None,
    help="Leave out neighbours with the id of the query, or not. [default: where the rows have ids]",
)
@result_options
@sep_option
@jobs_option
def neighbors(
    model: str,
    queries_: str | None,
    k: int,
    not_self: bool | None,
    result: Result,
    sep: str | None,
    jobs: int,
) -> None:
    """The nearest rows of the model's table to each row of QUERIES ("-": standard input).

    Without QUERIES, to each row of the model's own table. The queries are read, measured and written
    piece by piece: they may be more than fit into memory.
    """
    import numpy as np

    from ..tables.files import pandas

    to = result.checked(NEIGHBORS, model, queries_)
    metric: TableMetric = load_model(model, jobs)
    pd = pandas()

    def nearest() -> Iterator[Any]:
        if queries_ is None:
            yield pd.DataFrame(metric.neighbors(None, k))
            return
        for frame in queries(metric, queries_, sep):
            with naming(queries_):
                yield asked(frame)

    def asked(frame: Any) -> Any:
        named = metric.id is not None and metric.id in frame.columns
        if not (named if not_self is None else not_self):
            return metric.neighbors(frame, k)
        if metric.id is not None and metric.id not in frame.columns:
            raise ValueError(
                f"--not-self tells rows by their ids, but there is no column {metric.id!r}"
            )
        found = metric.neighbors(frame, min(k + 1, len(metric.ids_)))
        asked_by = np.repeat(np.arange(len(frame)), len(found) // len(frame))
        other = (found["query"].astype(str) != found["neighbor"].astype(str)).to_numpy()
        found = found[other].copy()
        found["rank"] = found.groupby(asked_by[other], sort=False).cumcount() + 1
        return found[found["rank"] <= k]

    to.write(counted(nearest(), "neighbours", result.output))


@main.command(
    epilog=example(
        "metricforest suspects shop.mf -n 10", "metricforest suspects shop.mf -o doubtful.csv"
    )
)
@click.argument("model")
@click.option("-n", "n", type=click.IntRange(1), default=20, show_default=True)
@click.option(
    "--cv",
    type=click.IntRange(2),
    help="Measure each pair with a forest that has not learned from it: slow.",
)
@result_options
@jobs_option
def suspects(
    model: str,
    n: int,
    cv: int | None,
    result: Result,
    jobs: int,
) -> None:
    """Labelled pairs that the model disbelieves, the most doubtful first: look at these again."""
    from ..tables.files import pandas

    to = result.checked(SUSPECTS, model)
    metric: TableMetric = load_model(model, jobs)
    with naming(model):
        doubted = metric.suspect_pairs(n, cv=cv)
    to.write([pandas().DataFrame(doubted)])
