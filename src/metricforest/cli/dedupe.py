"""`dedupe`: which rows of a table are the same thing, as groups."""

from __future__ import annotations

from typing import Any

import click

from .common import (
    Result,
    counted,
    example,
    id_option,
    jobs_option,
    main,
    naming,
    pairs_option,
    result_options,
    say,
    sep_option,
    separator,
)
from .labelled import checked_pairs, joined, need_column, read_pairs

GROUPS = ("id", "group", "confidence", "representative")
QUESTIONS = ("left", "right", "answer")


@main.command(
    epilog=example(
        "metricforest dedupe people.csv --id key --pairs labelled.csv -o groups.csv",
        "metricforest dedupe people.csv --id key --pairs labelled.csv --ask doubtful.csv -o groups.csv",
    )
)
@click.argument("table")
@pairs_option(required=True)
@id_option
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True),
    help="Mean probability from which on two groups are one. [default: learned from the pairs]",
)
@click.option(
    "--candidates",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Rows that each row is compared with at first.",
)
@click.option(
    "--ask", metavar="FILE", help="Also write the pairs that decide about the most doubtful groups."
)
@click.option(
    "-n", "n", type=click.IntRange(1), default=20, show_default=True, help="So many pairs."
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@result_options
@sep_option
@jobs_option
def dedupe(
    table: str,
    pairs: tuple[str, ...],
    id_: str | None,
    threshold: float | None,
    candidates: int,
    ask: str | None,
    n: int,
    seed: int,
    result: Result,
    sep: str | None,
    jobs: int,
) -> None:
    """Groups of rows of TABLE that are the same thing, learned from labelled pairs of its rows.

    Every row with its group, how sure its place is, and whether it represents its group. Labelled pairs
    are kept. One false match does not join two groups: all pairs between them count.
    """
    from ..storage.outputs import same_file
    from ..tables import files
    from ..tables.dedupe import Deduplication
    from ..tables.pair_model import PairModel

    if jobs == 0:
        raise click.UsageError("--jobs must not be 0")
    if ask is not None and result.output is not None and same_file(ask, result.output):
        raise click.UsageError(f"--ask and --output name the same file: {ask}")
    to = result.checked(GROUPS, table, *pairs)
    to_ask = None
    if ask is not None:
        questions = Result(ask, None, result.force)
        to_ask = questions.checked(QUESTIONS, table, *pairs, fill_in="answer")
    labelled = [read_pairs(path) for path in pairs]
    frame = files.read_table(table, sep=separator(sep))
    need_column(table, frame, id_)
    labelled = checked_pairs(labelled, frame, id_, table, pairs)
    model = PairModel(id=id_, n_jobs=jobs, random_state=seed)
    with naming(table):
        found = Deduplication(model, threshold, candidates).fit(frame, pairs=joined(labelled))
    pd = files.pandas()
    to.write(counted([pd.DataFrame(found.table())], "rows", result.output))
    if to_ask is not None:
        asked = found.questions(n)
        columns = {"left": asked["a"], "right": asked["b"], "answer": ""}
        to_ask.write([pd.DataFrame(columns)])
    if result.is_elsewhere:
        say(summary(found))


def summary(found: Any) -> str:
    """How many groups there are, and which labelled pairs they do not keep."""
    import numpy as np

    size = np.bincount(found.labels_)
    several = size > 1
    text = (
        f"{len(found.labels_):,} rows are {len(size):,} things: {int(several.sum()):,} groups of 2 to "
        f"{int(size.max())} rows hold {int(size[several].sum()):,} of them"
        if several.any()
        else f"no two of {len(found.labels_):,} rows are called the same"
    )
    broken = len(found.broken_pairs_)
    return text + (f"; {broken} labelled pairs contradict likelier ones" if broken else "")
