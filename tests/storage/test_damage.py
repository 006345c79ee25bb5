"""A short run of the two commands that look for what could be read wrong, or lost."""

import subprocess
import sys
from pathlib import Path

import pytest

from metricforest.storage.format import read
from metricforest.storage.registry import METRICS

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
    text = said("damage.py", "--files", 170, "--tables", 30, "--jobs", 1, "--seed", 5)
    assert "170 damaged files: 0 wrong" in text
    assert "30 damaged tables: 0 wrong" in text


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_class_that_a_file_can_name_is_damaged(tmp_path):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import damage

        paths = damage.models(tmp_path)
    finally:
        sys.path.remove(str(BENCHMARKS))
    assert {read(path).class_name for path in paths} == set(METRICS)


def test_kills_lose_nothing():
    assert "7 kills: 0 losses" in said("kills.py", "--kills", 7)
