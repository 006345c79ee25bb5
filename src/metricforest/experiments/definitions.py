"""The definitions of a package that some of its definitions need, and one name for them all.

Followed are the names that a definition uses, through imports (also those inside functions), without
running anything. What comes out does not depend on where a definition stands or what it is called: not on
names of modules, of functions, classes and constants outside of them, on import lines, comments,
docstrings, annotations, nor on the text of errors and warnings.

A method counts where it can be called: where its name is an attribute, or a text, in what was followed so
far, or is a special one such as `__init__`. This errs on the side of too many.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
NAMED = FUNCTION | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar
COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
WARN = "warnings.warn"


class Place(NamedTuple):
    """Where a definition stands: a function, class or constant of a module, or a method of a class."""

    module: str
    name: str
    method: str = ""


class Outside(str):
    """The dotted name of something outside the package."""


class Local:
    """A name that is bound inside a function."""


LOCAL = Local()
Meaning = Place | Outside | Local  # of a name; a whole module is a Place without a name
Scope = dict[str, "Meaning | Bound"]


class Bound(NamedTuple):
    """A name that an import binds."""

    module: str
    name: str  # empty: the module itself


class Module:
    """The top level of one module: what each name is defined by, and what is imported under it."""

    def __init__(self, name: str, path: Path):
        self.name = name
        self.is_package = path.name == "__init__.py"
        self.imported: dict[str, Bound] = {}
        self.defined: dict[str, list[ast.stmt]] = {}
        loose: list[ast.stmt] = []  # what is done for its effect: it belongs to all names
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.imported.update(self.bound_by(statement))
            elif not never_runs(statement) and not is_said(statement):
                names = [name for name in names_defined(statement) if name not in self.imported]
                loose += [statement] if not names else []
                for name in names:
                    self.defined.setdefault(name, []).append(statement)
        for statements in self.defined.values():
            statements += loose

    def bound_by(self, statement: ast.Import | ast.ImportFrom) -> dict[str, Bound]:
        """What each name is that an import binds."""
        if isinstance(statement, ast.Import):
            return {
                part.asname or part.name.partition(".")[0]: Bound(
                    part.name if part.asname else part.name.partition(".")[0], ""
                )
                for part in statement.names
            }
        base = self.name.split(".")
        if statement.level:
            base = base[: len(base) - statement.level + self.is_package]
            origin = ".".join([*base, *([statement.module] if statement.module else [])])
        else:
            origin = statement.module or ""
        if any(part.name == "*" for part in statement.names):
            raise ValueError(f"{self.name} imports * from {origin}: its names cannot be followed")
        return {part.asname or part.name: Bound(origin, part.name) for part in statement.names}


def never_runs(statement: ast.stmt) -> bool:
    """Whether it is `if TYPE_CHECKING` or `if __name__ == ...`: not where the module is imported."""
    test = ast.unparse(statement.test) if isinstance(statement, ast.If) else ""
    return test.endswith("TYPE_CHECKING") or test.startswith("__name__ ==")


def names_defined(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module binds or changes."""
    if isinstance(statement, FUNCTION | ast.ClassDef):
        return [statement.name]
    found = {}
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        elif isinstance(node, FUNCTION | ast.ClassDef):
            found[node.name] = None
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update({part.asname or part.name: None for part in node.names})
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found[first_name(node)] = None
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found[first_name(node.value.func)] = None
    return [name for name in found if name]


def first_name(node: ast.AST) -> str:
    """`a` of `a.b[c].d`; empty where it does not begin with a name."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


class Package:
    """The modules of a folder, read when they are first asked for."""

    def __init__(self, folder: Path, name: str = ""):
        self.folder, self.name = folder, name or folder.name
        self.module = cache(self._module)
        self.essence = cache(lambda place: Essence(self, place))

    def _module(self, name: str) -> Module | None:
        """A module by its dotted name; None if it is not of the package."""
        first, *rest = name.split(".")
        path = self.folder.joinpath(*rest)
        if first != self.name:
            return None
        for file in (path / "__init__.py", path.with_suffix(".py") if rest else path):
            if file.is_file():
                return Module(name, file)
        if path.is_dir():
            raise ValueError(f"{path} has no __init__.py: its modules cannot be followed")
        return None

    def follow(self, bound: Bound) -> Place | Outside:
        """What an import leads to, through any number of modules that only hand it on."""
        module = self.module(bound.module)
        if module is None:
            if bound.module.partition(".")[0] == self.name:
                raise ValueError(f"there is no module {bound.module}")
            return Outside(f"{bound.module}.{bound.name}" if bound.name else bound.module)
        if not bound.name:
            return Place(bound.module, "")
        if bound.name in module.defined:
            return Place(bound.module, bound.name)
        if bound.name in module.imported:
            return self.follow(module.imported[bound.name])
        inner = f"{bound.module}.{bound.name}"
        if self.module(inner) is not None:
            return Place(inner, "")
        raise ValueError(f"{bound.module} does not define {bound.name}")

    def statements(self, place: Place) -> list[ast.stmt]:
        """What a name of a module is defined by: for a class all but its methods, or one of them."""
        module = self.module(place.module)
        assert module is not None
        found = module.defined[place.name]
        if place.method:
            (owner,) = [one for one in found if isinstance(one, ast.ClassDef)]
            return [one for one in owner.body if getattr(one, "name", "") == place.method]
        return found

    def methods(self, place: Place) -> set[str]:
        statements = [] if place.method or not place.name else self.statements(place)
        return {
            inner.name
            for one in statements
            if isinstance(one, ast.ClassDef)
            for inner in one.body
            if isinstance(inner, FUNCTION)
        }


class Essence:
    """What matters of one definition: a row of texts and places, and the attributes it uses."""

    def __init__(self, package: Package, place: Place):
        self.package, self.place = package, place
        found = package.module(place.module)
        assert found is not None
        self.module: Module = found
        self.parts: list[str | Place] = []
        self.attributes: set[str] = set()
        if not place.name:  # a module as a value: whatever is in it
            self.parts += [Place(place.module, name) for name in sorted(found.defined)]
            return
        if place.method:
            self.parts.append(place._replace(method=""))
        for statement in package.statements(place):
            self.add(statement, ({},))

    def meaning(self, name: str, scopes: tuple[Scope, ...]) -> Meaning | None:
        """What a name stands for; None for one of Python's own."""
        for scope in reversed(scopes):
            if name in scope:
                found = scope[name]
                return self.package.follow(found) if isinstance(found, Bound) else found
        if name in self.module.defined:
            return Place(self.module.name, name)
        if name in self.module.imported:
            return self.package.follow(self.module.imported[name])
        return None

    def resolved(
        self, node: ast.AST, scopes: tuple[Scope, ...]
    ) -> tuple[Meaning | None, list[str]]:
        """What `a.b.c` stands for, and the attributes that are left of it."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None, []
        found = self.meaning(node.id, scopes)
        while names and isinstance(found, Place) and not found.name:
            found = self.package.follow(Bound(found.module, names.pop(0)))
        if names and isinstance(found, Outside):
            found, names = Outside(".".join([found, *names])), []
        return found, names

    def add(self, node: ast.AST, scopes: tuple[Scope, ...]) -> None:
        """Append what matters of a node."""
        if is_said(node):
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            if len(scopes) == 1:  # one of several ways to get at a name
                self.parts += map(self.package.follow, self.module.bound_by(node).values())
        elif isinstance(node, ast.Name | ast.Attribute):
            self.add_name(node, scopes)
        elif isinstance(node, ast.Constant):
            self.parts.append(f"{type(node.value).__name__} {node.value!r}")
            if isinstance(node.value, str):
                self.attributes.add(node.value)
        elif isinstance(node, FUNCTION | ast.Lambda):
            self.add_function(node, scopes)
        elif isinstance(node, ast.ClassDef):
            self.add_class(node, scopes)
        elif isinstance(node, COMPREHENSION):
            self.add_fields(node, (*scopes, bound_in(node, self.module)))
        elif isinstance(node, ast.Raise):
            kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            self.parts.append("Raise")
            if kind is not None:
                self.add(kind, scopes)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.add(ast.Assign([node.target], node.value), scopes)
        elif isinstance(node, ast.Expr) and self.only_warns(node.value, scopes):
            self.parts.append("Warn")
        else:
            self.add_fields(node, scopes)

    def add_fields(self, node: ast.AST, scopes: tuple[Scope, ...]) -> None:
        """The kind of a node and all that it is made of, but for annotations."""
        self.parts.append(f"({type(node).__name__}")
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "ctx", "type_comment", "kind") or not value:
                if isinstance(value, int):  # 0 is one of the numbers that fields hold
                    self.parts.append(f"{name}={value}")
                continue
            self.parts.append(f"{name}:")
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    self.add(part, scopes)
                else:
                    self.parts.append(repr(part))
        self.parts.append(")")

    def add_name(self, node: ast.Name | ast.Attribute, scopes: tuple[Scope, ...]) -> None:
        found, rest = self.resolved(node, scopes)
        if isinstance(node, ast.Attribute) and not isinstance(found, Place | Outside):
            self.add(node.value, scopes)
            rest = [node.attr]
        elif found == self.place:
            self.parts.append("itself")
        elif isinstance(found, Place | Outside):
            self.parts.append(found)
        else:
            self.parts.append(f"name {node.id}")  # type: ignore[union-attr]
        for name in rest:
            self.parts.append(f".{name}")
            self.attributes.add(name)

    def add_function(self, node: ast.AST, scopes: tuple[Scope, ...]) -> None:
        """A function; only those inside others keep their names, which are then local ones."""
        args: ast.arguments = node.args  # type: ignore[attr-defined]
        inner = (*scopes, bound_in(node, self.module))
        outermost = len(scopes) == 1 and not self.place.method
        self.parts.append(f"function {'' if outermost else getattr(node, 'name', '')}(")
        for decorator in getattr(node, "decorator_list", []):
            self.add(decorator, scopes)
        for kind in ("posonlyargs", "args", "vararg", "kwonlyargs", "kwarg"):
            given = getattr(args, kind) or []
            names = [one.arg for one in (given if isinstance(given, list) else [given])]
            self.parts.append(f"{kind}: {' '.join(names)}")
        for default in (*args.defaults, *args.kw_defaults):
            self.add(default or ast.Pass(), scopes)
        body = node.body  # type: ignore[attr-defined]
        for statement in body if isinstance(body, list) else [body]:
            self.add(statement, inner)
        self.parts.append(")")

    def add_class(self, node: ast.ClassDef, scopes: tuple[Scope, ...]) -> None:
        """A class; of one at the top of a module not the methods, which are definitions of their own."""
        top = len(scopes) == 1
        own: Scope = {name: LOCAL for one in node.body for name in names_defined(one)}
        self.parts.append(f"class {'' if top else node.name}(")
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.add(part, scopes)
        for one in node.body:
            if isinstance(one, ast.AnnAssign):  # of a named tuple or a data class: a field
                self.add_fields(one, (*scopes, own))
            elif not (top and isinstance(one, FUNCTION)):
                self.add(one, (*scopes, own))
                used = (part.id for part in ast.walk(one) if isinstance(part, ast.Name))
                self.attributes.update(name for name in used if name in own)
        self.parts.append(")")

    def only_warns(self, node: ast.AST, scopes: tuple[Scope, ...]) -> bool:
        """Whether it calls `warnings.warn`, or a function of the package that is made to call it."""
        if not isinstance(node, ast.Call):
            return False
        found, rest = self.resolved(node.func, scopes)
        if isinstance(found, Place) and found.name and not rest:
            (function, *more) = self.package.statements(found)
            if more or not isinstance(function, FUNCTION):
                return False
            last, inner = function.body[-1], Essence(self.package, found)
            returns = any(isinstance(part, ast.Return) for part in ast.walk(function))
            if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call) or returns:
                return False
            found, rest = inner.resolved(last.value.func, ({},))
        return found == WARN and not rest


def is_said(node: ast.AST) -> bool:
    """Whether it is a docstring, or nothing at all."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def bound_in(node: ast.AST, module: Module) -> Scope:
    """What the names mean that a function, lambda or comprehension binds."""
    found: Scope = {}
    args = getattr(node, "args", None)
    if isinstance(args, ast.arguments):
        found.update({one.arg: LOCAL for one in ast.walk(args) if isinstance(one, ast.arg)})
    outer: set[str] = set()
    for part in inside(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store | ast.Del):
            found.setdefault(part.id, LOCAL)
        elif isinstance(part, NAMED) and part.name:
            found.setdefault(part.name, LOCAL)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            found.update(module.bound_by(part))
        elif isinstance(part, ast.Global | ast.Nonlocal):
            outer.update(part.names)
    return {name: meaning for name, meaning in found.items() if name not in outer}


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one that belong to its scope: a nested one is given, but not what is in it."""
    for part in ast.iter_child_nodes(node):
        yield part
        if not isinstance(part, FUNCTION | ast.ClassDef | ast.Lambda | COMPREHENSION):
            yield from inside(part)


def reached(
    package: Package, roots: list[Place], cut: Callable[[Place], bool]
) -> dict[Place, Essence]:
    """All that these definitions need, and so on, but for what is `cut` off."""
    found: dict[Place, Essence] = {}
    attributes: set[str] = set()
    waiting: dict[str, list[Place]] = {}  # methods that nothing calls so far
    new = list(roots)
    while new:
        place = new.pop()
        if place in found or cut(place):
            continue
        essence = found[place] = package.essence(place)
        new += [part for part in essence.parts if isinstance(part, Place)]
        for method in package.methods(place):
            own = place._replace(method=method)
            if method in attributes or method.startswith("__"):
                new.append(own)
            else:
                waiting.setdefault(method, []).append(own)
        for name in essence.attributes - attributes:
            new += waiting.pop(name, [])
        attributes |= essence.attributes
    return found


def name_of(found: dict[Place, Essence]) -> str:
    """A checksum of definitions in which each stands for itself by what is in it and what it needs.

    In each round a definition is named anew by its own text and the names of what it needs: until no
    round tells apart more of them.
    """
    rows = {place: shortened(essence.parts) for place, essence in found.items()}
    for place in sorted(found):  # a class needs those of its methods that are called
        if place.method:
            rows[place._replace(method="")].append(place)
    labels = dict.fromkeys(found, "")
    n_labels = 0
    while True:
        labels = {
            place: checksum(*[labels.get(part, "") if isinstance(part, Place) else part for part in row])
            for place, row in rows.items()
        }  # fmt: skip
        if len(set(labels.values())) == n_labels:
            return checksum(*sorted(labels.values()))[:12]
        n_labels = len(set(labels.values()))


def shortened(parts: list[str | Place]) -> list[str | Place]:
    """Each run of texts as one."""
    row: list[str | Place] = []
    for is_place, run in groupby(parts, lambda part: isinstance(part, Place)):
        some = list(run)
        row += some if is_place else [checksum(*map(str, some))]
    return row


def checksum(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
