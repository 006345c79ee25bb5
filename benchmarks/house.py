"""How the source is cut into files and functions: figures of one or more checkouts, side by side.

    python benchmarks/house.py                     # this checkout
    python benchmarks/house.py ../before .         # two, beside each other

Counted are the files below src/. A public name is one without a leading underscore that a module defines at
its top level; it is used outside where another module mentions it. Two places are duplicates where six
lines or more agree, blank lines, comments, imports, `__all__` and lines without a word left out.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter, defaultdict
from functools import cache
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONG_FUNCTION, LONG_FILE, ALIKE = 80, 600, 6  # lines
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


class House:
    """The modules of a checkout's package, by their dotted names."""

    def __init__(self, checkout: Path):
        self.folder = next(path.parent for path in (checkout / "src").glob("*/__init__.py"))
        self.text = {
            self.name_of(path): path.read_text(encoding="utf-8")
            for path in sorted(self.folder.rglob("*.py"))
        }
        self.tree = {name: ast.parse(text) for name, text in self.text.items()}
        self.words = {name: self.words_of(tree) for name, tree in self.tree.items()}

    def name_of(self, path: Path) -> str:
        parts = path.relative_to(self.folder.parent).with_suffix("").parts
        return ".".join(part for part in parts if part != "__init__")

    def figures(self) -> dict[str, str]:
        folders = Counter(
            str(path.parent.relative_to(self.folder.parent)) for path in self.folder.rglob("*.py")
        )
        public = self.public_names()
        outside = [name for module, name in public if self.is_used_outside(module, name)]
        functions = [
            (node.end_lineno or 0) - node.lineno + 1
            for tree in self.tree.values()
            for node in ast.walk(tree)
            if isinstance(node, FUNCTION)
        ]
        lines = [text.count("\n") for text in self.text.values()]
        chain = self.longest_chain()
        return {
            "modules": f"{len(self.text)}",
            "largest folder, its modules": f"{max(folders.values())}",
            "folders": f"{len(folders)}",
            "longest import chain, modules": f"{len(chain)}",
            f"functions over {LONG_FUNCTION} lines": f"{sum(n > LONG_FUNCTION for n in functions)}",
            f"files over {LONG_FILE} lines": f"{sum(n > LONG_FILE for n in lines)}",
            "lines": f"{sum(lines):,}",
            "public names": f"{len(public)}",
            "of them used outside their module": f"{len(outside)}",
            f"pairs of places with {ALIKE} equal lines": f"{self.n_duplicates()}",
        } | {f"modules in {name}": f"{n}" for name, n in sorted(folders.items())}

    def imports(self, module: str) -> set[str]:
        """Modules of the package that one imports, also inside functions."""
        found = set()
        is_door = any(other.startswith(f"{module}.") for other in self.text)
        for node in ast.walk(self.tree[module]):
            if isinstance(node, ast.Import):
                found.update(part.name for part in node.names)
            elif isinstance(node, ast.ImportFrom):
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_door] if node.level else []
                base = ".".join([*parts, *([node.module] if node.module else [])])
                inner = {f"{base}.{part.name}" for part in node.names}
                found |= inner & self.text.keys() or {base}
        return (found & self.text.keys()) - {module}

    def longest_chain(self) -> list[str]:
        """Modules of which each imports the next; a circle of imports ends it."""
        imports = {module: sorted(self.imports(module)) for module in self.text}
        open_ones: set[str] = set()

        @cache
        def chain(module: str) -> list[str]:
            open_ones.add(module)
            below = [chain(other) for other in imports[module] if other not in open_ones]
            open_ones.remove(module)
            return [module, *max(below, key=len, default=[])]

        return max((chain(module) for module in self.text), key=len)

    def public_names(self) -> list[tuple[str, str]]:
        found = []
        for module, tree in self.tree.items():
            for node in tree.body:
                names = [node.name] if isinstance(node, FUNCTION | ast.ClassDef) else []
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    parts = [part for target in targets for part in ast.walk(target)]
                    names = [part.id for part in parts if isinstance(part, ast.Name)]
                found += [(module, name) for name in names if not name.startswith("_")]
        return list(dict.fromkeys(found))

    def words_of(self, tree: ast.Module) -> set[str]:
        nodes = [*ast.walk(tree)]
        found = {node.id for node in nodes if isinstance(node, ast.Name)}
        found |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        imported = [
            part for node in nodes if isinstance(node, ast.ImportFrom) for part in node.names
        ]
        return found | {part.name for part in imported}

    def is_used_outside(self, module: str, name: str) -> bool:
        return any(name in words for other, words in self.words.items() if other != module)

    def lines_of_code(self, module: str) -> list[str]:
        """Lines that could be a copy of others."""
        lines = self.text[module].splitlines()
        left_out = {
            number
            for node in ast.walk(self.tree[module])
            if isinstance(node, ast.Import | ast.ImportFrom) or is_all(node)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        kept = [line.strip() for number, line in enumerate(lines, 1) if number not in left_out]
        return [line for line in kept if re.search(r"\w", line) and not line.startswith("#")]

    def n_duplicates(self) -> int:
        """Pairs of places where equal runs of lines begin."""
        rows = [self.lines_of_code(module) for module in self.text]
        places = defaultdict(list)
        for file, lines in enumerate(rows):
            for at in range(len(lines) - ALIKE + 1):
                places[tuple(lines[at : at + ALIKE])].append((file, at))
        return sum(
            not (a[1] and b[1] and rows[a[0]][a[1] - 1] == rows[b[0]][b[1] - 1])
            for same in places.values()
            for a, b in combinations(same, 2)
        )


def is_all(node: ast.AST) -> bool:
    """Whether it is the list of names that a module exports."""
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    checkouts = parser.parse_args().checkouts
    found = [House(path).figures() for path in checkouts]
    keys = list(dict.fromkeys(key for figures in found for key in figures))
    width = max(map(len, keys))
    print(" " * width, *[f"{path.resolve().name:>20}" for path in checkouts])
    for key in keys:
        print(f"{key:<{width}}", *[f"{figures.get(key, ''):>20}" for figures in found])


if __name__ == "__main__":
    main()
