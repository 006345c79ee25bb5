"""What strangers get: the wheel and what is in it, the notebook, and files that must say the same."""

import ast
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

import metricforest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    assert wheel.name == f"metricforest-{metricforest.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    info = f"metricforest-{metricforest.__version__}.dist-info/"
    inside = [name.removeprefix("metricforest/") for name in names if not name.startswith(info)]
    package = ROOT / "src" / "metricforest"
    there = [path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()]
    wanted = [name for name in there if "__pycache__" not in name and not name.endswith(".pyc")]
    assert sorted(inside) == sorted(wanted)
    kinds = {Path(name).suffix for name in inside}
    assert kinds <= {".py", ".typed", ".html", ".css", ".js", ".svg"}  # no data, no results
    assert not [name for name in inside if "test" in Path(name).stem.split("_")]
    assert {info + "METADATA", info + "entry_points.txt", info + "licenses/LICENSE"} <= set(names)
    assert wheel.stat().st_size < 1 << 20


def test_the_wheel_says_what_it_needs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        said = message_from_bytes(archive.read(name))
    assert said["License-Expression"] == "BSD-3-Clause"
    assert said["Requires-Python"] == PROJECT["requires-python"]
    needed = [one for one in said.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert sorted(needed) == sorted(PROJECT["dependencies"])


def test_the_conda_recipe_needs_the_same():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text("utf-8"))
    assert recipe["package"]["version"] == metricforest.__version__
    wanted = ["python " + PROJECT["requires-python"]]
    wanted += [one.replace(">=", " >=") for one in PROJECT["dependencies"]]
    assert sorted(recipe["requirements"]["run"]) == sorted(wanted)


def test_everything_imported_is_declared():
    """Modules that the package imports at the top are its own, Python's, or a declared need."""
    names = {re.split(r"[><=\[]", one)[0] for one in PROJECT["dependencies"]}
    names = {{"scikit-learn": "sklearn"}.get(name, name) for name in names}
    for path in (ROOT / "src" / "metricforest").rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                modules = [node.module]
            for module in (name.partition(".")[0] for name in modules):
                known = module in names | {"metricforest"} or module in sys.stdlib_module_names
                assert known, f"{path.name} imports {module}"


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name
)
def test_workflows_are_yaml_with_steps(path):
    work = yaml.safe_load(path.read_text("utf-8"))
    assert work["jobs"]
    for job in work["jobs"].values():
        assert all("run" in step or "uses" in step for step in job["steps"])


def test_the_notebook_runs(capsys):
    notebook = json.loads((ROOT / "examples" / "first_steps.ipynb").read_text("utf-8"))
    names: dict = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # what it prints is made where it runs
            exec("".join(cell["source"]), names)
    assert "learned" in capsys.readouterr().out
