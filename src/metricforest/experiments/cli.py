"""The commands `metricforest reproduce` and `metricforest report`."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...")
@click.option("--quick", is_flag=True, help="Small data and few trees: about 5 minutes.")
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of the results. A run that was interrupted goes on where it stopped.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="Cores to use.  [default: all]",
)
@click.option(
    "--again",
    is_flag=True,
    help="Also run what is there but was made by another state of the library's code.",
)
def reproduce(
    experiments: tuple[str, ...], quick: bool, folder: Path, jobs: int, again: bool
) -> None:
    """Run the experiments of the paper and write a report.

    EXPERIMENT is one of neighbours, clustering, classification, noise, ablations and retrieval;
    without any, all of them run.

    \b
    Example:
      metricforest reproduce --quick --out quick
      metricforest reproduce clustering --out results
    """
    from .catalogue import EXPERIMENTS

    unknown = [name for name in experiments if name not in EXPERIMENTS]
    if unknown:
        raise click.UsageError(
            f"there is no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}"
        )
    from .report import Results, write
    from .runner import run
    from .stored import SCORES

    try:
        failed = run(folder, experiments or tuple(EXPERIMENTS), quick=quick, jobs=jobs, again=again)
    except KeyboardInterrupt:
        click.echo(f"interrupted; what is finished is kept in {folder}", err=True)
        raise click.exceptions.Exit(130) from None
    if failed and not (folder / SCORES).is_file():
        raise click.ClickException(f"no unit of work could be done, the first: {failed[0]}")
    for path in write(Results(folder), folder):
        click.echo(path)
    if failed:
        more = f" (and {len(failed) - 1} more, see above)" * (len(failed) > 1)
        raise click.ClickException(f"not all could be done: {failed[0]}{more}")


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--rescore", is_flag=True, help="Compute the scores again from the raw answers.")
def report(folder: Path, rescore: bool) -> None:
    """Write report.html and report.md from the results in FOLDER.

    \b
    Example:
      metricforest report results
    """
    from .report import Results, write

    results = Results(folder, rescore=rescore)
    for path in write(results, folder):
        click.echo(path)
    if results.without_raw:
        click.echo(
            f"{results.without_raw} of {len(results.lines)} units have no raw answers in {folder}: their "
            "scores are as stored",
            err=True,
        )
