"""SplitMix64 against its published numbers, and what is made of it against its promises."""

import numpy as np
import pytest

from metricforest.core.random import next_random, random_below, random_place, random_sign


def test_splitmix_reference_values():
    """The first outputs of splitmix64 from the seed 1234567, as published with it."""
    state = np.array([1234567], np.uint64)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [int(next_random(state)) for _ in range(3)] == expected


@pytest.mark.parametrize("draw", [random_below, random_place])
def test_numbers_below_a_bound_are_uniform(draw):
    state = np.array([42], np.uint64)
    counts = np.bincount([draw(state, 7) for _ in range(7_000)], minlength=7)
    assert len(counts) == 7
    assert (abs(counts - 1_000) < 150).all()


@pytest.mark.parametrize("draw", [random_below, random_place])
def test_numbers_are_below_their_bound(draw):
    state = np.array([1], np.uint64)
    for bound in (1, 2, 7, 1000, 2**31):
        numbers = [draw(state, bound) for _ in range(400)]
        assert 0 <= min(numbers) <= max(numbers) < bound
        assert np.mean(numbers) == pytest.approx((bound - 1) / 2, rel=0.15, abs=1e-9)


def test_signs_are_even():
    state = np.array([3], np.uint64)
    numbers = np.array([random_sign(state) for _ in range(4_000)])
    assert numbers.min() >= -1.0
    assert numbers.max() < 1.0
    assert abs(numbers.mean()) < 0.05
