"""`neighbors`, `match`, `suggest` and `suspects`: tables of answers about rows."""

from __future__ import annotations

from collections import Counter
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
    say,
    sep_option,
    whole_table,
)

if TYPE_CHECKING:
    from ..tables.metric import TableMetric

# the columns by which an earlier result is known
NEIGHBORS = ("query", "rank", "neighbor", "distance")
MATCHES = ("a", "b", "distance")
QUESTIONS = ("left", "right", "answer")
SUSPECTS = ("a", "b", "answer", "suspicion", "distance")
FEW = 30  # held-out pairs below which a precision says little


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
@click.option("--not-self", is_flag=True, help="Leave out neighbours with the id of the query.")
@result_options
@sep_option
@jobs_option
def neighbors(
    model: str,
    queries_: str | None,
    k: int,
    not_self: bool,
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
        if not not_self:
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
        "metricforest match shop.mf products.csv --precision 0.99 -o duplicates.csv",
        "metricforest match shop.mf ours.csv theirs.csv",
        "metricforest match shop.mf",
    )
)
@click.argument("model")
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option(
    "--precision",
    type=click.FloatRange(0, 1),
    help="Share of the matches that shall be right, measured on held-out pairs.",
)
@click.option("--threshold", type=click.FloatRange(0), help="Farthest distance of a match.")
@click.option(
    "--max-matches",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Nearest rows that each row of A is compared with.",
)
@result_options
@sep_option
@jobs_option
def match(
    model: str,
    a: str | None,
    b: str | None,
    precision: float | None,
    threshold: float | None,
    max_matches: int,
    result: Result,
    sep: str | None,
    jobs: int,
) -> None:
    """Pairs of rows that are the same: one in A, the other in B, or both in A.

    Without A, both in the model's own table. Rows are called the same up to the model's threshold,
    to one that reaches a --precision, or to a --threshold of your own. Precision holds for pairs
    like the labelled ones: if fewer of all pairs are the same, fewer matches are right.
    """
    from ..tables.columns import as_table
    from ..tables.files import pandas
    from ..tables.metric import near_pairs
    from ..tables.pair_labels import row_ids

    if precision is not None and threshold is not None:
        raise click.UsageError("--precision and --threshold exclude each other")
    to = result.checked(MATCHES, model, a, b)
    metric: TableMetric = load_model(model, jobs)
    with naming(model):
        cut = metric._cut(threshold, precision)
    pd = pandas()
    n_full = 0

    def ids(frame: Any) -> Any:
        return row_ids(as_table(frame), metric.id)

    def pieces() -> Iterator[tuple[Any, Any, Any, Any]]:
        """(the metric over B, rows of A, ids of A, ids of B), A piece by piece."""
        where = b or a
        table = None if where is None else whole_table(metric, where, sep)
        with naming(where or model):
            searcher = metric.searcher(table)
        called = metric.ids_ if table is None else ids(table)
        if b is None:
            yield searcher, None, called, called
            return
        for frame in queries(metric, str(a), sep):
            with naming(str(a)):
                yield searcher, metric._check_rows(frame), ids(frame), called

    def matches() -> Iterator[Any]:
        nonlocal n_full
        for searcher, rows, ids_a, ids_b in pieces():
            left, right, distance = near_pairs(searcher, rows, cut, max_matches)
            n_full += int((Counter(left.tolist()).most_common(1) or [(0, 0)])[0][1] >= max_matches)
            found = {"a": ids_a[left], "b": ids_b[right], "distance": distance}
            yield pd.DataFrame(metric._with_probability(found))

    to.write(counted(matches(), "matches", result.output))
    if n_full:
        say(f"note: some rows have {max_matches} matches or more; --max-matches looks at more")
    if result.is_elsewhere:
        say(f"called the same: rows no farther apart than {cut:.4g}" + called_so_far(metric, cut))
        if threshold is None:
            say(
                "others may be less clear: label some of these matches, add them to the pairs and fit "
                "again"
            )


def called_so_far(metric: TableMetric, cut: float) -> str:
    """What is known about a cut: how many held-out pairs it calls the same, and how many rightly."""
    near = metric.held_out_distance_ <= cut
    n_near, n_right = int(near.sum()), int(metric.held_out_same_[near].sum())
    n_same = int(metric.held_out_same_.sum())
    if not len(near):
        return ""
    if not n_near:
        return f"; none of {len(near):,} held-out pairs is"
    few = ": few to go by" * (n_near < FEW)
    return (
        f"; of {len(near):,} held-out pairs {n_near:,} are, {n_right:,} of these rightly "
        f"(precision {n_right / n_near:.2f}, recall {n_right / max(1, n_same):.2f}){few}"
    )


@main.command(
    epilog=example(
        "metricforest suggest shop.mf -n 20 -o questions.csv",
        "metricforest fit products.csv --id sku --pairs labelled.csv --pairs questions.csv -o shop.mf",
    )
)
@click.argument("model")
@click.option("-n", "n", type=click.IntRange(1, 10_000), default=20, show_default=True)
@click.option("--seed", type=click.IntRange(0), help="Other pairs. [default: that of the model]")
@result_options
@jobs_option
def suggest(
    model: str,
    n: int,
    seed: int | None,
    result: Result,
    jobs: int,
) -> None:
    """Pairs of the model's table that are worth labelling next.

    Fill in the column answer and give the file to `fit` with another --pairs. Most is gained with
    models that learn from what is implied (fit --implied).
    """
    from ..tables.files import pandas

    to = result.checked(QUESTIONS, model, fill_in="answer")
    metric: TableMetric = load_model(model, jobs)
    with naming(model):
        asked = metric.suggest_pairs(n, random_state=seed)
    frame = pandas().DataFrame({"left": asked["a"], "right": asked["b"], "answer": ""})
    to.write([frame])


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
