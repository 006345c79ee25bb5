"""Order statistics for the split solvers: selection and sorting of float32 vectors.

Written out because NumPy's sorts take longer to compile than everything else here together.
"""

from __future__ import annotations

import numpy as np

from .compiled import kernel


@kernel
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


@kernel
def argsort(values):
    """Indices that sort `values` upwards, ties by index (quicksort, shorter part first)."""
    n = values.size
    index = np.empty(n, np.int32)
    for i in range(n):
        index[i] = i
    stack = np.empty((64, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, n - 1
    depth = 1
    while depth > 0:
        depth -= 1
        low, high = stack[depth, 0], stack[depth, 1]
        while high - low > 12:
            middle = index[(low + high) // 2]
            pivot = values[middle]
            i, j = low, high
            while i <= j:
                while values[index[i]] < pivot or (values[index[i]] == pivot and index[i] < middle):
                    i += 1
                while values[index[j]] > pivot or (values[index[j]] == pivot and index[j] > middle):
                    j -= 1
                if i <= j:
                    index[i], index[j] = index[j], index[i]
                    i += 1
                    j -= 1
            if j - low < high - i:  # the longer part waits: the stack stays below log2 n
                stack[depth, 0], stack[depth, 1] = i, high
                high = j
            else:
                stack[depth, 0], stack[depth, 1] = low, j
                low = i
            depth += 1
        for i in range(low + 1, high + 1):
            moving = index[i]
            value = values[moving]
            j = i - 1
            while j >= low and (
                values[index[j]] > value or (values[index[j]] == value and index[j] > moving)
            ):
                index[j + 1] = index[j]
                j -= 1
            index[j + 1] = moving
    return index


@kernel
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
