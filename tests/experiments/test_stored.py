"""The folder of results, whole and damaged."""

import json
import os
import re

import pytest

from metricforest.experiments import report, runner
from metricforest.experiments.stored import SCORES, read_lines


@pytest.fixture
def results(tiny, tmp_path):
    """A folder with the results of one experiment."""
    with open(os.devnull, "w") as quiet:
        runner.run(tmp_path, ["classification"], jobs=1, out=quiet)
    return tmp_path


def test_a_line_cut_short_is_left_out(results):
    scores = results / SCORES
    lines = read_lines(results)
    scores.write_bytes(scores.read_bytes() + b'\x96\x00\n{"unit": "classif')
    assert read_lines(results) == lines
    assert report.Results(results).lines == lines


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": 3}, "no valid value of unit"),
        ({"unit": None, "notes": {}}, "no valid value of unit, notes"),
        ({"notes": [3]}, "no valid value of notes"),
        ({"seed": True}, "no valid value of seed"),
        ({"seconds": {"unit": "long"}}, r"no valid value of seconds \(unit\)"),
        ({"seconds": {"unit": 1.0}}, r"no valid value of seconds \(unit_processor\)"),
        ({"dataset": "sonar"}, "dataset is 'sonar' in the results of classification/balance/"),
        ({"fold": 7}, "fold is 7 in the results of classification/balance/"),
        ({"scores": {}}, "the score accuracy of classification/balance/.* is missing or damaged"),
        ({"scores": {"accuracy": 0.5}}, "the score accuracy of .* is missing or damaged"),
        ({"scores": {"accuracy": ["0.5"]}}, "the score accuracy of .* is missing or damaged"),
        ({"scores": {"accuracy": [[1], 2]}}, "the score accuracy of .* is missing or damaged"),
    ],
)
def test_a_line_that_is_not_a_result_is_named(results, changes, message):
    """One error with the file and the line, whatever is wrong."""
    lines = read_lines(results)
    text = json.dumps({**lines[2], **changes})
    with (results / SCORES).open("a") as file:
        file.write(text + "\n")
    named = rf"{re.escape(str(results / SCORES))}, line {len(lines) + 1}: {message}"
    with pytest.raises(ValueError, match=named):
        report.Results(results)


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"unit": 3}', "[" * 100_000 + "]" * 100_000])
def test_json_that_is_no_line_is_named(results, text):
    (results / SCORES).write_text(text + "\n")
    with pytest.raises(ValueError, match=r"scores.jsonl, line 1: .*; delete the line"):
        report.Results(results)


def test_damaged_answers_and_machines_are_named(results):
    n_lines = len(read_lines(results))
    (raw, *_) = sorted((results / "raw").rglob("*.npz"))
    for damage in (b"no archive", raw.read_bytes()[:50], b""):
        raw.write_bytes(damage)
        with pytest.raises(ValueError, match=f"{re.escape(str(raw))} does not hold raw answers"):
            report.Results(results, rescore=True)
    (results / "machine.json").write_text("{")
    with pytest.raises(ValueError, match=r"machine.json cannot be read"):
        report.Results(results)
    (results / "machine.json").unlink()
    assert len(report.Results(results).lines) == n_lines
