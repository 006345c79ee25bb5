"""The commands `reproduce` and `report`."""

import pytest
from click.testing import CliRunner

from metricforest.experiments import report
from metricforest.experiments.catalogue import EXPERIMENTS
from metricforest.experiments.cli import reproduce


def test_every_experiment_is_named_and_shown():
    text = " ".join(CliRunner().invoke(reproduce, ["--help"]).output.split())
    assert all(name in text for name in EXPERIMENTS)
    assert set(report.SHOWN) == set(EXPERIMENTS)


@pytest.mark.parametrize("name", ["classify", "noise.py", ""])
def test_an_unknown_experiment_is_refused(name, tmp_path):
    done = CliRunner().invoke(reproduce, [name, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert f"there is no experiment {name!r}; there are neighbours, clustering" in done.output
    assert not (tmp_path / "out").exists()
