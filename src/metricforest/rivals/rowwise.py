"""Rows mapped by a matrix, and Euclidean distances between rows, summed in one fixed order.

A BLAS product of rows depends in its last bits on how many rows come together, and a distance from
products, |a|^2 + |b|^2 - 2ab, loses digits where rows are near to each other but far from 0. Here
differences are squared and every sum adds four features at a time, in order. So a row maps to the
same bits beside any other rows, a distance has the same bits in whatever call it is measured, for any
number of threads, and equal rows are at exactly 0. Rows are float64.

Inner loops run over TILE rows side by side: a tile holds a feature of all of them in a row.
"""

from __future__ import annotations

import numpy as np

from ..core import PAIRS_PER_TASK, in_parallel, kernel, read_only_view, row_ranges

TILE = 128  # rows side by side in the cache


@kernel
def _fill_tile(rows, first, tile):
    """The rows from `first` on as columns of the tile; how many there are, TILE at most."""
    n = min(tile.shape[1], len(rows) - first)
    for j in range(n):
        for k in range(rows.shape[1]):
            tile[k, j] = rows[first + j, k]
    return n


@kernel
def _sums_of(A, B, far, low, high, out):
    """out[low:high] = the dot products of these rows of A with all rows of B, or how far they are."""
    d = A.shape[1]
    fours = d // 4 * 4
    tile = np.empty((d, TILE))
    for first in range(0, len(B), TILE):
        n = _fill_tile(B, first, tile)
        for i in range(low, high):
            a, total = A[i], out[i, first : first + n]
            for j in range(n):
                total[j] = 0.0
            for k in range(0, fours, 4):
                a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
                b0, b1, b2, b3 = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
                if far:
                    for j in range(n):
                        d0, d1, d2, d3 = a0 - b0[j], a1 - b1[j], a2 - b2[j], a3 - b3[j]
                        total[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
                else:
                    for j in range(n):
                        total[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j])
            for k in range(fours, d):
                b0 = tile[k]
                for j in range(n):
                    total[j] += (a[k] - b0[j]) * (a[k] - b0[j]) if far else a[k] * b0[j]
            if far:
                for j in range(n):
                    total[j] = np.sqrt(total[j])


@kernel
def _distances_at(A, B, first, second, low, high, out):
    """out[p] = the distance of row first[p] of A to row second[p] of B, for p in low:high."""
    d = A.shape[1]
    fours = d // 4 * 4
    for p in range(low, high):
        a, b = A[first[p]], B[second[p]]
        total = 0.0
        for k in range(0, fours, 4):
            d0, d1, d2, d3 = (
                a[k] - b[k],
                a[k + 1] - b[k + 1],
                a[k + 2] - b[k + 2],
                a[k + 3] - b[k + 3],
            )
            total += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
        for k in range(fours, d):
            d0 = a[k] - b[k]
            total += d0 * d0
        out[p] = np.sqrt(total)


def products(A: np.ndarray, B: np.ndarray, n_threads: int) -> np.ndarray:
    """A B': the rows of A mapped by the rows of B."""
    return _every(A, B, False, n_threads)


def distances(A: np.ndarray, B: np.ndarray, n_threads: int) -> np.ndarray:
    """Distances of all rows of A to all rows of B."""
    return _every(A, B, True, n_threads)


def distances_at(
    A: np.ndarray, B: np.ndarray, first: np.ndarray, second: np.ndarray, n_threads: int
) -> np.ndarray:
    """Distances of the rows first[p] of A to the rows second[p] of B."""
    A, B, first, second = (_plain(array) for array in (A, B, first, second))
    out = np.empty(len(first))
    in_parallel(
        n_threads,
        (
            (_distances_at, A, B, first, second, low, high, out)
            for low, high in row_ranges(len(out), n_threads, PAIRS_PER_TASK)
        ),
    )
    return out


def _every(A: np.ndarray, B: np.ndarray, far: bool, n_threads: int) -> np.ndarray:
    out = np.empty((len(A), len(B)))
    A, B = _plain(A), _plain(B)
    in_parallel(
        n_threads,
        (
            (_sums_of, A, B, far, low, high, out)
            for low, high in row_ranges(len(A), n_threads, len(A) or 1)
        ),
    )
    return out


def _plain(array: np.ndarray) -> np.ndarray:
    """In C order and read-only, so that a kernel is compiled for one type of array."""
    return read_only_view(np.ascontiguousarray(array))
