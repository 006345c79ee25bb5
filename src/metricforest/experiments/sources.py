"""Which state of the code a result depends on: a name for the code, and the commit it was at.

The name is a checksum of all definitions of the package that the metric's class and the experiment's
`answer` and `score` need (`definitions`), wherever they stand. So another metric, the report, or a
move from one module to another does not change it.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from .definitions import Bound, Package, Place, name_of, reached
from .protocol import CLASSES

PACKAGE = Package(Path(__file__).parents[1], __name__.partition(".")[0])
CUT = (  # where following stops, and why nothing is missed
    ("experiments.protocol", "CLASSES"),  # the metrics: the one that matters is followed by itself
    ("datasets", "fetch"),  # what is fetched is held against the published shape and counts
)


@cache
def code(metric: str, experiment: str) -> str:
    """Names the state of the code that results of a metric in an experiment depend on."""
    roots = [
        Bound(f"{PACKAGE.name}.experiments.{experiment}", name) for name in ("answer", "score")
    ]
    roots.append(Bound(CLASSES[metric].__module__, CLASSES[metric].__name__))
    return code_of(PACKAGE, roots)


def code_of(package: Package, roots: list[Bound]) -> str:
    """The name of all that these definitions need."""
    cut = [package.follow(Bound(f"{package.name}.{module}", name)) for module, name in CUT]
    places = [place for root in roots if isinstance(place := package.follow(root), Place)]
    return name_of(reached(package, places, cut.__contains__))


@cache
def commit() -> str:
    """The commit that the library is at, with a + if its files are others; "" outside a checkout."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(PACKAGE.folder), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        changed = git("status", "--porcelain", "--", ".")
        return git("rev-parse", "--short=12", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return ""
