"""The heap of the nearest against sorting."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metricforest.search.heap import heap_add, heap_sort


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 50)), max_size=40),
    st.integers(1, 12),
)
def test_heap_keeps_the_first_in_order(pairs, room):
    pairs = list(dict.fromkeys(pairs))
    far, who = np.empty(room), np.empty(room, np.int64)
    size = 0
    for d, i in pairs:
        size = heap_add(d, i, size, far, who)
    heap_sort(size, far, who)
    assert list(zip(far[:size], who[:size], strict=True)) == sorted(pairs)[:room]
