"""The experiment with the approximate search."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricforest.experiments import neighbours, paper, report, runner
from metricforest.experiments.protocol import Setting
from metricforest.experiments.stored import read_lines


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5))
def test_mean_average_precision(rows):
    total = []
    for cut in (2, 4, 6):
        for row in rows:
            total.append(sum(sum(row[: i + 1]) / (i + 1) for i in range(cut) if row[i]) / cut)
    found = neighbours.mean_average_precision(np.array(rows), (2, 4, 6))
    assert found == pytest.approx(np.mean(total))


def test_table_2_is_about_the_same_answers(monkeypatch, tmp_path):
    """The search experiment end to end on the balance scale."""
    monkeypatch.setitem(paper.TABLE_1, "balance", (0.5,) * 6)
    monkeypatch.setitem(paper.TABLE_2, "balance", (0.5,) * 6)
    own = {"datasets": ("balance",), "trees": 5, "repeats": {}, "solvers": ("lbfgs",)}
    own |= {"pair_queries": 2, "clock_repeats": 1, "constraints_per_class": 30}
    settings = {k: Setting(own.get(k, s.value), s.why) for k, s in neighbours.SETTINGS.items()}
    monkeypatch.setattr(neighbours, "SETTINGS", settings)
    with open(os.devnull, "w") as quiet:
        assert runner.run(tmp_path, ["neighbours"], jobs=1, out=quiet) == []
    line, alone = read_lines(tmp_path)
    assert alone["pairs"] == 0
    found = line["scores"]["map"]
    assert alone["scores"]["map"] != found
    # What is sampled inside the last node differs, so a step may fall by a few neighbours of 31,250.
    # With fewer than five from each tree, trees climb on until there are 50.
    assert np.diff(found[2:]).min() > -1e-3
    assert found[-1] == max(found)
    assert found[-1] > 0.9
    assert line["seconds"]["pair_by_pair"] > 0
    report.write(report.Results(tmp_path), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "ours (unsupervised) |" in text
