"""A short run of the two commands that look for what could be read wrong, or lost."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


def said(name: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *map(str, arguments)],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_damaged_files_and_tables_are_errors_in_one_line():
    text = said("damage.py", "--files", 150, "--tables", 30, "--jobs", 1, "--seed", 5)
    assert "150 damaged files: 0 wrong" in text
    assert "30 damaged tables: 0 wrong" in text


def test_kills_lose_nothing():
    assert "4 kills: 0 losses" in said("kills.py", "--kills", 4)
