"""The experiment with wrong labels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metricforest.experiments import noise, runner
from metricforest.experiments.protocol import Unit


@given(st.integers(1, 60), st.floats(0, 1), st.integers(2, 4), st.integers(0, 9))
def test_corrupted_labels(n, share, n_classes, seed):
    y = np.arange(n + n_classes) % n_classes
    noisy = noise.corrupt(y, share, np.random.default_rng(seed))
    assert (noisy != y).sum() == round(share * len(y))
    assert set(noisy) <= set(range(n_classes))
    less = noise.corrupt(y, share / 2, np.random.default_rng(seed))
    assert set(np.flatnonzero(less != y)) <= set(np.flatnonzero(noisy != y))


def test_noise_scores_by_hand():
    """Two queries of class 0 and 1, three neighbours each, one variant."""
    raw = {
        "clean": np.array([[[0, 0, 1], [1, 0, 0]]]),
        "corrupted": np.array([[[1, 0, 1], [1, 0, 1]]]),
        "truth": np.array([0, 1]),
    }
    settings = runner.settings_of("noise", False)
    scores = noise.score(Unit("noise", "sonar", "HFD", 0), raw, settings)
    assert scores == {
        "corrupted": [0.5], "clean": [0.5], "wrong": [2 / 6], "alike": [3 / 6],
    }  # fmt: skip
