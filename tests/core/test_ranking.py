"""Selection and sorting against NumPy."""

import numpy as np
import pytest

from metricforest.core.ranking import argsort, kth_largest, median_cut


def vectors():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 12, 13, 14, 40, 200, 1_000):
        yield rng.normal(size=n)
        yield rng.integers(0, 4, n)
        yield np.zeros(n)
        yield np.arange(n)
        yield np.arange(n)[::-1]
        yield np.concatenate([np.arange(n), np.arange(n)[::-1]])  # an organ pipe


VECTORS = [v.astype(np.float32) for v in vectors()]


@pytest.mark.parametrize("values", VECTORS)
def test_argsort_is_stable(values):
    np.testing.assert_array_equal(argsort(values), np.argsort(values, kind="stable"))


@pytest.mark.parametrize("values", VECTORS)
def test_kth_largest(values):
    ranked = np.sort(values)[::-1]
    for k in {1, 2, (len(values) + 1) // 2, len(values) - 1, len(values)}:
        if 1 <= k <= len(values):
            scratch = values.copy()
            assert kth_largest(scratch, k) == ranked[k - 1]
            np.testing.assert_array_equal(np.sort(scratch)[::-1], ranked)


def test_argsort_of_an_adversary():
    """Many equal values and long runs must neither overflow the stack nor take for ever."""
    values = np.tile(np.arange(50, dtype=np.float32), 2_000)
    np.testing.assert_array_equal(argsort(values), np.argsort(values, kind="stable"))


@pytest.mark.parametrize("values", VECTORS)
def test_median_cut_parts_the_values_near_the_middle(values):
    cut = median_cut(values)
    distinct = np.unique(values)
    if len(distinct) == 1:
        assert np.isnan(cut)
        return
    left = (values <= cut).sum()
    assert 0 < left < len(values)
    middle = np.sort(values)[::-1][(len(values) + 1) // 2 - 1]
    at = np.searchsorted(distinct, middle)
    beside = distinct[max(0, at - 1) : at + 2].astype(float)
    assert np.isclose(cut, (beside[:-1] + beside[1:]) / 2, rtol=1e-6).any()
