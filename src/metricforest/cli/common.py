"""The program around the commands: errors in one line, options that many share, reading and writing."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from ..version import __version__

if TYPE_CHECKING:
    from ..tables.metric import TableMetric

PROGRAM = "metricforest"
EXPERIMENT_COMMANDS = ("reproduce", "report")
BAD_INPUT, BUG, INTERRUPTED, NO_READER = 2, 1, 130, 141  # 141: as if ended by SIGPIPE


class Program(click.Group):
    """A group whose errors are one line. The experiments bring their commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *EXPERIMENT_COMMANDS]  # in the order they were added

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in EXPERIMENT_COMMANDS:
            from ..experiments import cli

            return getattr(cli, cmd_name)
        return super().get_command(ctx, cmd_name)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with while_read():  # --help is answered here
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with while_read():
            return super().invoke(ctx)

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
            interrupted()
        except BrokenPipeError:
            write_nowhere()
            sys.exit(NO_READER)
        except Exception as error:
            if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
                interrupted()  # it came in a compiled call
            if debug:
                raise
            notes.show()
            fail(error)
        notes.show()
        if code == INTERRUPTED:
            leave_interrupted()
        sys.exit(code if isinstance(code, int) else 0)


def interrupted() -> NoReturn:
    say("interrupted; nothing was written")
    leave_interrupted()


def leave_interrupted() -> NoReturn:
    """Exit code 130, at once: a helper may still be in a long compiled call."""
    parallel = sys.modules.get(f"{PROGRAM}.core.parallel")
    if parallel is not None and parallel.is_at_work():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.exit(INTERRUPTED)


@contextmanager
def while_read() -> Iterator[None]:
    """Ends as by SIGPIPE where nobody reads what is written: click would call it a failure."""
    try:
        yield
    except BrokenPipeError:
        write_nowhere()
        raise click.exceptions.Exit(NO_READER) from None


def write_nowhere() -> None:
    """Python flushes both streams when it ends: let it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


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
    click.echo(f"{PROGRAM}: {printable(message)}", err=True)


def one_line(message: str) -> str:
    return printable(" ".join(message.split()))


def printable(text: str) -> str:
    """Text for a terminal: what would move its cursor or change its colours is shown as it is written."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def show(lines: Iterable[str]) -> None:
    """Lines of a report on standard output; names in them are a table's, which may hold anything."""
    click.echo(printable("\n".join(lines)))


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


force_option = click.option(
    "--force", is_flag=True, help="Replace a file that is not an earlier result of this command."
)
ANYWAY = "name another file, or --force replaces it"


class Destination(NamedTuple):
    """Where rows of a result go, and as what."""

    output: str | None
    format: str

    def write(self, frames: Iterable[Any]) -> None:
        from ..tables import files

        files.write_frames(self.output, frames, self.format)


class Result(NamedTuple):
    """What `result_options` say about a table of results."""

    output: str | None
    format: str | None
    force: bool

    @property
    def is_elsewhere(self) -> bool:
        """Whether remarks do not mix with the rows: these go to a file, or remarks to a terminal."""
        return self.output is not None or sys.stderr.isatty()

    def checked(
        self, columns: tuple[str, ...], *inputs: str | None, fill_in: str | None = None
    ) -> Destination:
        """Where the result goes, or one line of why it cannot: before any work.

        A file that does not begin with these columns stays without --force, and one where the user has
        filled some in stays with it.
        """
        from ..storage.outputs import check_output, is_standard
        from ..tables import earlier, files

        chosen = files.format_of(self.output, self.format)
        if is_standard(self.output):
            if chosen == "parquet" and sys.stdout.isatty():
                raise click.UsageError("Parquet is not text for a terminal: name a file with -o")
        else:
            foreign = None if self.force else earlier.foreign(columns, chosen)
            check_output(str(self.output), inputs=inputs, stream=True, foreign=foreign, hint=ANYWAY)
            n_filled = earlier.n_filled(str(self.output), chosen, fill_in) if fill_in else 0
            if n_filled:
                raise click.ClickException(
                    f"{self.output}: {n_filled} of its rows have {earlier.articled(fill_in)}, which is "
                    "not overwritten: name another file"
                )
        return Destination(self.output, chosen)


def result_options(command: Any) -> Any:
    """Where a table of results goes, and as what: the command takes it as `result`."""

    @functools.wraps(command)
    def given(*, output: Any, format_: Any, as_json: bool, force: bool, **options: Any) -> Any:
        result = Result(output, "json" if as_json else format_, force)
        return command(result=result, **options)

    for option in (
        click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
        click.option(
            "--format",
            "format_",
            type=click.Choice(["csv", "tsv", "parquet", "json"]),
            help="Format of the result. [default: by the suffix of --output, or csv]",
        ),
        force_option,
        click.option(
            "-o", "--output", metavar="FILE", help="Write there. [default: standard output]"
        ),
    ):
        given = option(given)
    return given


def pairs_option(more: str = "", required: bool = False) -> Any:
    said = f"Labelled pairs: two ids and same or different{more}. May be given several times."
    return click.option("--pairs", metavar="FILE", multiple=True, required=required, help=said)


id_option = click.option(
    "--id", "id_", metavar="COLUMN", help="Column with the rows' ids. [default: row 0, 1, ...]"
)
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


def print_json(value: Any) -> None:
    from ..tables.files import plain

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


def is_model(path: str) -> bool:
    """Whether a file begins as a model does."""
    from pathlib import Path

    from ..storage.format import no_model
    from ..tables.files import check_readable

    if path == "-":
        return False
    check_readable(path)
    return not no_model(Path(path))


def load_model(path: str, jobs: int | None = None, table: bool = True, pairs: bool = False) -> Any:
    """The model in a file, which must know its table unless `table` is False.

    With `pairs` it may be one that only compares pairs of rows.
    """
    from ..storage.registry import load
    from ..tables.files import check_readable

    check_readable(path)
    model = load(path)
    compares = hasattr(model, "comparison_")
    if table and compares and not pairs:
        raise click.ClickException(
            f"{path}: it only compares pairs of rows, for match, suggest, distance and explain; "
            f"`{PROGRAM} fit` of one table with --metric forest learns a distance as well"
        )
    if table and not compares and not hasattr(model, "preparation_"):
        what = " without a table"
        raise click.ClickException(
            f"{path}: it holds a {type(model).__name__}{what}; "
            f"`{PROGRAM} fit` makes models that know their table"
        )
    inner = getattr(model, "metric_", model)
    if jobs is not None and "n_jobs" in inner.get_params():
        if jobs == 0:
            raise click.UsageError("--jobs must not be 0")
        inner.set_params(n_jobs=jobs)
    return model


def queries(
    model: TableMetric, path: str, sep: str | None, at_once: int | None = None
) -> Iterator[Any]:
    """The rows of a file piece by piece, read as the model needs them."""
    from ..tables import files
    from ..tables.columns import NUMBER

    numbers = {column.name for column in model.preparation_.columns_ if column.kind == NUMBER}
    numbers -= {model.id}
    pieces = files.read_chunks(
        path, sep=separator(sep), numbers=numbers, rows=at_once or files.CHUNK
    )
    return files.numbered(pieces)


def whole_table(model: Any, path: str, sep: str | None) -> Any:
    """The rows of a file; as text where pairs are compared, which the model has learned as text."""
    from ..tables import files

    if getattr(model, "pair_model_", model) is not None:
        return files.read_table(path, sep=separator(sep))
    frames = list(queries(model, path, sep))
    return frames[0] if len(frames) == 1 else files.pandas().concat(frames)


class naming:
    """Around work on a file's rows: an error has its name in front."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, (ValueError, TypeError)) and self.path not in str(error):
            raise click.ClickException(f"{self.path}: {error}") from error


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example(
        "metricforest fit products.csv --id sku --pairs labelled.csv -o shop.mf",
        "metricforest neighbors shop.mf new.csv -k 5 -o nearest.csv",
    ),
)
@click.version_option(__version__, prog_name=PROGRAM)
@click.option("--debug", is_flag=True, help="Show where an error came from.")
def main(debug: bool) -> None:
    """Learn a distance from a table and a few labelled pairs, and use it."""
