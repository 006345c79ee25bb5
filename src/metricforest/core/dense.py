"""Small dense algebra of the solver: passes over rows, W'W, the Cholesky solution of a few dozen unknowns.

A split has a few dozen features, and loops of that length are where a compiler's vectors spend
their time on what is left over. So every row here is padded to whole vectors (`padded`), and the inner
loops are written out in vectors: `row_dots` and `add_rows` (the two passes over a node's points),
`mix_rows`, and `add_tile`, four rows by one vector that stay in registers while a sum runs, which is
both W'W and the factorisation. Products and sums are apart and in one fixed order, so the bits are
those of every processor. Nothing checks bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

from .compiled import apart, inner, kernel

intrinsic: Any = numba_intrinsic  # what it decorates is called without the first argument

VECTOR = 64  # bytes: 16 float32, 8 float64
POINT_LANES = 8  # points whose projections `lane_dots` sums together
TALL = 4  # rows at a time
FETCHED = 512  # entries of a row that are asked for ahead, at most
ROWS_PER_TILE = 128  # rows that stay in the cache while all tiles go over them


class Matrix:
    """An array argument of an intrinsic, and its rows in vectors."""

    def __init__(self, context, builder, array_type, value):
        array = cgutils.create_struct_proxy(array_type)(context, builder, value)
        self.builder = builder
        self.data = array.data
        self.pitch = cgutils.unpack_tuple(builder, array.shape)[-1]
        self.item = context.get_value_type(array_type.dtype)
        self.size = array_type.dtype.bitwidth // 8
        self.lanes = VECTOR // self.size

    def at(self, *index):
        """Pointer to an entry: (row, column), or (place,) of a vector."""
        place = index[-1]
        if len(index) == 2:
            place = self.builder.add(self.builder.mul(index[0], self.pitch), place)
        return self.builder.gep(self.data, [place])

    def load(self, *index, lanes: int | None = None):
        """The vector that begins at an entry."""
        vector = ir.VectorType(self.item, lanes or self.lanes)
        place = self.builder.bitcast(self.at(*index), vector.as_pointer())
        return self.builder.load(place, align=self.size)

    def store(self, vector, *index):
        place = self.builder.bitcast(self.at(*index), vector.type.as_pointer())
        self.builder.store(vector, place, align=self.size)

    @contextmanager
    def vectors(self) -> Iterator:
        """A loop over the first entries of the vectors of a row."""
        step = number(self.lanes)
        with cgutils.for_range_slice(self.builder, number(0), self.pitch, step, inc=True) as (k, _):
            yield k


def number(k: int):
    return ir.Constant(ir.IntType(64), k)


def shuffle(builder, a, b, places):
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
    return builder.shuffle_vector(a, b, mask)


def broadcast(builder, x, lanes: int):
    """A vector of x in every place."""
    empty = ir.Constant(ir.VectorType(x.type, lanes), ir.Undefined)
    first = builder.insert_element(empty, x, ir.Constant(ir.IntType(32), 0))
    return shuffle(builder, first, empty, [0] * lanes)


def sums_of_vectors(builder, matrix: Matrix, count: int):
    """So many vectors to add up in, 0 from here on."""
    zero = ir.Constant(ir.VectorType(matrix.item, matrix.lanes), None)
    return [cgutils.alloca_once_value(builder, zero) for _ in range(count)]


def add_to(builder, place, vector):
    builder.store(builder.fadd(builder.load(place), vector), place)


def halves(builder, vector):
    """The sum of a vector's halves."""
    n = vector.type.count
    low, high = (shuffle(builder, vector, vector, range(k, k + n // 2)) for k in (0, n // 2))
    return builder.fadd(low, high)


def row_dots(n_rows: int):
    """p[i + t] = rows[i + t] . v for so many t, over all of a padded row."""

    @intrinsic
    def dots(typing_context, rows, i, v, p):
        def generate(context, builder, signature, args):
            rows, v, p = (Matrix(context, builder, signature.args[k], args[k]) for k in (0, 2, 3))
            sums = sums_of_vectors(builder, rows, n_rows)
            with rows.vectors() as k:
                x = v.load(k)
                for t in range(n_rows):
                    row = rows.load(builder.add(args[1], number(t)), k)
                    add_to(builder, sums[t], builder.fmul(row, x))
            totals = [builder.load(place) for place in sums]
            while totals[0].type.count > n_rows:
                totals = [halves(builder, total) for total in totals]
            left = n_rows  # entries of a row that are still to be added up
            while left > 1:
                first = [at + k for at in range(0, 2 * n_rows, left) for k in range(left // 2)]
                second = [k + left // 2 for k in first]
                totals = [
                    builder.fadd(shuffle(builder, a, b, first), shuffle(builder, a, b, second))
                    for a, b in zip(totals[::2], totals[1::2], strict=True)
                ]
                left //= 2
            p.store(totals[0], args[1])
            return context.get_dummy_value()

        return types.void(rows, types.int64, v, p), generate

    return dots


def add_rows(n_rows: int):
    """out += sum of c[i + t] rows[i + t] over so many t, 1 or 4, over all of a padded row."""

    @intrinsic
    def add(typing_context, c, rows, i, out):
        def generate(context, builder, signature, args):
            c, rows, out = (Matrix(context, builder, signature.args[k], args[k]) for k in (0, 1, 3))
            places = [builder.add(args[2], number(t)) for t in range(n_rows)]
            weights = [
                broadcast(builder, builder.load(c.at(place)), rows.lanes) for place in places
            ]
            with rows.vectors() as k:
                terms = [
                    builder.fmul(weight, rows.load(place, k))
                    for weight, place in zip(weights, places, strict=True)
                ]
                while len(terms) > 1:
                    terms = [
                        builder.fadd(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)
                    ]
                out.store(builder.fadd(out.load(k), terms[0]), k)
            return context.get_dummy_value()

        return types.void(c, rows, types.int64, out), generate

    return add


row_dot, row_dots_4 = row_dots(1), row_dots(TALL)
add_row, add_rows_4 = add_rows(1), add_rows(TALL)


@intrinsic
def mix_rows(typing_context, a, A, i, b, B, j, out, r):
    """out[r] = a A[i] + b B[j], over all of a padded row; float32."""

    def generate(context, builder, signature, args):
        A, B, out = (Matrix(context, builder, signature.args[k], args[k]) for k in (1, 4, 6))
        a, b = (broadcast(builder, args[k], A.lanes) for k in (0, 3))
        with A.vectors() as k:
            first = builder.fmul(a, A.load(args[2], k))
            second = builder.fmul(b, B.load(args[5], k))
            out.store(builder.fadd(first, second), args[7], k)
        return context.get_dummy_value()

    real, index = types.float32, types.int64
    return types.void(real, A, index, real, B, index, out, index), generate


@intrinsic
def fetch_row(typing_context, X, i):
    """Ask for row i of X, the first FETCHED entries of it, to be brought near."""

    def generate(context, builder, signature, args):
        X = Matrix(context, builder, signature.args[0], args[0])
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        few = builder.icmp_unsigned("<", X.pitch, number(FETCHED))
        stop = builder.select(few, X.pitch, number(FETCHED))
        with cgutils.for_range_slice(builder, number(0), stop, number(X.lanes), inc=True) as (k, _):
            place = builder.bitcast(X.at(args[1], k), byte)
            builder.call(prefetch, [place, flag(0), flag(3), flag(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(X, types.int64), generate


@intrinsic
def add_tile(typing_context, W, start, stop, a, b, sign, M):
    """M[a:a + 4, b:b + v] += sign * sum of W[i, a:a + 4]' W[i, b:b + v] over i in start:stop.

    v is W's vector; the sum is in W's precision.
    """

    def generate(context, builder, signature, args):
        W, M = (Matrix(context, builder, signature.args[k], args[k]) for k in (0, 6))
        _, start, stop, a, b, sign, _ = args
        sums = sums_of_vectors(builder, W, TALL)
        with cgutils.for_range_slice(builder, start, stop, number(1), inc=True) as (i, _):
            x = W.load(i, b)
            for t in range(TALL):
                c = builder.load(W.at(i, builder.add(a, number(t))))
                add_to(builder, sums[t], builder.fmul(broadcast(builder, c, W.lanes), x))
        for t in range(TALL):
            row = builder.add(a, number(t))
            total = builder.load(sums[t])
            if W.item != M.item:
                total = builder.fpext(total, ir.VectorType(M.item, W.lanes))
            total = builder.fmul(broadcast(builder, sign, W.lanes), total)
            M.store(builder.fadd(M.load(row, b, lanes=W.lanes), total), row, b)
        return context.get_dummy_value()

    index = types.int64
    return types.void(W, index, index, index, index, M.dtype, M), generate


@intrinsic
def lane_dots(typing_context, weights, features, columns, out):
    """out = weights[-1] + sum over k of weights[k] columns[features[k]], 8 points at once.

    `columns` float64 [d, 8] holds a feature of all points in a row; weights are float32. Summed as in
    `distance.project`: four sums, k modulo 4, and what is left over goes to the first.
    """

    def generate(context, builder, signature, args):
        weights, features, columns, out = (
            Matrix(context, builder, signature.args[k], args[k]) for k in range(4)
        )
        sums = sums_of_vectors(builder, columns, TALL)
        n = builder.sub(weights.pitch, number(1))

        def weight(k):
            return broadcast(
                builder, builder.fpext(builder.load(weights.at(k)), columns.item), columns.lanes
            )

        def term(k):
            place = builder.sext(builder.load(features.at(k)), ir.IntType(64))
            return builder.fmul(weight(k), columns.load(place, number(0)))

        builder.store(weight(n), sums[0])
        fours = builder.and_(n, number(-TALL))
        with cgutils.for_range_slice(builder, number(0), fours, number(TALL), inc=True) as (k, _):
            for t in range(TALL):
                add_to(builder, sums[t], term(builder.add(k, number(t))))
        with cgutils.for_range_slice(builder, fours, n, number(1), inc=True) as (k, _):
            add_to(builder, sums[0], term(k))
        s0, s1, s2, s3 = (builder.load(place) for place in sums)
        out.store(builder.fadd(builder.fadd(s0, s1), builder.fadd(s2, s3)), number(0))
        return context.get_dummy_value()

    return types.void(weights, features, columns, out), generate


@intrinsic
def count_holding(typing_context, places, n, low, size, n_ranges, count):
    """count[c] = how many of the first ranges low:low + size hold places[c], for c up to n.

    All int32, below 2^31; places and count have room for whole vectors.
    """

    def generate(context, builder, signature, args):
        places, low, size, count = (
            Matrix(context, builder, signature.args[k], args[k]) for k in (0, 2, 3, 5)
        )
        vector = ir.VectorType(places.item, places.lanes)
        total = cgutils.alloca_once(builder, vector)
        step = number(places.lanes)
        with cgutils.for_range_slice(builder, number(0), args[1], step, inc=True) as (c, _):
            x = places.load(c)
            builder.store(ir.Constant(vector, None), total)
            with cgutils.for_range(builder, args[4]) as loop:
                first, width = (
                    broadcast(builder, builder.load(array.at(loop.index)), places.lanes)
                    for array in (low, size)
                )
                # Below the range the difference wraps round to a large number.
                held = builder.icmp_unsigned("<", builder.sub(x, first), width)
                more = builder.zext(held, vector)
                builder.store(builder.add(builder.load(total), more), total)
            count.store(builder.load(total), c)
        return context.get_dummy_value()

    index = types.int64
    return types.void(places, index, low, size, index, count), generate


@kernel
def padded(size):
    """Entries of a row that has room for `size` of them in whole vectors, of float32 and of float64."""
    return (size + 15) // 16 * 16


@inner
def cleared(vector):
    """The vector, all 0 now. One function to compile for each type; np.zeros is three."""
    for k in range(vector.size):
        vector[k] = 0
    return vector


@inner
def dot(a, b):
    """Dot product in float64, in four lanes."""
    s0 = s1 = s2 = s3 = 0.0
    k = 0
    while k + 4 <= a.size:
        s0 += np.float64(a[k]) * np.float64(b[k])
        s1 += np.float64(a[k + 1]) * np.float64(b[k + 1])
        s2 += np.float64(a[k + 2]) * np.float64(b[k + 2])
        s3 += np.float64(a[k + 3]) * np.float64(b[k + 3])
        k += 4
    while k < a.size:
        s0 += np.float64(a[k]) * np.float64(b[k])
        k += 1
    return (s0 + s1) + (s2 + s3)


@apart
def gram(W, n, size, lam):
    """lam I + W'W of the first n rows of W, float32 [n or more, padded(size)].

    Float64 [size + 3, padded(size)], of which only the lower triangle of the first `size` rows means
    anything, as only the first `size` entries of W's rows do. Sums of CHUNK rows are in float32.
    """
    M = np.empty((size + TALL - 1, W.shape[1]))
    for a in range(len(M)):
        cleared(M[a])
    for start in range(0, n, ROWS_PER_TILE):
        for a in range(0, size, TALL):
            for b in range(0, a + TALL, 16):
                add_tile(W, start, min(start + ROWS_PER_TILE, n), a, b, 1.0, M)
    for a in range(size):
        M[a, a] += lam
    return M


@apart
def solve_dense(M, x):
    """Solve M x = b in place (b comes in `x`), M positive definite as `gram` gives it, and spent.

    M = R'R with R lower triangular, found four rows at a time from the last ones up: those below have
    their say by tiles, then the four among themselves.
    """
    stop = x.size
    while stop > 0:
        start = (stop - 1) // TALL * TALL
        if stop < x.size:
            for b in range(0, stop, 8):
                add_tile(M, stop, x.size, start, b, -1.0, M)
        wide = (stop + 7) // 8 * 8
        for i in range(stop - 1, start - 1, -1):
            row = M[i]
            for k in range(i + 1, stop):
                f = M[k, i]
                below = M[k]
                for j in range(wide):
                    row[j] -= f * below[j]
            f = 1.0 / np.sqrt(row[i])
            for j in range(wide):
                row[j] *= f
        stop = start
    for i in range(x.size - 1, -1, -1):
        row = M[i]
        x[i] /= row[i]
        f = x[i]
        for j in range(i):
            x[j] -= f * row[j]
    for i in range(x.size):
        row = M[i]
        x[i] = (x[i] - dot(row[:i], x[:i])) / row[i]
