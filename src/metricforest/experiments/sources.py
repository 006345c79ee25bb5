"""Which state of the code a result depends on.

A result names the modules that its metric and its experiment are made of by a checksum, so that a
change to one metric leaves the results of the others.
"""

from __future__ import annotations

import ast
import zlib
from functools import cache
from pathlib import Path

from .protocol import HFD, RIVALS

PACKAGE = Path(__file__).parents[1]
FOREST = {  # what only HFD is made of
    *("hierarchy.py", "grow.py", "ssmmc.py", "mrmmc.py", "convex.py", "dense.py", "ranking.py"),
    *("distance.py", "forest.py", "index.py", "neighbors.py"),
}
NO_MATTER = {  # modules of the package that no result depends on
    *("warn.py", "storage.py", "version.py", "embedding.py", "layout.py", "model_selection.py"),
    *("estimators.py", "plots.py", "demo.py", "tables.py", "columns.py", "preparation.py"),
    *("judgements.py", "files.py", "explain.py", "suggest.py", "suspect.py", "calibration.py"),
}
LISTING = {  # of an experiment: what says which units there are, and settings, which `digest` names
    *("units", "SETTINGS", "FOREST", "COUNTS", "LISTS", "OWNERS", "TITLE"),
}


@cache
def code(metric: str, experiment: str) -> str:
    """Names the state of the code that results depend on: remarks and layout do not count."""
    no_matter = NO_MATTER | (set() if metric == HFD else FOREST)
    paths = {path for path in PACKAGE.glob("*.py") if path.name not in no_matter}
    paths |= with_siblings(PACKAGE / "experiments" / f"{experiment}.py")
    if metric != HFD:
        module = RIVALS[metric].__module__.rpartition(".")[2]
        paths |= with_siblings(PACKAGE / "rivals" / f"{module}.py")
    said = 0
    for path in sorted(paths):
        place = path.relative_to(PACKAGE)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [part for part in body if not is_remark(part)]  # type: ignore[attr-defined]
        if place.parent.name == "experiments":
            tree.body = [part for part in tree.body if LISTING.isdisjoint(names_in(part))]
        said = zlib.crc32(f"{place.as_posix()}:{ast.dump(tree)}".encode(), said)
    return f"{said:08x}"


def with_siblings(path: Path) -> set[Path]:
    """A module and those of its folder that it imports, and so on."""
    found, new = set(), [path]
    while new:
        path = new.pop()
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                names = [node.module] if node.module else [part.name for part in node.names]
                beside = [path.with_name(f"{name}.py") for name in names]
                new += [other for other in beside if other.is_file() and other not in found]
    return found


def is_remark(part: ast.AST) -> bool:
    """Whether it only speaks to a reader."""
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def names_in(part: ast.stmt) -> set[str]:
    """What a statement of a module defines."""
    if isinstance(part, ast.FunctionDef):
        return {part.name}
    targets = part.targets if isinstance(part, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}
