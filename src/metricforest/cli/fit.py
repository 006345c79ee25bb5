"""`demo` and `fit`: from a table, or two, and labelled pairs to a model in a file."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from .common import (
    ANYWAY,
    example,
    id_option,
    jobs_option,
    json_option,
    main,
    naming,
    pairs_option,
    print_json,
    sep_option,
    separator,
    show,
)
from .labelled import checked_pairs, joined, need_column, read_pairs
from .metrics import METRICS, forget_run, unfitted_metric
from .reports import (
    given_pairs,
    of_pairs,
    pairs_compared,
    report,
    report_pairs,
    what_was_learned,
    what_was_read,
)

PAIRS = "pairs"  # the metric that only compares pairs of rows
WIDEST = 100  # columns up to which pairs are compared column by column, unless --metric pairs asks for it
KINDS = ("text", "number", "date", "category", "drop")


def kind_options(command: Any) -> Any:
    """What columns hold, where that is not to be guessed."""
    helps = {
        "text": "Columns of names, titles, addresses, free text (a,b or given several times).",
        "number": "Columns of numbers.",
        "date": "Columns of dates.",
        "category": "Columns of codes, not numbers.",
        "drop": "Columns not to use.",
    }
    for kind in reversed(KINDS):
        option = click.option(f"--{kind}", metavar="COLUMNS", multiple=True, help=helps[kind])
        command = option(command)
    return command


@main.command(epilog=example("metricforest demo"))
def demo() -> None:
    """Learn from 500 labelled pairs of data that comes along; print a table, write demo.png."""
    from .. import demo as module

    module.main()


@main.command(
    epilog=example(
        "metricforest fit products.csv --id sku --pairs labelled.csv -o shop.mf",
        "metricforest fit ours.csv theirs.csv --id id --pairs labelled.csv -o both.mf",
        "metricforest fit flowers.parquet --labels species -o flowers.mf",
        "metricforest fit big.csv --id key --pairs labels.tsv --max-rows 50000 -o big.mf",
    )
)
@click.argument("table")
@click.argument("table_b", required=False)
@pairs_option(" (y or n, 1 or 0, +1 or -1, true or false, match or distinct)")
@click.option("--labels", metavar="COLUMN", help="Column with class labels; empty: unlabelled.")
@id_option
@click.option("-o", "--output", metavar="FILE", required=True, help="The model file to write.")
@click.option(
    "--metric",
    type=click.Choice([*METRICS, PAIRS]),
    help="; ".join(f"{name}: {what}" for name, what in METRICS.items())
    + f"; {PAIRS}: none, only pairs are compared. [default: forest; of two tables {PAIRS}]",
)
@click.option("--trees", type=click.IntRange(1), default=200, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option(
    "--max-rows",
    type=click.IntRange(0),
    default=20_000,
    show_default=True,
    help="Learn from a random sample of so many rows; rows in pairs always stay. 0: all rows.",
)
@click.option(
    "--folds",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Folds by which pairs are held out, for AUC and threshold. 0: neither.",
)
@click.option("--min-node-size", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--alpha",
    type=click.FloatRange(0.0, 1e6, min_open=True),
    default=4.0,  # as tables.ALPHA, which takes long to import
    show_default=True,
    help="How sharply planes separate rows. The paper's 0.5 tells same from different less well.",
)
@click.option(
    "--implied",
    is_flag=True,
    help="Learn also from what the labelled pairs imply (a is b, b is c). Not for noisy ones.",
)
@kind_options
@sep_option
@jobs_option
@json_option
@click.option("--force", is_flag=True, help="Replace a file that is not a model.")
def fit(
    table: str,
    table_b: str | None,
    pairs: tuple[str, ...],
    labels: str | None,
    id_: str | None,
    output: str,
    metric: str | None,
    trees: int,
    seed: int,
    max_rows: int,
    folds: int,
    min_node_size: int,
    alpha: float,
    implied: bool,
    sep: str | None,
    jobs: int,
    as_json: bool,
    force: bool,
    **kinds: tuple[str, ...],
) -> None:
    """Learn from TABLE (.csv, .tsv, .xlsx, .parquet, .npy, .npz) and labelled pairs.

    With TABLE_B, how to link the two: the first ids of the pairs are rows of TABLE, the second of
    TABLE_B.
    """
    from ..storage.format import no_model
    from ..storage.outputs import check_output

    chosen = metric or (PAIRS if table_b else "forest")
    check_wishes(bool(pairs), labels, table_b, chosen, folds, implied, jobs)
    inputs = (table, table_b, *pairs)
    check_output(output, inputs=inputs, foreign=None if force else no_model, hint=ANYWAY)
    started = time.perf_counter()
    tables, labelled = read_all(
        [name for name in (table, table_b) if name], pairs, id_, max_rows, separator(sep), seed
    )
    told = kinds_of(kinds, tables, (id_, labels))
    run: Any = {"n_jobs": jobs, "random_state": seed}
    model: Any
    if chosen == PAIRS:
        model = unfitted_pairs(trees, run).set_params(id=id_, kinds=told)
        figures = learn_pairs(model, tables, labelled, pairs, as_json)
    else:
        options: Any = {"min_node_size": min_node_size, "alpha": alpha, "implied": implied}
        verbose = sys.stderr.isatty()
        inner = unfitted_metric(chosen, trees, jobs=jobs, seed=seed, verbose=verbose, **options)
        narrow = pairs and len(tables[0].frame.columns) <= WIDEST
        pair_model = unfitted_pairs(trees, run) if narrow else None
        from ..tables.metric import TableMetric

        model = TableMetric(inner, id_, told, cv=folds, random_state=seed, pair_model=pair_model)
        figures = learn_metric(model, tables[0], labelled, pairs, labels, as_json)
    model.save(output, overwrite=force)
    seconds = time.perf_counter() - started
    if as_json:
        print_json({**figures, "model": output, "seconds": round(seconds, 2)})
        return
    show(of_pairs(model) if chosen == PAIRS else what_was_learned(model))
    learned: Any = getattr(model, "metric_", None)
    if hasattr(learned, "what_was_chosen"):
        show([f"chosen: {learned.what_was_chosen()}"])
    if getattr(model, "pair_model_", model) is not None and pairs:
        show(["  `match` goes by this; with --ask it finds out how right it is on whole tables"])
    size = os.path.getsize(output)
    show([f"{output}: written, {size / 1e6:.1f} MB, {seconds:.0f} s in all"])


class Given(NamedTuple):
    """A table that was read: its rows, or a sample of them, and how many there are."""

    path: str
    frame: Any
    n_rows: int


def check_wishes(
    has_pairs: bool,
    labels: str | None,
    table_b: str | None,
    metric: str,
    folds: int,
    implied: bool,
    jobs: int,
) -> None:
    """Raise where options exclude each other."""
    if not has_pairs and labels is None:
        raise click.UsageError("nothing to learn from: give --pairs, --labels or both")
    if metric == PAIRS and (labels is not None or not has_pairs):
        what = "two tables" if table_b else "--metric pairs"
        raise click.UsageError(f"{what} are learned from --pairs alone, without --labels")
    if table_b is not None and metric != PAIRS:
        raise click.UsageError(
            f"--metric {metric} learns from one table: of two, pairs of rows are compared, which is "
            "--metric pairs"
        )
    if folds == 1:
        raise click.UsageError("--folds must be 0 or at least 2, got 1")
    if implied and metric in ("vectors", PAIRS):
        raise click.UsageError(f"--implied is for a forest: --metric {metric} does not learn by it")
    if jobs == 0:
        raise click.UsageError("--jobs must not be 0")


def read_all(
    paths: list[str],
    pairs: tuple[str, ...],
    id_: str | None,
    max_rows: int,
    sep: str | None,
    seed: int,
) -> tuple[list[Given], list[Any]]:
    """The tables and the files of labelled pairs, which name rows of these."""
    from ..tables.columns import as_table
    from ..tables.pair_labels import row_ids

    labelled = [read_pairs(path) for path in pairs]
    tables = [Given(path, *read_rows(path, labelled, id_, max_rows, sep, seed)) for path in paths]
    first, last = tables[0], tables[-1]
    for given in tables:
        with naming(given.path):
            row_ids(as_table(given.frame), id_, unique=True)
    check_columns(tables, id_)
    names = " and ".join(paths)
    return tables, checked_pairs(labelled, first.frame, id_, names, pairs, last.frame)


def check_columns(tables: list[Given], id_: str | None) -> None:
    """Raise unless two tables have a column in common beside their ids."""
    first, last = (set(map(str, given.frame.columns)) - {id_} for given in (tables[0], tables[-1]))
    if first & last:
        return
    if len(tables) == 1:
        raise click.ClickException(f"{tables[0].path}: it has no column beside the ids")
    names = " and ".join(
        f"{given.path} has {', '.join(map(str, given.frame.columns[:8]))}" for given in tables
    )
    raise click.ClickException(
        f"the tables have no column in common to compare by: {names}. Columns that mean the same must "
        "be called the same"
    )


def kinds_of(
    kinds: dict[str, tuple[str, ...]], tables: list[Given], others: tuple[str | None, ...]
) -> dict[str, str] | None:
    """Column name to kind, of options such as ``--text name,address``; all names must be columns."""
    columns = list(map(str, tables[0].frame.columns))
    answer: dict[str, str] = {}
    for kind, given in kinds.items():
        for text in given:
            names = [text] if text in columns else [name.strip() for name in text.split(",")]
            for name in names:
                if answer.get(name, kind) != kind:
                    raise click.UsageError(f"column {name!r} cannot be {answer[name]} and {kind}")
                answer[name] = kind
    for name in (*others, *answer):
        need_column(tables[0].path, tables[0].frame, name)
    return answer or None


def unfitted_pairs(trees: int, run: dict[str, Any]) -> Any:
    from ..tables.pair_model import PairModel

    return PairModel(n_estimators=trees, **run)


def learn_pairs(
    model: Any, tables: list[Given], labelled: list[Any], pairs: tuple[str, ...], as_json: bool
) -> dict[str, Any]:
    """What is known of the pair model, which learns here."""
    import numpy as np

    from ..tables.columns import as_table
    from ..tables.pair_labels import check_labelled_pairs, read_labelled_pairs, row_ids

    read = [as_table(given.frame) for given in tables]
    ids = [row_ids(table, model.id, unique=True) for table in read]
    found = read_labelled_pairs(joined(labelled), None, ids[0], ids[1] if ids[1:] else None)
    with said_already():
        check_labelled_pairs(found)
    named = {"a": ids[0][found.pairs[:, 0]], "b": ids[-1][found.pairs[:, 1]]}
    model.fit(*read, pairs=named, pair_labels=np.asarray(found.labels))
    model.set_params(n_jobs=None)
    if not as_json:
        known = [(given.path, given.n_rows, given.frame.shape[1]) for given in tables]
        show(pairs_compared(model, known, found, " + ".join(pairs)))
    return {**report_pairs(model), "pairs": given_pairs(found)}


def learn_metric(
    model: Any,
    given: Given,
    labelled: list[Any],
    pairs: tuple[str, ...],
    labels: str | None,
    as_json: bool,
) -> dict[str, Any]:
    """What is known of the metric, which learns here."""
    from ..tables.columns import as_table

    shown = False

    def progress(line: str) -> None:
        nonlocal shown
        if not shown and not as_json:
            show(what_was_read(model, given.path, given.n_rows, " + ".join(pairs), labels))
        shown = True
        if sys.stderr.isatty():
            click.echo(line, err=True)

    with said_already():
        model.fit(as_table(given.frame), labels, pairs=joined(labelled), progress=progress)
    forget_run(model.metric_)
    forget_run(model.metric)
    for pair_model in (model.pair_model, model.pair_model_):
        if pair_model is not None:
            pair_model.set_params(n_jobs=None)
    return report(model, given.n_rows)


@contextmanager
def said_already() -> Iterator[None]:
    """Pairs that were left out stand in the report."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="pairs left out")
        yield


def read_rows(
    path: str, labelled: list[Any], id_: str | None, max_rows: int, sep: str | None, seed: int
) -> tuple[Any, int]:
    """(the rows to learn from, how many there are): labelled ones, and a sample of the others."""
    import numpy as np

    from ..tables import files
    from ..tables.columns import id_text

    named: set[str] = set()
    for part in labelled:
        named |= {id_text(v) for v in part.iloc[:, :2].to_numpy().ravel()}
        named |= {id_text(name) for name in part.columns[:2]}

    def keep(frame: Any) -> Any:
        need_column(path, frame, id_)
        values = frame.index if id_ is None else frame[id_]
        return np.fromiter((id_text(v) in named for v in values), bool, len(frame))

    def seen(rows: int) -> None:
        if sys.stderr.isatty() and rows > files.CHUNK:
            click.echo(f"\r{rows:,} rows read ", err=True, nl=False)

    frame, total = files.read_sample(
        path, max_rows or sys.maxsize, keep, sep=sep, seed=seed, seen=seen
    )
    if sys.stderr.isatty() and total > files.CHUNK:
        click.echo("", err=True)
    return frame, total
