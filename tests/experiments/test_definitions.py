"""Names of code: what changes them and what does not, on a small package."""

import pytest

from metricforest.experiments.definitions import Bound, Package, Place, name_of, reached

SMALL = {
    "__init__.py": "",
    "answers.py": (
        '"""Answers."""\n'
        "import numpy as np\n"
        "from .tools import double, LIMIT as MOST\n"
        "from . import shapes\n"
        "def answer(x: int) -> int:\n"
        '    """An answer."""\n'
        "    from .late import later\n"
        "    if x > MOST:\n"
        '        raise ValueError(f"{x} is too much")\n'
        "    return double(x) + later(np.abs(x)) + shapes.Square(x).area()\n"
        "def other():\n"
        "    return 1\n"
    ),
    "tools.py": (
        "import warnings\n"
        "LIMIT = 10\n"
        "UNUSED = 3\n"
        "def double(x):\n"
        "    hint('large')\n"
        "    return _twice(x)\n"
        "def _twice(x):\n"
        "    return 2 * x\n"
        "def hint(text):\n"
        "    level = 3\n"
        "    warnings.warn(text, stacklevel=level)\n"
    ),
    "late.py": "def later(x):\n    return x if x < 1 else later(x - 1)\n",
    "shapes.py": (
        "from .tools import double\n"
        "class Shape:\n"
        "    sides = 4\n"
        "    def area(self):\n"
        "        return self._side() ** 2\n"
        "    def unused(self):\n"
        "        return 0\n"
        "class Square(Shape):\n"
        "    def __init__(self, x):\n"
        "        self.x = x\n"
        "    def _side(self):\n"
        "        return self.x\n"
    ),
}


def name(folder, files, module="answers"):
    """The name of what `answer` needs in a package of these files."""
    folder = folder / "small"
    for path in folder.rglob("*.py"):
        path.unlink()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    package = Package(folder)
    root = package.follow(Bound(f"small.{module}", "answer"))
    return name_of(reached(package, [root], lambda place: False))


def changed(path, old, new):
    assert old in SMALL[path]
    return SMALL | {path: SMALL[path].replace(old, new)}


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("tools.py", "LIMIT = 10", "LIMIT = 11"),
        ("tools.py", "2 * x", "3 * x"),
        ("late.py", "x < 1", "x < 2"),
        ("answers.py", "np.abs", "np.sign"),
        ("answers.py", "import numpy as np", "import scipy as np"),
        ("answers.py", "ValueError", "KeyError"),
        ("answers.py", "x > MOST", "x >= MOST"),
        ("answers.py", "LIMIT as MOST", "UNUSED as MOST"),
        ("shapes.py", "** 2", "** 3"),
        ("shapes.py", "return self.x", "return -self.x"),
        ("shapes.py", "sides = 4", "sides = 5"),
        ("shapes.py", "Square(Shape)", "Square"),
        ("shapes.py", "def area", "@property\n    def area"),
    ],
)
def test_what_changes_a_result_changes_the_name(tmp_path, path, old, new):
    assert name(tmp_path, changed(path, old, new)) != name(tmp_path, SMALL)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("answers.py", "return 1", "return 2"),  # another function
        ("answers.py", '"""Answers."""', '"""What is answered."""  # a remark'),
        ("answers.py", "x: int) -> int", "x: float) -> float"),
        ("answers.py", "is too much", "is more than allowed"),
        ("answers.py", "def other", "import json\ndef other"),
        ("tools.py", "UNUSED = 3", "UNUSED = 4"),
        ("tools.py", "'large'", "'very large'"),
        ("tools.py", "level = 3", "level = 4"),
        ("shapes.py", "return 0", "return 1"),  # a method that nobody calls
        ("shapes.py", "sides = 4", "'''A shape.'''\n    sides = 4"),
    ],
)
def test_what_changes_no_result_keeps_the_name(tmp_path, path, old, new):
    assert name(tmp_path, changed(path, old, new)) == name(tmp_path, SMALL)


def test_a_function_that_only_warns_and_one_that_returns(tmp_path):
    """The text of a warning is no part of a result; that of a function that returns something is."""
    loud = changed("tools.py", "stacklevel=level)", "stacklevel=level)\n    return text")
    other = loud | {"tools.py": loud["tools.py"].replace("'large'", "'very large'")}
    assert name(tmp_path, loud) != name(tmp_path, other)


def test_moves_and_other_names_keep_the_name(tmp_path):
    """Functions in other modules and packages, under other names, imported in other ways."""
    moved = {
        "__init__.py": "from .deep import inner\n",
        "deep/__init__.py": "from .inner.numbers import at_most, times_two\n",
        "deep/inner/__init__.py": "",
        "deep/inner/numbers.py": (
            "import warnings as w\n"
            "def say(text):\n"
            "    w.warn(text)\n"
            "def times_two(x):\n"
            "    say(f'{x}')\n"
            "    return doubled(x)\n"
            "def recursive(x):\n"
            "    return x if x < 1 else recursive(x - 1)\n"
            "def doubled(x):\n"
            "    return 2 * x\n"
            "at_most = 10\n"
        ),
        "replies.py": (
            "import numpy\n"
            "from . import deep\n"
            "from .bodies import Quad\n"
            "def answer(x):\n"
            "    if x > deep.at_most:\n"
            "        raise ValueError\n"
            "    return deep.times_two(x) + deep.inner.numbers.recursive(numpy.abs(x)) + Quad(x).area()\n"
        ),
        "bodies.py": "from .bodies_base import Body\n"
        + SMALL["shapes.py"].partition("class Square")[2].replace("(Shape)", "class Quad(Body)", 1),
        "bodies_base.py": (
            "class Body:\n    sides = 4\n    def area(self):\n        return self._side() ** 2\n"
        ),
    }
    assert name(tmp_path, moved, "replies") == name(tmp_path, SMALL)


def test_methods_belong_to_their_classes(tmp_path):
    """Two classes that exchange what they do are not what they were."""
    text = (
        "class A:\n    def value(self):\n        return 1\n"
        "class B:\n    def value(self):\n        return 2\n"
        "def answer(x):\n    return A().value() - 3 * B().value()\n"
    )
    other = text.replace("return 1", "return 3").replace("return 2", "return 1")
    other = other.replace("return 3", "return 2")
    assert name(tmp_path, {"answers.py": text, "__init__.py": ""}) != name(
        tmp_path, {"answers.py": other, "__init__.py": ""}
    )


def test_local_names_are_not_those_of_the_module(tmp_path):
    files = changed("tools.py", "def double(x):", "def double(x, UNUSED=0):")
    again = files | {"tools.py": files["tools.py"].replace("UNUSED = 3", "UNUSED = 4")}
    assert name(tmp_path, files) == name(tmp_path, again)


def test_constants_that_are_filled_later(tmp_path):
    files = changed("tools.py", "LIMIT = 10", "LIMIT = {}\nLIMIT['a'] = 1\nLIMIT.update(b=2)")
    for old, new in (("= 1", "= 2"), ("b=2", "b=3")):
        other = files | {"tools.py": files["tools.py"].replace(old, new)}
        assert name(tmp_path, files) != name(tmp_path, other)


def test_following_stops_where_it_is_cut(tmp_path):
    name(tmp_path, SMALL)
    package = Package(tmp_path / "small")
    root = package.follow(Bound("small.answers", "answer"))
    found = reached(package, [root], lambda place: place == Place("small.tools", "double"))
    assert Place("small.tools", "_twice") not in found
    assert Place("small.late", "later") in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from .tools import *\n", r"small.answers imports \* from small.tools"),
        ("from .tools import gone\n", "small.tools does not define gone"),
        ("from .nowhere import gone\n", "there is no module small.nowhere"),
    ],
)
def test_what_cannot_be_followed_is_an_error(tmp_path, text, message):
    files = SMALL | {"answers.py": text + "def answer():\n    return gone\n"}
    with pytest.raises(ValueError, match=message):
        name(tmp_path, files)
