"""The experiment with spectral clustering."""

import itertools

import numpy as np
import pytest

from metricforest.experiments import clustering


@pytest.mark.parametrize("n", [2, 3, 7, 50])
def test_random_pairs_are_all_pairs(n):
    every = n * (n - 1) // 2
    pairs = clustering.random_pairs(n, every, np.random.default_rng(0))
    assert {tuple(sorted(p)) for p in pairs.tolist()} == set(itertools.combinations(range(n), 2))
    large = clustering.random_pairs(11_000, 10_000, np.random.default_rng(0))
    assert (large[:, 0] > large[:, 1]).all()
    assert large.min() >= 0
    assert large.max() < 11_000
    assert len({tuple(p) for p in large.tolist()}) == 10_000
