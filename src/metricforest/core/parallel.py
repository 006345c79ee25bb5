"""Running compiled calls on a thread pool: ranges of rows, and calls over them.

Every output row has one writer, so the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor


def row_ranges(n: int, n_threads: int, most: int) -> list[tuple[int, int]]:
    """Ranges (low, high) that cover n rows: at least one per thread, none longer than `most`."""
    size = max(1, min(most, -(-n // n_threads)))
    return [(low, min(low + size, n)) for low in range(0, n, size)]


def in_parallel(n_threads: int, calls: Iterable[tuple]) -> None:
    """Run (function, argument, ...) calls on a thread pool; the first error is raised."""
    calls = list(calls)
    if n_threads == 1 or len(calls) == 1:
        for function, *arguments in calls:
            function(*arguments)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for task in [pool.submit(*call) for call in calls]:
            task.result()
