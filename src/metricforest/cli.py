"""The command line: from a table and a few judged pairs to neighbours, matches and clusters.

A command reads its arguments, calls the library and writes one result. Results go to standard output or
whole to a file; what is worth knowing beside them goes to standard error. Whatever goes wrong that
a user can mend is one line there and exit code 2; `--debug` shows where it came from. Nothing heavy
is imported before a command runs.

`reproduce` and `report` are in `metricforest.experiments.cli`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from .version import __version__

if TYPE_CHECKING:
    from .tables import TableMetric

PROGRAM = "metricforest"
EXPERIMENT_COMMANDS = ("reproduce", "report")
BAD_INPUT, BUG, INTERRUPTED = 2, 1, 130
GUESSING = 0.6  # pair AUC below which a user should know that little was learned
ANSWER_NAMES = frozenset(
    ["same", "label", "answer", "match", "judgement", "judgment", "verdict", "is_match", "is_same"]
)


class Program(click.Group):
    """A group whose errors are one line. The experiments bring their commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *EXPERIMENT_COMMANDS]  # in the order of this file

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in EXPERIMENT_COMMANDS:
            from .experiments import cli

            return getattr(cli, cmd_name)
        return super().get_command(ctx, cmd_name)

    def main(self, args: Any = None, prog_name: str | None = None, **extra: Any) -> NoReturn:
        given = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in given
        given = [arg for arg in given if arg != "--debug"]
        extra["standalone_mode"] = False
        notes = Notes()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.showwarning = notes.take
                code = super().main(given, PROGRAM, **extra)
            sys.stdout.flush()
        except (click.Abort, KeyboardInterrupt):
            if debug:
                raise
            say("interrupted; nothing was written")
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(BUG)  # as click does
        except Exception as error:
            if debug:
                raise
            notes.show()
            fail(error)
        notes.show()
        sys.exit(code if isinstance(code, int) else 0)


def fail(error: Exception) -> NoReturn:
    """One line of what is wrong, and the exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":  # of click 8.2 and later
        click.echo(str(error))
        sys.exit(BAD_INPUT)
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else PROGRAM
        complain(f"{error.format_message()} (see {where} --help)")
    elif isinstance(error, click.ClickException):
        complain(error.format_message())
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}{error.strerror or error}")
    elif isinstance(error, ModuleNotFoundError):
        complain(f"{error}; it may be in an extra, such as metricforest[cli] or metricforest[plot]")
    elif isinstance(error, MemoryError):
        complain("there is not enough memory; --max-rows learns from fewer rows")
    elif isinstance(error, (ValueError, TypeError)):
        complain(str(error))
    else:
        say(f"error: {type(error).__name__}: {one_line(str(error))} (a bug? --debug shows where)")
        sys.exit(BUG)
    sys.exit(BAD_INPUT)


def complain(message: str) -> None:
    say(f"error: {one_line(message)}")


def say(message: str) -> None:
    """A line to the user, beside the result."""
    click.echo(f"{PROGRAM}: {message}", err=True)


def one_line(message: str) -> str:
    return " ".join(message.split())


class Notes:
    """Warnings as lines, each once; values that cannot be read are counted through all pieces."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}
        self.unreadable: dict[tuple[str, str], list[Any]] = {}

    def take(self, message: Any, category: Any, *where: Any, **more: Any) -> None:
        if hasattr(message, "column"):
            entry = self.unreadable.setdefault((message.column, message.kind), [0, message.bad[0]])
            entry[0] += len(message.bad)
        elif issubclass(category, UserWarning):
            self.lines[one_line(str(message))] = None

    def show(self) -> None:
        for line in self.lines:
            say(f"note: {line}")
        for (column, kind), (count, example) in self.unreadable.items():
            say(
                f"note: column {column!r}: {count} values are no {kind}, such as {example!r}, "
                "and count as missing"
            )


def example(*lines: str) -> str:
    """The examples below a command's help, kept as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


# ---------------------------------------------------------------------------------------- options


def result_options(command: Any) -> Any:
    """Where a table of results goes, and as what."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
        click.option(
            "--format",
            "format_",
            type=click.Choice(["csv", "tsv", "parquet", "json"]),
            help="Format of the result. [default: by the suffix of --output, or csv]",
        ),
        click.option(
            "-o", "--output", metavar="FILE", help="Write there. [default: standard output]"
        ),
    ):
        command = option(command)
    return command


sep_option = click.option(
    "--sep", metavar="CHAR", help="What separates the columns of a CSV. [default: a comma]"
)
jobs_option = click.option(
    "--jobs", type=int, default=-1, show_default=True, help="Processor cores to use; -1: all."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def separator(sep: str | None) -> str | None:
    if sep is None:
        return None
    sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep)
    if len(sep) != 1:
        raise click.UsageError(f"--sep must be one character (or \\t), got {sep!r}")
    return sep


def write_result(
    output: str | None, format_: str | None, as_json: bool, frames: Iterable[Any]
) -> None:
    from . import files

    chosen = files.format_of(output, "json" if as_json else format_)
    if chosen == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is no text for a terminal: name a file with -o")
    files.check_writable(output)
    files.write_frames(output, frames, chosen)


def print_json(value: Any) -> None:
    from .files import plain

    click.echo(json.dumps(value, indent=2, default=plain, ensure_ascii=False))


def counted(frames: Iterable[Any], what: str, output: str | None) -> Iterator[Any]:
    """The frames; on a terminal that does not show the result, with a count of rows that moves."""
    live = sys.stderr.isatty() and (output is not None or not sys.stdout.isatty())
    total, started = 0, time.perf_counter()
    for frame in frames:
        yield frame
        total += len(frame)
        if live:
            passed = time.perf_counter() - started
            click.echo(f"\r{total:,} {what}, {passed:.0f} s ", err=True, nl=False)
    if live:
        click.echo("", err=True)


def load_model(path: str, jobs: int | None = None, table: bool = True) -> Any:
    """The model in a file, which must know its table unless `table` is False."""
    from .base import load
    from .files import check_readable

    check_readable(path)
    model = load(path)
    if table and not hasattr(model, "preparation_"):
        raise click.ClickException(
            f"{path}: it holds a {type(model).__name__} without a table; "
            f"`{PROGRAM} fit` makes models that know their table"
        )
    inner = getattr(model, "metric_", model)
    if jobs is not None and "n_jobs" in inner.get_params():
        if jobs == 0:
            raise click.UsageError("--jobs must not be 0")
        inner.set_params(n_jobs=jobs)
    return model


def queries(model: TableMetric, path: str, sep: str | None) -> Iterator[Any]:
    """The rows of a file piece by piece, read as the model needs them."""
    from . import files
    from .columns import NUMBER

    text = {column.name for column in model.preparation_.columns_ if column.kind != NUMBER}
    text |= {model.id} if model.id else set()
    return files.numbered(files.read_chunks(path, sep=separator(sep), text=text))


def whole_table(model: TableMetric, path: str, sep: str | None) -> Any:
    from .files import pandas

    frames = list(queries(model, path, sep))
    return frames[0] if len(frames) == 1 else pandas().concat(frames)


# --------------------------------------------------------------------------------------- commands


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example(
        "metricforest fit products.csv --id sku --pairs judged.csv -o shop.mf",
        "metricforest neighbors shop.mf new.csv -k 5 -o nearest.csv",
    ),
)
@click.version_option(__version__, prog_name=PROGRAM)
@click.option("--debug", is_flag=True, help="Show where an error came from.")
def main(debug: bool) -> None:
    """Learn a distance from a table and a few judged pairs, and use it."""


@main.command(epilog=example("metricforest demo"))
def demo() -> None:
    """Learn from 500 judged pairs of embedded data; print a table, write demo.png."""
    from . import demo as module

    module.main()


@main.command(
    epilog=example(
        "metricforest fit products.csv --id sku --pairs judged.csv -o shop.mf",
        "metricforest fit flowers.parquet --labels species -o flowers.mf",
        "metricforest fit big.csv --id key --pairs judged.tsv --max-rows 50000 -o big.mf",
    )
)
@click.argument("table")
@click.option(
    "--pairs",
    metavar="FILE",
    multiple=True,
    help="Judged pairs: two ids and same or different (1 or 0, +1 or -1, true or false, match "
    "or distinct). May be given several times.",
)
@click.option("--labels", metavar="COLUMN", help="Column with class labels; empty: unlabelled.")
@click.option(
    "--id", "id_", metavar="COLUMN", help="Column with the rows' ids. [default: row 0, 1, ...]"
)
@click.option("-o", "--output", metavar="FILE", required=True, help="The model file to write.")
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
    help="How sharply planes part rows. The paper's 0.5 tells same from different less well.",
)
@click.option(
    "--implied",
    is_flag=True,
    help="Learn also from what the judgements imply (a is b, b is c). Not for noisy ones.",
)
@click.option("--category", metavar="COLUMN", multiple=True, help="Column of codes, not numbers.")
@click.option("--drop", metavar="COLUMN", multiple=True, help="Column not to use.")
@sep_option
@jobs_option
@json_option
def fit(
    table: str,
    pairs: tuple[str, ...],
    labels: str | None,
    id_: str | None,
    output: str,
    trees: int,
    seed: int,
    max_rows: int,
    folds: int,
    min_node_size: int,
    alpha: float,
    implied: bool,
    category: tuple[str, ...],
    drop: tuple[str, ...],
    sep: str | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Learn a distance from TABLE (.csv, .tsv, .parquet, .npy, .npz) and judged pairs."""
    from . import files
    from .columns import as_table, values_of
    from .judgements import read_answer

    if not pairs and labels is None:
        raise click.UsageError("nothing to learn from: give --pairs, --labels or both")
    if folds == 1:
        raise click.UsageError("--folds must be 0 or at least 2, got 1")
    if jobs == 0:
        raise click.UsageError("--jobs must not be 0")
    files.check_writable(output)
    started = time.perf_counter()
    judged = [read_pairs(path) for path in pairs]
    frame, n_rows = read_rows(table, judged, id_, max_rows, separator(sep), seed)
    for column in (id_, labels, *category, *drop):
        if column is not None and column not in frame.columns:
            known = ", ".join(map(str, frame.columns[:20]))
            raise click.ClickException(f"{table}: no column {column!r}; it has {known}")
    for i, path in enumerate(pairs):
        judged[i] = settle_header(judged[i], frame, id_)
        check_ids(judged[i], frame, id_, table, path)
        with naming(path):
            for row, answer in enumerate(values_of(judged[i].iloc[:, 2]).tolist()):
                read_answer(answer, row)

    from .hierarchy import HierarchyForest
    from .tables import TableMetric

    model = TableMetric(
        HierarchyForest(
            trees,
            min_node_size=min_node_size,
            alpha=alpha,
            implied_pairs=implied,
            standardize=False,
            n_jobs=jobs,
            random_state=seed,
            verbose=int(sys.stderr.isatty()),
        ),
        id=id_,
        kinds={**dict.fromkeys(category, "category"), **dict.fromkeys(drop, "drop")} or None,
        cv=folds,
        random_state=seed,
    )
    told = False

    def progress(line: str) -> None:
        nonlocal told
        if not told and not as_json:
            click.echo("\n".join(what_was_read(model, table, n_rows, " + ".join(pairs), labels)))
        told = True
        if sys.stderr.isatty():
            click.echo(line, err=True)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="pairs left out")  # said in what was read
        model.fit(as_table(frame), labels, pairs=joined(judged), progress=progress)
    of_this_run = {"verbose": 0, "n_jobs": None}  # not of the model: its file shall not differ
    model.metric_.set_params(**of_this_run)
    model.set_params(**{f"metric__{name}": value for name, value in of_this_run.items()})
    model.save(output)
    seconds = time.perf_counter() - started
    if as_json:
        print_json({**report(model, n_rows), "model": output, "seconds": round(seconds, 2)})
        return
    click.echo("\n".join(what_was_learned(model)))
    size = os.path.getsize(output)
    click.echo(f"{output}: written, {size / 1e6:.1f} MB, {seconds:.0f} s in all")


def read_pairs(path: str) -> Any:
    """The file of judged pairs as three columns of text: two ids and an answer."""
    from . import files

    frame = files.read_table(path, sep=files.guess_separator(path))
    if frame.shape[1] > 3:
        known = [c for c in frame.columns if str(c).strip().lower() in ANSWER_NAMES]
        if len(known) != 1:
            raise click.ClickException(
                f"{path}: which of its {frame.shape[1]} columns holds the answers? Call one "
                "'same', or keep two ids and the answer only"
            )
        ends = [c for c in frame.columns if c != known[0]][:2]
        frame = frame[[*ends, known[0]]]
    if frame.shape[1] < 3:
        raise click.ClickException(
            f"{path}: judged pairs need three columns, two ids and an answer, "
            f"but it has {', '.join(map(repr, map(str, frame.columns)))}"
        )
    return frame


def joined(judged: list[Any]) -> Any:
    """The pairs of all files in one frame; None of none."""
    from .files import pandas

    if not judged:
        return None
    names = judged[0].columns
    parts = [part.set_axis(names, axis=1).astype(object) for part in judged]  # ids stay as they are
    return pandas().concat(parts, ignore_index=True)


def read_rows(
    path: str, judged: list[Any], id_: str | None, max_rows: int, sep: str | None, seed: int
) -> tuple[Any, int]:
    """(the rows to learn from, how many there are): judged ones, and a sample of the others."""
    import numpy as np

    from . import files
    from .columns import id_text

    named: set[str] = set()
    for part in judged:
        named |= {id_text(v) for v in part.iloc[:, :2].to_numpy().ravel()}
        named |= {id_text(name) for name in part.columns[:2]}

    def keep(frame: Any) -> Any:
        if id_ is None:
            values = frame.index
        elif id_ in frame.columns:
            values = frame[id_]
        else:
            known = ", ".join(map(str, frame.columns[:20]))
            raise click.ClickException(f"{path}: no column {id_!r}; it has {known}")
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


def settle_header(judged: Any, frame: Any, id_: str | None) -> Any:
    """The pairs, with their header as the first of them where it is one: two known ids."""
    from .columns import id_text
    from .files import pandas

    known = known_ids(frame, id_)
    head = [str(name).strip() for name in judged.columns]
    # pandas calls a second column "1" "1.1"
    head = [
        h.rpartition(".")[0] if h.rpartition(".")[0] in head[:i] else h for i, h in enumerate(head)
    ]
    if not {id_text(h) for h in head[:2]} <= known:
        return judged
    first = pandas().DataFrame([head], columns=judged.columns)
    return pandas().concat([first, judged], ignore_index=True)


def known_ids(frame: Any, id_: str | None) -> set[str]:
    from .columns import id_text

    return {id_text(v) for v in (frame.index if id_ is None else frame[id_])}


def check_ids(judged: Any, frame: Any, id_: str | None, table: str, pairs: str) -> None:
    """Raise where no pair names two rows of the table, and say which column would do."""
    from .columns import id_text

    known = known_ids(frame, id_)
    ends = [[id_text(a), id_text(b)] for a, b in judged.iloc[:, :2].to_numpy().tolist()]
    asked = {end for pair in ends for end in pair}
    if any(a in known and b in known for a, b in ends):
        return
    hint = ""
    for column in frame.columns:
        held = {id_text(value) for value in frame[column]}
        if column != id_ and len(held & asked) > len(asked) / 2:
            hint = f"; column {str(column)!r} holds them: pass --id {column}"
            break
    what = "row numbers of" if id_ is None else f"ids in column {id_!r} of"
    some = ", ".join(map(repr, sorted(asked)[:3]))
    raise click.ClickException(
        f"{pairs}: no pair names two {what} {table} (it names {len(asked)}: {some}, ...){hint}"
    )


def what_was_read(
    model: TableMetric, table: str, n_rows: int, pairs: str, labels: str | None
) -> list[str]:
    """The report before training."""
    preparation = model.preparation_
    width = preparation.n_features_in_
    lines = [f"{table}: {n_rows:,} rows, {width} column{'s' * (width != 1)}"]
    if len(model.ids_) < n_rows:
        lines[0] += f"; learning from {len(model.ids_):,} of the rows, judged ones among them"
    lines += columns_in_use(preparation.columns_)
    lines += [f"  not used: {name} ({why})" for name, why in preparation.dropped_.items()]
    lines += [f"  note: {note}" for note in preparation.notes_]
    if model.id is None:
        lines.append("  no --id: rows are called 0, 1, 2, ... by their place")
    judged = model.judgements_
    if judged is not None:
        n_same = int((judged.labels == 1).sum())
        lines.append(
            f"{pairs}: {judged.n_given:,} judgements; used are {n_same:,} same, "
            f"{len(judged.labels) - n_same:,} different"
        )
        if judged.merged:
            lines.append(f"  merged: {judged.merged} that had been given before")
        if judged.contradictions:
            some = ", ".join(f"{a} - {b}" for a, b in judged.contradictions[:3])
            lines.append(
                f"  contradictions: {len(judged.contradictions)} judged both ways, both stay ({some})"
            )
        lines += [f"  left out: {part}" for part in judged.left_out()]
        if n_same == len(judged.labels) and labels is None:
            lines.append("  note: same alone teaches nothing; judge some pairs that are different")
    return lines


def columns_in_use(columns: list[Any]) -> list[str]:
    """A line for each kind of column."""
    by_kind: dict[str, list[str]] = {}
    for column in columns:
        name = column.name + "*" * column.indicator
        if column.kind == "category":
            others = " and others" if column.other else ""
            n = len(column.levels)
            name += f" ({n} level{'s' * (n != 1)}{others})"
        by_kind.setdefault(column.kind, []).append(name)
    lines = [f"  used as {kind}: {', '.join(names)}" for kind, names in by_kind.items()]
    return lines + ["  (* some values are missing)"] * any(c.indicator for c in columns)


def what_was_learned(model: TableMetric) -> list[str]:
    """The report after training."""
    if not model.cv:
        return ["no pairs were held out: pair AUC and threshold are not known"]
    figures = report(model, 0)
    held_out, auc = figures["held_out_pairs"], figures["pair_auc"]
    if auc is None:
        lines = [f"pair AUC: not known, {held_out} pairs could be held out and asked about"]
    else:
        lines = [f"pair AUC {auc:.3f} on {held_out} held-out pairs"]
    if auc is not None and len(model.cv_auc_) > 1:
        folds = ", ".join(f"{value:.3f}" for value in model.cv_auc_)
        lines[0] += f" (by fold: {folds})"
    if auc is not None and auc < GUESSING:
        lines.append(
            "  that is hardly better than guessing, 0.5: check the answers and the columns"
        )
    if figures["threshold"] is None:
        lines.append("no threshold: that needs 5 held-out pairs of each kind; judge more pairs")
    else:
        lines.append(
            f"suggested threshold {figures['threshold']:.4g}: precision "
            f"{figures['precision']:.3f}, recall {figures['recall']:.3f} on the held-out pairs"
        )
    return lines


def report(model: TableMetric, n_rows: int) -> dict[str, Any]:
    """What is known of a model, for machines."""
    import numpy as np

    preparation, judged = model.preparation_, model.judgements_
    threshold = getattr(model, "threshold_", None)
    called = model.held_out_distance_ <= (-1 if threshold is None else threshold)
    hits = int((called & model.held_out_same_).sum())
    auc = model.cv_auc_[~np.isnan(model.cv_auc_)]
    answer: dict[str, Any] = {
        "rows": n_rows or len(model.ids_),
        "rows_learned": len(model.ids_),
        "columns": {column.name: column.kind for column in preparation.columns_},
        "not_used": preparation.dropped_,
        "notes": preparation.notes_,
        "features": len(preparation.get_feature_names_out()),
        "held_out_pairs": len(model.held_out_same_),
        "pair_auc": float(auc.mean()) if len(auc) else None,
        "threshold": threshold,
        "precision": hits / called.sum() if called.any() else None,
        "recall": hits / model.held_out_same_.sum() if called.any() else None,
    }
    if judged is not None:
        answer["pairs"] = {
            "given": judged.n_given,
            "same": int((judged.labels == 1).sum()),
            "different": int((judged.labels == -1).sum()),
            "merged": judged.merged,
            "contradictions": judged.contradictions,
            "unknown_ids": judged.unknown,
            "left_out": judged.n_unknown + judged.selves + judged.unsure,
        }
    return answer


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
    output: str | None,
    format_: str | None,
    as_json: bool,
    sep: str | None,
    jobs: int,
) -> None:
    """The nearest rows of the model's table to each row of QUERIES ("-": standard input).

    Without QUERIES, to each row of the model's own table. The queries are read, measured and written
    piece by piece: they may be more than fit into memory.
    """
    import numpy as np

    from .files import pandas

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

    write_result(output, format_, as_json, counted(nearest(), "neighbours", output))


class naming:
    """Around work on a file's rows: an error has its name in front."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, (ValueError, TypeError)) and self.path not in str(error):
            raise click.ClickException(f"{self.path}: {error}") from error


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
    help="Share of the matches that shall be right, judged by held-out pairs.",
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
    output: str | None,
    format_: str | None,
    as_json: bool,
    sep: str | None,
    jobs: int,
) -> None:
    """Pairs of rows that are the same: one in A, the other in B, or both in A.

    Without A, both in the model's own table. Rows are called the same up to the model's threshold,
    to one that reaches a --precision, or to a --threshold of your own. Precision holds for pairs
    like the judged ones: if fewer of all pairs are the same, fewer matches are right.
    """
    from .columns import as_table
    from .files import pandas
    from .judgements import row_ids
    from .tables import near_pairs

    if precision is not None and threshold is not None:
        raise click.UsageError("--precision and --threshold exclude each other")
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

    write_result(output, format_, as_json, counted(matches(), "matches", output))
    if n_full:
        say(f"note: some rows have {max_matches} matches or more; --max-matches looks at more")
    if output is not None or sys.stderr.isatty():
        say(
            f"called the same: rows no farther apart than {cut:.4g}, chosen by judged pairs. Others "
            "may be less clear: judge some of these matches, add them to the pairs and fit again"
            if threshold is None
            else f"called the same: rows no farther apart than {cut:.4g}"
        )


@main.command(
    epilog=example(
        "metricforest cluster shop.mf -n 7 -o clusters.csv", "metricforest cluster shop.mf --json"
    )
)
@click.argument("model")
@click.argument("table", required=False)
@click.option(
    "-n", "n_clusters", type=click.IntRange(1), help="Number of clusters. [default: an estimate]"
)
@click.option("--neighbors", "n_neighbors", type=click.IntRange(1), default=20, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@result_options
@sep_option
@jobs_option
def cluster(
    model: str,
    table: str | None,
    n_clusters: int | None,
    n_neighbors: int,
    seed: int,
    output: str | None,
    format_: str | None,
    as_json: bool,
    sep: str | None,
    jobs: int,
) -> None:
    """Clusters of the rows of TABLE, or of the model's own table."""
    import numpy as np

    from . import cluster as cl
    from .columns import as_table
    from .files import pandas
    from .judgements import row_ids

    metric: TableMetric = load_model(model, jobs)
    frame = None if table is None else whole_table(metric, table, sep)
    with naming(table or model):
        searcher = metric.searcher(frame)
        ids = metric.ids_ if frame is None else row_ids(as_table(frame), metric.id)
        if len(ids) < 2 or (n_clusters or 2) > len(ids):
            raise ValueError(f"{len(ids)} rows are too few for {n_clusters or 2} clusters")
        graph = cl.affinity(searcher, *searcher._nearest(None, min(n_neighbors, len(ids) - 1)))
        rng = np.random.RandomState(seed)
        if n_clusters is None:
            n_clusters = cl.estimate_n_clusters(graph, rng)
            say(f"estimated number of clusters: {n_clusters}; -n asks for another")
        labels = cl.cut(graph, n_clusters, 10, rng)
    write_result(output, format_, as_json, [pandas().DataFrame({"id": ids, "cluster": labels})])


@main.command(
    epilog=example(
        "metricforest suggest shop.mf -n 20 -o questions.csv",
        "metricforest fit products.csv --id sku --pairs judged.csv --pairs questions.csv -o shop.mf",
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
    output: str | None,
    format_: str | None,
    as_json: bool,
    jobs: int,
) -> None:
    """Pairs of the model's table that are worth judging next.

    Fill in the column answer and give the file to `fit` with another --pairs. Most is gained with
    models that learn from what is implied (fit --implied).
    """
    from .files import pandas

    metric: TableMetric = load_model(model, jobs)
    with naming(model):
        asked = metric.suggest_pairs(n, random_state=seed)
    frame = pandas().DataFrame({"left": asked["a"], "right": asked["b"], "answer": ""})
    write_result(output, format_, as_json, [frame])


@main.command(
    epilog=example(
        "metricforest suspects shop.mf -n 10", "metricforest suspects shop.mf -o doubtful.csv"
    )
)
@click.argument("model")
@click.option("-n", "n", type=click.IntRange(1), default=20, show_default=True)
@click.option("--cv", type=click.IntRange(2), help="Ask forests that have not seen the pair: slow.")
@result_options
@jobs_option
def suspects(
    model: str,
    n: int,
    cv: int | None,
    output: str | None,
    format_: str | None,
    as_json: bool,
    jobs: int,
) -> None:
    """Judgements that the model disbelieves, the most doubtful first: look at these again."""
    from .files import pandas

    metric: TableMetric = load_model(model, jobs)
    with naming(model):
        doubted = metric.suspect_pairs(n, cv=cv)
    write_result(output, format_, as_json, [pandas().DataFrame(doubted)])


def two_rows(metric: TableMetric, ids: tuple[str, str], table: str | None, sep: str | None) -> Any:
    """What stands for two rows: their ids in the model's table, or tables of one row."""
    from .columns import as_table, id_text
    from .judgements import row_ids

    if table is None:
        metric.rows_of(ids)
        return ids
    wanted = [id_text(called) for called in ids]
    found: dict[str, Any] = {}
    for frame in queries(metric, table, sep):
        for place, called in enumerate(row_ids(as_table(frame), metric.id).tolist()):
            if id_text(called) in wanted:
                found.setdefault(id_text(called), frame.iloc[[place]])
    unknown = [called for called in wanted if called not in found]
    if unknown:
        raise ValueError(f"no row is called {unknown[0]!r}")
    return [found[called] for called in wanted]


table_option = click.option(
    "--table", metavar="FILE", help="Look the rows up there. [default: the model's own table]"
)


@main.command(
    epilog=example(
        "metricforest distance shop.mf A-1001 A-1002",
        "metricforest distance shop.mf n1 n2 --table new.csv --json",
    )
)
@click.argument("model")
@click.argument("row_a", metavar="ROW")
@click.argument("row_b", metavar="ROW")
@table_option
@sep_option
@json_option
def distance(
    model: str, row_a: str, row_b: str, table: str | None, sep: str | None, as_json: bool
) -> None:
    """The distance of two rows, by their ids, and how likely they are the same."""
    from .calibration import probability

    metric: TableMetric = load_model(model)
    with naming(table or model):
        a, b = two_rows(metric, (row_a, row_b), table, sep)
        far = float(metric._pair_distance(metric._measured(a), metric._measured(b))[0])
    answer: dict[str, Any] = {"a": row_a, "b": row_b, "distance": far}
    if hasattr(metric, "calibration_"):
        import numpy as np

        answer["probability"] = float(probability(metric.calibration_, np.array([far]))[0])
    if hasattr(metric, "threshold_"):
        answer["threshold"] = metric.threshold_
        answer["same"] = far <= metric.threshold_
    if as_json:
        print_json(answer)
        return
    for name, value in answer.items():
        click.echo(f"{name}: {value:.6g}" if isinstance(value, float) else f"{name}: {value}")


@main.command(epilog=example("metricforest explain shop.mf A-1001 A-1002"))
@click.argument("model")
@click.argument("row_a", metavar="ROW")
@click.argument("row_b", metavar="ROW")
@table_option
@sep_option
@json_option
def explain(
    model: str, row_a: str, row_b: str, table: str | None, sep: str | None, as_json: bool
) -> None:
    """Why two rows are near or far: the columns and depths that part them."""
    metric: TableMetric = load_model(model)
    with naming(table or model):
        answer = metric.explain_pair(*two_rows(metric, (row_a, row_b), table, sep))
    if as_json:
        print_json({"a": row_a, "b": row_b, **answer.to_dict()})
    else:
        click.echo(answer.summary())


@main.command(epilog=example("metricforest info shop.mf", "metricforest info shop.mf --json"))
@click.argument("model")
@json_option
def info(model: str, as_json: bool) -> None:
    """What a model file holds: its table, its columns, its metric and its threshold."""
    metric = load_model(model, table=False)
    inner = getattr(metric, "metric_", metric)
    figures: dict[str, Any] = {
        "model": type(inner).__name__,
        "parameters": inner.get_params(),
        "size": os.path.getsize(model),
    }
    if hasattr(metric, "preparation_"):
        figures |= report(metric, 0)
        figures["id"] = metric.id
        figures["ids"] = metric.ids_[:3].tolist()
    else:
        figures["rows"], figures["features"] = inner._n_indexed(), inner.n_features_in_
        figures["threshold"] = getattr(inner, "threshold_", None)
    if as_json:
        print_json(figures)
        return
    click.echo(f"{model}: {figures['model']}, {figures['size'] / 1e6:.1f} MB")
    default = type(inner)().get_params()
    changed = {k: v for k, v in figures["parameters"].items() if v != default[k]}
    click.echo(f"  parameters: {', '.join(f'{k}={v}' for k, v in changed.items()) or 'defaults'}")
    click.echo(f"  {figures['rows']:,} rows, {figures['features']} features")
    if not hasattr(metric, "preparation_"):
        click.echo(f"  no table; threshold: {figures['threshold'] or 'none'}")
        return
    ids = ", ".join(map(str, figures["ids"]))
    click.echo(
        f"  ids: {'row numbers' if metric.id is None else f'column {metric.id!r}'} ({ids}, ...)"
    )
    click.echo("\n".join(columns_in_use(metric.preparation_.columns_)))
    for name, why in metric.preparation_.dropped_.items():
        click.echo(f"  not used: {name} ({why})")
    for line in what_was_learned(metric):
        click.echo(f"  {line}")


@main.command(
    "map",
    epilog=example(
        "metricforest map shop.mf -o map.png",
        "metricforest map shop.mf --labels clusters.csv -o map.svg",
    ),
)
@click.argument("model")
@click.option("-o", "--output", metavar="FILE", required=True, help="A .png, .svg or .pdf file.")
@click.option("--labels", metavar="FILE", help="Colours: a table with ids first and labels second.")
@sep_option
def map_(model: str, output: str, labels: str | None, sep: str | None) -> None:
    """Draw the rows of the model's table in the plane, near where they are near."""
    from . import files

    suffix = Path(output).suffix.lower().removeprefix(".")
    if suffix not in ("png", "svg", "pdf"):
        raise click.UsageError(f"a picture is a .png, .svg or .pdf file, got {output!r}")
    files.check_writable(output)
    metric: TableMetric = load_model(model)
    given = None if labels is None else labels_by_id(metric, labels, sep)
    try:
        import matplotlib

        from . import plots

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f'pictures cannot be drawn here ({error}): pip install "metricforest[plot]"'
        ) from error
    import io

    axes = plots.plot_map(metric.metric_, labels=given)
    picture = io.BytesIO()
    axes.figure.savefig(picture, format=suffix, dpi=150, bbox_inches="tight")
    plt.close(axes.figure)
    files.write_parts(output, [picture.getvalue()])


def labels_by_id(metric: TableMetric, path: str, sep: str | None) -> Any:
    """The second column of a table, in the order of the model's rows; -1 where it has none."""
    import numpy as np

    from .columns import id_text
    from .files import read_table

    frame = read_table(path, sep=separator(sep))
    if frame.shape[1] < 2:
        raise click.ClickException(f"{path}: labels need two columns, ids and labels")
    called = {
        id_text(row): str(label)
        for row, label in frame.iloc[:, :2].fillna("-1").to_numpy().tolist()
    }
    labels = np.array([called.get(id_text(value), "-1") for value in metric.ids_.tolist()])
    if (labels == "-1").all():
        raise click.ClickException(f"{path}: none of its ids is a row of the model's table")
    try:
        return labels.astype(np.int64)
    except ValueError:
        return labels


if __name__ == "__main__":
    main()
