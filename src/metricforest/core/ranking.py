"""Order statistics for the split solvers: selection and sorting of float32 vectors.

Written out because NumPy's sorts take longer to compile than everything else here together.
"""

from __future__ import annotations

import numpy as np

from .compiled import apart, inner


@apart
def kth_largest(values, k):
    """The k-th largest value (k >= 1) by quickselect; `values` is reordered."""
    low, high = 0, values.size - 1
    target = k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return values[target]


@apart
def argsort(values):
    """Indices that sort float32 `values` upwards, ties by index."""
    n = values.size
    keys = np.empty(n, np.int64)  # bits of the value that rise with it, then the index
    for i in range(n):
        bits = np.int64(np.float32(values[i] + np.float32(0.0)).view(np.int32))
        keys[i] = ((bits if bits >= 0 else -bits - (1 << 31)) << 32) + i
    stack = np.empty(128, np.int64)
    stack[0], stack[1] = 0, n - 1
    depth = 2
    while depth > 0:  # quicksort; the longer part waits: the stack stays below 2 log2 n
        depth -= 2
        low, high = stack[depth], stack[depth + 1]
        while high > low:
            pivot = keys[(low + high) // 2]
            i, j = low, high
            while i <= j:
                while keys[i] < pivot:
                    i += 1
                while keys[j] > pivot:
                    j -= 1
                if i <= j:
                    keys[i], keys[j] = keys[j], keys[i]
                    i += 1
                    j -= 1
            if j - low < high - i:
                stack[depth], stack[depth + 1] = i, high
                high = j
            else:
                stack[depth], stack[depth + 1] = low, j
                low = i
            depth += 2
    for i in range(n):
        keys[i] &= (1 << 32) - 1
    return keys


@inner
def median_cut(q):
    """A threshold between two distinct values of `q`, near the median; nan if all are equal."""
    n = q.size
    middle = kth_largest(q.copy(), (n + 1) // 2)
    above = below = np.float32(np.nan)
    for x in q:
        if x > middle and not x >= above:
            above = x
        if x < middle and not x <= below:
            below = x
    return 0.5 * (middle + (above if above == above else below))
