"""The nearest of many: a heap of the first pairs (distance, id), the last of them on top."""

from __future__ import annotations

from ..core.compiled import kernel


@kernel
def comes_before(d, i, e, j):
    return d < e or (d == e and i < j)


@kernel
def heap_add(d, i, size, far, who):
    """Put (d, i) into a heap of the far.size first pairs, the last of them on top; its new size."""
    if size < far.size:
        at = size
        size += 1
        while at > 0 and comes_before(far[(at - 1) // 2], who[(at - 1) // 2], d, i):
            far[at], who[at] = far[(at - 1) // 2], who[(at - 1) // 2]
            at = (at - 1) // 2
        far[at], who[at] = d, i
    elif size > 0 and comes_before(d, i, far[0], who[0]):
        heap_replace_top(d, i, size, far, who)
    return size


@kernel
def heap_replace_top(d, i, size, far, who):
    """Put (d, i) in the place of the top of a heap."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and comes_before(
            far[child], who[child], far[child + 1], who[child + 1]
        ):
            child += 1
        if not comes_before(d, i, far[child], who[child]):
            break
        far[at], who[at] = far[child], who[child]
        at = child
    far[at], who[at] = d, i


@kernel
def heap_sort(size, far, who):
    """Turn a heap into an ascending list."""
    for last in range(size - 1, 0, -1):
        d, i = far[last], who[last]
        far[last], who[last] = far[0], who[0]
        heap_replace_top(d, i, last, far, who)
