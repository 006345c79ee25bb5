"""Ranges of rows, and calls on a thread pool."""

import threading

import pytest

from metricforest.core.parallel import in_parallel, row_ranges


def test_ranges_cover_every_row_once():
    for n, threads, most in [(0, 1, 5), (1, 4, 5), (10, 3, 5), (10, 1, 3), (11, 4, 1), (7, 7, 9)]:
        ranges = row_ranges(n, threads, most)
        assert [i for low, high in ranges for i in range(low, high)] == list(range(n))
        assert all(high - low <= most for low, high in ranges)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_every_call_is_made_once(n_threads):
    made = []
    in_parallel(n_threads, ((made.append, k) for k in range(20)))
    assert sorted(made) == list(range(20))


def test_calls_run_beside_each_other():
    meeting = threading.Barrier(2, timeout=20)
    in_parallel(2, [(meeting.wait,), (meeting.wait,)])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_first_error_is_raised(n_threads):
    def fail(k):
        raise ValueError(f"call {k}")

    with pytest.raises(ValueError, match="call 0"):
        in_parallel(n_threads, [(fail, 0), (fail, 1), (fail, 2)])
