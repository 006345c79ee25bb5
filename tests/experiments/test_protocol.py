"""What the experiments share: votes, random numbers, settings, the paper's protocol."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metricforest.experiments import protocol, runner
from metricforest.experiments.catalogue import EXPERIMENTS
from metricforest.experiments.protocol import Unit


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=6))
def test_vote(rows):
    near = np.array(rows)
    for row, voted in zip(rows, protocol.vote(near), strict=True):
        count = Counter(row)
        winners = [label for label in row if count[label] == max(count.values())]
        assert voted == winners[0]


def test_all_metrics_see_the_same_pairs():
    first, second = (Unit("noise", "sonar", metric, 3) for metric in ("HFD", "RFD"))
    assert first.rng(1).integers(1 << 60) == second.rng(1).integers(1 << 60)
    other = Unit("noise", "sonar", "HFD", 4)
    assert first.rng(1).integers(1 << 60) != other.rng(1).integers(1 << 60)
    assert first.rng(1).integers(1 << 60) != first.rng(2).integers(1 << 60)


def test_the_papers_protocol():
    """What the paper states, read off the units and settings."""
    full = runner.units(EXPERIMENTS, False)
    drawn = Counter(
        (u.dataset, u["constraints"])
        for u in full
        if u.metric == "HFD" and u.experiment == "clustering" and u["sampling"] == "per class"
    )
    assert all(count == 10 for count in drawn.values())
    assert len(drawn) == 12
    voted = {(u.dataset, u.metric) for u in full if u.experiment == "classification"}
    assert len(voted) == 48
    assert {u["noise"] for u in full if u.experiment == "noise"} == {0, 5, 10, 15, 20, 25, 30}
    for name, module in EXPERIMENTS.items():
        settings = runner.settings_of(name, False)
        if name not in ("neighbours", "ablations"):
            assert settings["trees"] == 500
        assert all(setting.why for setting in module.SETTINGS.values())
    forest = protocol.make("HFD", "balance", runner.settings_of("classification", False), 0, 1)
    assert forest.get_params()["max_features"] is None
    counts = runner.settings_of("classification", False)
    assert protocol.n_constraints("sonar", 2, counts) == 2_000
    assert protocol.n_constraints("usps", 10, counts) == 30_000


def test_a_setting_of_another_metric_changes_nothing():
    settings = runner.settings_of("classification", False)
    changed = settings | {"itml_gammas": (7.0,), "repeats": {}}
    for metric in protocol.METRICS:
        unit = Unit("classification", "sonar", metric, 0, (("fold", 0),))
        same = runner.digest(unit, settings) == runner.digest(unit, changed)
        assert same == (metric != "ITML")
