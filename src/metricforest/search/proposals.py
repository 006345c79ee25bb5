"""Nearest vectors, found by measuring all of them in whole numbers: the same on every processor.

Vectors become int16, scaled so that no row's length exceeds REACH. Their products are then summed
without rounding, in any order, by plain loops that compilers turn into the widest instructions there
are; that is as quick as a matrix product of float32, and needs no library of linear algebra. Rows that
are longer than any landmark by far are shortened to REACH.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import kernel
from ..core.dense import padded
from ..core.forest import read_only, read_only_view
from ..core.parallel import in_parallel, interruptible, row_ranges

REACH = 16_000  # its square, three times over, is below 2^31
BLOCK = 4096  # rows made into points at once
TASK = 32  # queries that share what is read of the points
CHUNK = 256  # points that stay in the cache while all queries of a task meet them


class Points(NamedTuple):
    """Vectors of n rows as whole numbers."""

    value: np.ndarray  # int16 [n, padded(k)]
    square: np.ndarray  # int32 [n]   squared length


def width_of(n_numbers: int) -> int:
    """Entries of a point: whole vectors."""
    return int(padded(n_numbers))


def points_of(z: np.ndarray, longest: float) -> Points:
    """Vectors float32 [n, k] as points, if the longest of landmarks is so long."""
    scale = REACH / (1.25 * longest) if longest > 0.0 else 0.0
    value = np.zeros((len(z), width_of(z.shape[1])), np.int16)
    square = np.empty(len(z), np.int32)
    for low in range(0, len(z), BLOCK):
        block = z[low : low + BLOCK] * scale
        length = np.sqrt(np.square(block, dtype=np.float64).sum(axis=1))
        block *= np.minimum(1.0, (REACH - np.sqrt(z.shape[1])) / np.maximum(length, 1.0))[:, None]
        whole = np.rint(block).astype(np.int16)
        value[low : low + BLOCK, : z.shape[1]] = whole
        square[low : low + BLOCK] = np.square(whole, dtype=np.int32).sum(axis=1, dtype=np.int32)
    return read_only(Points(value, square))


def pick(points: Points, slots: np.ndarray) -> Points:
    """Some of them."""
    return read_only(Points(points.value[slots], points.square[slots]))


def nearest(
    points: Points, left_out: np.ndarray, asked: Points, own: np.ndarray, count: int, n_threads: int
) -> np.ndarray:
    """Slots int32 [q, count] of the points nearest to every query, in no order; -1 where there are no more.

    `left_out` marks points to pass over; own[a] is the slot of query a itself, or -1.
    """
    slots = np.full((len(asked.square), count), -1, np.int32)
    left_out, own = read_only_view(left_out), read_only_view(own)
    ends = row_ranges(len(slots), n_threads, TASK)
    in_parallel(n_threads, [(find, points, left_out, asked, own, *e, slots) for e in ends])
    return slots


@interruptible
def ranks(
    points: Points, left_out: np.ndarray, asked: Points, own: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """How many points are nearer to query a than the point wanted[a, j], itself left out."""
    out = np.zeros(wanted.shape, np.int64)
    left_out, own = read_only_view(left_out), read_only_view(own)
    count_nearer(points, left_out, asked, own, read_only_view(wanted), out)
    return out


# ------------------------------------------------------------------------------------------ kernels


@kernel
def apart(points, j, asked, a):
    """Squared distance of point j to query a, less the query's own squared length."""
    p, q = points.value[j], asked.value[a]
    product = np.int32(0)
    for k in range(p.size):
        product += np.int32(np.int32(p[k]) * np.int32(q[k]))
    return np.int32(points.square[j] - np.int32(2) * product)


@kernel
def after(d, i, e, j):
    return d > e or (d == e and i > j)


@kernel
def put_in_heap(d, i, size, far, who):
    """Put (d, i) into a heap whose last pair is on top: in place of that once it is full."""
    at = size
    if size < far.size:
        while at > 0 and after(d, i, far[(at - 1) // 2], who[(at - 1) // 2]):
            far[at], who[at] = far[(at - 1) // 2], who[(at - 1) // 2]
            at = (at - 1) // 2
    else:
        at = 0
        while 2 * at + 1 < size:
            child = 2 * at + 1
            if child + 1 < size and after(far[child + 1], who[child + 1], far[child], who[child]):
                child += 1
            if not after(far[child], who[child], d, i):
                break
            far[at], who[at] = far[child], who[child]
            at = child
    far[at], who[at] = d, i


@kernel
def find(points, left_out, asked, own, low, high, slots):
    """Fill slots[low:high]; of points equally far those of lower slots."""
    n, count = points.square.size, slots.shape[1]
    far = np.empty((high - low, count), np.int32)
    size = np.zeros(high - low, np.int64)
    for first in range(0, n, CHUNK):
        last = min(first + CHUNK, n)
        for a in range(low, high):
            b = a - low
            for j in range(first, last):
                d = apart(points, j, asked, a)
                if (size[b] < count or d < far[b, 0]) and not left_out[j] and j != own[a]:
                    put_in_heap(d, np.int32(j), size[b], far[b], slots[a])
                    size[b] = min(size[b] + 1, count)


@kernel
def count_nearer(points, left_out, asked, own, wanted, out):
    limit = np.empty(wanted.shape, np.int32)
    for a in range(len(wanted)):
        for c in range(wanted.shape[1]):
            limit[a, c] = apart(points, wanted[a, c], asked, a)
    for a in range(len(wanted)):
        for j in range(points.square.size):
            if j != own[a] and not left_out[j]:
                d = apart(points, j, asked, a)
                for c in range(wanted.shape[1]):
                    out[a, c] += d < limit[a, c]
