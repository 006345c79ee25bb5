"""The test suite on other ground: other processors, BLAS kernels, library versions and Pythons.

    python tests/matrix.py --list             # what there is to run
    python tests/matrix.py                    # every leg, one after the other: hours on two cores
    python tests/matrix.py generic oldest     # these legs
    python tests/matrix.py --quick            # a few numeric tests on the oldest processor: minutes

Everything is compiled anew, once for all legs that compile for one processor with the same versions
(`--cache` keeps it longer). Legs with other versions run in an environment of their own, made by pip
from the bounds of pyproject.toml. Each finished leg is written to the table in docs/anywhere.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "anywhere.md"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas")
NUMERIC = ("core", "search", "rivals", "storage", "supervision", "inspection")
NUMERIC += ("test_hierarchy.py", "test_hierarchy_rows.py")
QUICK = ("core/test_distance.py", "core/test_dense.py", "core/test_convex.py", "core/test_ssmmc.py")
QUICK += ("rivals/test_rowwise.py",)
SUITES = {"all": (), "numeric": NUMERIC, "quick": QUICK}


class Leg(NamedTuple):
    """Where the suite runs: what is set, which versions, which Python ("" is the one running this)."""

    what: str
    settings: dict[str, str]
    versions: str = ""
    python: str = ""


GENERIC = {"NUMBA_CPU_NAME": "generic"}
LEGS = {
    "native": Leg("this processor", {}),
    "generic": Leg("no vectors wider than SSE2 in compiled code", GENERIC),
    "Prescott": Leg("BLAS for SSE3", {"OPENBLAS_CORETYPE": "Prescott"}),
    "Haswell": Leg("BLAS for AVX2", {"OPENBLAS_CORETYPE": "Haswell"}),
    "Zen": Leg("BLAS for AVX2, AMD", {"OPENBLAS_CORETYPE": "Zen"}),
    "SkylakeX": Leg("BLAS for AVX-512", {"OPENBLAS_CORETYPE": "SkylakeX"}),
    "oldest": Leg("oldest allowed versions", {}, "oldest", "3.11"),
    "newest-3.13": Leg("newest versions", {}, "newest", "3.13"),
    "newest-3.14": Leg("newest versions", {}, "newest", "3.14"),
    "newest-3.15": Leg("newest versions", {}, "newest", "3.15"),
}
OLD = {**GENERIC, "OPENBLAS_CORETYPE": "Prescott"}  # what --quick runs on


def python_of(version: str) -> str | None:
    """An interpreter of that version: among pyenv's, or on the path (where pyenv's may not start)."""
    if not version or sys.version.startswith(f"{version}."):
        return sys.executable
    there = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(there.glob(f"{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def oldest() -> list[str]:
    """The oldest versions that pyproject.toml allows, as pip takes constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    allowed = [*project["dependencies"], *(one for name in extras for one in extras[name])]
    return sorted({one.replace(">=", "==") for one in allowed if ">=" in one})


def environment(name: str, leg: Leg, python: str) -> str:
    """The interpreter of an environment that holds the leg's versions and the package."""
    folder = ROOT / ".venv" / "matrix" / name
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pins = folder / "constraints.txt"
    subprocess.run([python, "-m", "venv", folder], check=True)
    pins.write_text("\n".join(oldest() if leg.versions == "oldest" else []), "utf-8")
    install = [
        inside,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--upgrade",
        "--editable",
        f"{ROOT}[test]",
    ]
    subprocess.run([*install, "--constraint", pins], check=True)
    return str(inside)


def versions(python: str) -> list[str]:
    """The versions of Python and of LIBRARIES."""
    code = (
        "import platform; from importlib.metadata import version; "
        f"print(platform.python_version(), *(version(name) for name in {LIBRARIES}))"
    )
    command = [python, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def processor() -> str:
    """The name of this machine's processor, where Linux tells it."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    return named.group(1).strip() if named else "unknown processor"


def run_suite(
    python: str, settings: dict[str, str], suite: str, jobs: int, cache: Path
) -> tuple[int, str]:
    """The exit code of pytest and its last line; compiled code is kept in `cache`."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(jobs)]
    command += ["--dist", "loadfile"] if jobs else []
    command += [str(ROOT / "tests" / name) for name in SUITES[suite]]
    env = {**os.environ, **settings, "NUMBA_CACHE_DIR": str(cache)}
    env["PYTHONPATH"] = str(ROOT / "src")
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        last = ""
        for line in run.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return run.returncode, last.strip("= ")


def commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=7", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def row(name: str, suite: str, python: str, outcome: str) -> str:
    """The leg's line of the table: name, what, date, commit, tests, versions, outcome."""
    here = [time.strftime("%Y-%m-%d"), commit(), suite]
    return "| " + " | ".join([name, LEGS[name].what, *here, *versions(python), outcome]) + " |"


def note(line: str) -> None:
    """Put the line into the table of the page, in place of that leg's older one."""
    text = PAGE.read_text("utf-8")
    table = re.search(r"(?m)^\| leg \|.*\n(?:\|.*\n)+", text)
    assert table, f"{PAGE} has no table of legs"
    head, rule, *rows = table.group(0).splitlines()
    kept = {one.split("|")[1].strip(): one for one in [*rows, line]}
    ordered = [kept[name] for name in LEGS if name in kept]
    text = text.replace(table.group(0), "\n".join([head, rule, *ordered]) + "\n")
    PAGE.write_text(text, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("legs", nargs="*", metavar="LEG", help="all, if none is named")
    parser.add_argument("--list", action="store_true", help="name the legs and stop")
    parser.add_argument("--quick", action="store_true", help="few tests on the oldest processor")
    parser.add_argument("--suite", choices=SUITES, default="all")
    parser.add_argument("--python", help="interpreter with everything installed, for one leg")
    parser.add_argument("-n", "--jobs", type=int, default=0, help="processes of pytest-xdist")
    parser.add_argument("--cache", type=Path, help="folder to keep compiled code in")
    given = parser.parse_args()
    if given.cache:
        return run_legs(parser, given, given.cache.resolve())
    with tempfile.TemporaryDirectory() as cache:
        return run_legs(parser, given, Path(cache))


def run_legs(parser: argparse.ArgumentParser, given: argparse.Namespace, cache: Path) -> int:
    """Run what was asked for; 1 if anything failed."""
    if unknown := set(given.legs) - set(LEGS):
        parser.error(f"no leg {', '.join(sorted(unknown))}; there are {', '.join(LEGS)}")
    if given.list:
        for name, leg in LEGS.items():
            print(f"{name:12} {leg.what} {' '.join(f'{k}={v}' for k, v in leg.settings.items())}")
        return 0
    if given.quick:
        return run_suite(sys.executable, OLD, "quick", given.jobs, cache)[0]
    failed = []
    for name in given.legs or LEGS:
        leg = LEGS[name]
        python = given.python or python_of(leg.python)
        if python is None:
            print(f"{name}: there is no Python {leg.python} here")
            failed.append(name)
            continue
        print(f"--- {name}: {leg.what}", flush=True)
        if leg.versions and not given.python:
            python = environment(name, leg, python)
        same = cache / (leg.settings.get("NUMBA_CPU_NAME", "") + (name if leg.versions else "here"))
        code, outcome = run_suite(python, leg.settings, given.suite, given.jobs, same)
        note(row(name, given.suite, python, re.sub(r" in [\d.]+s.*", "", outcome)))
        if code:
            failed.append(name)
    print(f"not passed: {', '.join(failed)}" if failed else "every leg passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
