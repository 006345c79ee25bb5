"""Which state of the code a result depends on.

A result names the modules that its metric and its experiment are made of by a checksum, so that a
change to one metric leaves the results of the others. What only speaks to a reader or a caller is no
part of it: remarks, imports, what refuses and what warns.
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
    *("labels.py", "checks.py", "outputs.py", "registry.py", "values.py"),
}
MOVED = {  # modules that had another name when the first results were made
    "storage/format.py": "storage.py",
    "tables/metric.py": "tables.py",
    "tables/pair_labels.py": "judgements.py",
    "estimators/neighbors.py": "estimators.py",
    "plots/figures.py": "plots.py",
}
APART = {"experiments", "rivals", "cli"}
LISTING = {  # of an experiment: what says which units there are, and settings, which `digest` names
    *("units", "SETTINGS", "FOREST", "COUNTS", "LISTS", "OWNERS", "TITLE"),
}
CHECKS = ("check_", "_check_", "warn", "_warn", "refuse")  # how functions begin that only say no


@cache
def code(metric: str, experiment: str) -> str:
    """Names the state of the code that results of a metric in an experiment depend on."""
    no_matter = NO_MATTER | (set() if metric == HFD else FOREST)
    paths = {path for path in library() if flat_name(path) not in no_matter}
    paths |= with_siblings(PACKAGE / "experiments" / f"{experiment}.py")
    if metric != HFD:
        module = RIVALS[metric].__module__.rpartition(".")[2]
        paths |= with_siblings(PACKAGE / "rivals" / f"{module}.py")
    said = 0
    for path in sorted(paths, key=lambda path: PACKAGE / flat_name(path)):
        place = path.relative_to(PACKAGE)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if place.parent.name == "experiments":
            tree.body = [part for part in tree.body if LISTING.isdisjoint(names_in(part))]
        text = ast.unparse(Essence().visit(tree))
        said = zlib.crc32(f"{flat_name(path)}:{text}".encode(), said)
    return f"{said:08x}"


def library() -> set[Path]:
    """Modules outside experiments, rivals and the command line, and the package's own door."""
    found = {path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
    found = {path for path in found if path.relative_to(PACKAGE).parts[0] not in APART}
    return found | {path for path in (PACKAGE / "__init__.py",) if path.is_file()}


def flat_name(path: Path) -> str:
    """The name of a module that its results were made under: packages do not count."""
    place = path.relative_to(PACKAGE)
    if place.parts[0] in APART:
        return place.as_posix()
    return MOVED.get(place.as_posix(), place.name)


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


def names_in(part: ast.stmt) -> set[str]:
    """What a statement of a module defines."""
    if isinstance(part, ast.FunctionDef):
        return {part.name}
    targets = part.targets if isinstance(part, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


class Essence(ast.NodeTransformer):
    """Leaves out what does not change a result that is reached."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list) and not body:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        return None if node.name.startswith(CHECKS) else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        value = node.value
        if isinstance(value, ast.Call):
            called = value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            return None if name.startswith(CHECKS) else self.generic_visit(node)
        return None if isinstance(value, ast.Constant) else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_If(self, node: ast.If) -> ast.AST | None:
        node = self.generic_visit(node)  # type: ignore[assignment]
        empty = all(isinstance(part, ast.Pass | ast.Raise) for part in node.body)
        return None if empty and not node.orelse else node
