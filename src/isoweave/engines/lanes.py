"""Sums of products by vector instructions, and orthogonal polar factors of several matrices side by side.

An instruction works on ``LANES`` numbers at once, its lanes. The compiler finds no use for such instructions
in loops as short as those over the coordinates of a point, so the sums are written in its own language.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from isoweave.engines.compile import helper
from isoweave.engines.vectors import LANES, VECTOR, get, put, spread, spread_number

# A product and a sum may become one instruction, where there is one.
_FUSED = ("contract",)
# Part of its norm that the smallest singular value of a matrix has, at least, for a fast polar factor.
_SMALLEST = 1e-5


def _sum_of_products(kind: str, adds: bool, flags: tuple[str, ...] = _FUSED, at_most: int = 1) -> Any:
    """A sum over ``m < count`` of ``factor x[a + m da] y[b + m db]`` that is put or added to ``out[o]``.

    ``out`` and y, at these indices of flat arrays, are vectors. x are vectors, or numbers; where x are
    "gathered", ``da`` is an array of indices instead, and y is taken at ``b + da[a + m] db``. Several sums at
    once, up to ``at_most``, wait for each other less: then the arguments end with their number and with how
    far apart their ``out`` are, and their x.
    """
    gathered = kind == "gathered"

    def typed(
        _: Any, out: Any, o: Any, factor: Any, x: Any, a: Any, da: Any, y: Any, b: Any, db: Any, count: Any
    ) -> Any:
        index = types.int64
        along = da if gathered else index
        return types.void(out, index, types.float64, x, index, along, y, index, index, index), generate

    def several(
        _: Any, out: Any, o: Any, factor: Any, x: Any, a: Any, da: Any, y: Any, b: Any, db: Any, count: Any,
        number: Any, to: Any, on: Any,
    ) -> Any:  # fmt: skip
        rest = (types.int64, types.int64, y, *(types.int64,) * 6)
        return types.void(out, types.int64, types.float64, x, *rest), generate

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, o, factor, x, a, da, y, b, db, count, *more = arguments

        def pointer(which: int, array: Any, index: Any) -> Any:
            data = context.make_array(signature.args[which])(context, builder, array).data
            return builder.gep(data, [index])

        def vector(which: int, array: Any, index: Any) -> Any:
            return builder.bitcast(pointer(which, array, index), ir.PointerType(VECTOR))

        places, lefts = [o], [a]
        for k in range(1, at_most):
            # The last one over again where there are fewer.
            number, to, on = more
            is_there = builder.icmp_signed("<", number.type(k), number)
            places.append(builder.select(is_there, builder.add(places[-1], to), places[-1]))
            lefts.append(builder.select(is_there, builder.add(lefts[-1], on), lefts[-1]))
        totals = [cgutils.alloca_once_value(builder, ir.Constant(VECTOR, [0.0] * LANES)) for _ in places]
        with cgutils.for_range(builder, count) as loop:
            step = away = loop.index
            if gathered:
                step = builder.zext(builder.load(pointer(5, da, builder.add(a, step))), ir.IntType(64))
            else:
                away = builder.mul(away, da)
            right = builder.load(vector(6, y, builder.add(b, builder.mul(step, db))), align=8)
            for total, left in zip(totals, lefts, strict=True):
                at = builder.add(left, away)
                value = (
                    builder.load(vector(3, x, at), align=8)
                    if kind == "vectors"
                    else spread_number(builder, builder.load(pointer(3, x, at)))
                )
                product = builder.fmul(value, right, flags=flags)
                builder.store(builder.fadd(builder.load(total), product, flags=flags), total)
        values = []
        for total, place in zip(totals, places, strict=True):
            value = builder.fmul(spread_number(builder, factor), builder.load(total), flags=flags)
            if adds:
                value = builder.fadd(builder.load(vector(0, out, place), align=8), value, flags=flags)
            values.append(value)
        for value, place in zip(values, places, strict=True):
            builder.store(value, vector(0, out, place), align=8)
        return context.get_dummy_value()

    return intrinsic(typed if at_most == 1 else several)


set_products, add_products = _sum_of_products("vectors", False), _sum_of_products("vectors", True)
set_multiples, add_multiples = _sum_of_products("numbers", False), _sum_of_products("numbers", True)
set_gathered = _sum_of_products("gathered", False)
# With the bits of products and sums one after the other.
set_exact, add_exact = (_sum_of_products("vectors", adds, ()) for adds in (False, True))
# Several at once.
SEVERAL = 7
set_several, add_several = (_sum_of_products("vectors", adds, _FUSED, SEVERAL) for adds in (False, True))
add_several_multiples = _sum_of_products("numbers", True, _FUSED, SEVERAL)
set_several_exact = _sum_of_products("vectors", False, (), SEVERAL)


def _lower(_: Any, x: Any, o: Any, a: Any, number: Any) -> Any:
    """Put ``min(x[o], x[a] + number)`` to ``x[o]``, vectors; whether any number is smaller than before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, o, a, number = arguments
        data = context.make_array(signature.args[0])(context, builder, x).data
        place, other = (builder.bitcast(builder.gep(data, [at]), ir.PointerType(VECTOR)) for at in (o, a))
        before = builder.load(place, align=8)
        value = builder.fadd(builder.load(other, align=8), spread_number(builder, number))
        is_less = builder.fcmp_ordered("<", value, before)
        builder.store(builder.select(is_less, value, before), place, align=8)
        return builder.icmp_unsigned("!=", builder.bitcast(is_less, ir.IntType(LANES)), ir.IntType(LANES)(0))

    return types.boolean(x, types.int64, types.int64, types.float64), generate


lower: Any = intrinsic(_lower)


def _halley_steps(smallest: float) -> Any:
    """Coefficients that bring singular values between ``smallest`` and 1 to 1, to the last digit."""
    # Y. Nakatsukasa, Z. Bai, F. Gygi, "Optimizing Halley's iteration for computing the matrix polar
    # decomposition", 2010: x <- x (a + b x^2) / (1 + c x^2), with the best a, b, c for what is left to do.
    steps = []
    while smallest < 1.0 - 1e-15:
        square = smallest * smallest
        d = np.cbrt(4.0 * (1.0 - square) / square**2)
        root = np.sqrt(1.0 + d)
        a = root + 0.5 * np.sqrt(8.0 - 4.0 * d + 8.0 * (2.0 - square) / (square * root))
        b = (a - 1.0) ** 2 / 4.0
        steps.append((a, b, a + b - 1.0))
        smallest = min(1.0, smallest * (a + b * square) / (1.0 + (a + b - 1.0) * square))
    return np.array(steps)


_STEPS, ONE = _halley_steps(_SMALLEST), np.ones(1)


@helper
def polar_lanes(x, y, gram, row):
    """Orthogonal polar factors of ``LANES`` matrices x of shape (n, n, LANES) (eq. 10), in x or in y.

    ``y`` and ``gram``, of the same shape, and ``row``, of shape (n, LANES), are scratch. At the end
    ``row[0]`` is n where all singular values are 1, and less where a matrix was too near a singular one, or
    too large or too small to be squared: what is returned is of no use there.
    """
    n, one = len(x), LANES
    # From an entry of a matrix to the next below it.
    down = n * one
    set_products(row, 0, 1.0, x, 0, one, x, 0, one, n * n)
    for w in range(LANES):
        row[0, w] = 1.0 / np.sqrt(row[0, w]) if 0.0 < row[0, w] < np.inf else 0.0
    for at in range(0, n * down, one):
        set_products(x, at, 1.0, x, at, one, row, 0, one, 1)
    for step in range(len(_STEPS)):
        # x <- (b / c) x + (a - b / c) x (1 + c x^T x)^-1
        a, b, c = _STEPS[step]
        for k in range(n):
            for r in range(k, n, SEVERAL):
                at, many = r * down + k * one, min(SEVERAL, n - r)
                set_several(gram, at, c, x, r * one, down, x, k * one, down, n, many, down, one)
            gram_kk = get(gram, k * n + k)
            put(gram, k * n + k, gram_kk + spread(1.0))
        # gram = F D F^T, the columns of F times D below the diagonal, F^T above it, 1 / D on it.
        for p in range(n):
            for r in range(p, n, SEVERAL):
                at, many = r * down + p * one, min(SEVERAL, n - r)
                add_several(gram, at, -1.0, gram, r * down, one, gram, p * one, down, p, many, down, down)
            inverse = spread(1.0) / get(gram, p * n + p)
            put(gram, p * n + p, inverse)
            for r in range(p + 1, n):
                put(gram, p * n + r, get(gram, r * n + p) * inverse)
        for at in range(n * n):
            put(y, at, get(x, at) * spread(a - b / c))
        for m in range(0, n, SEVERAL):
            at, many = m * down, min(SEVERAL, n - m)
            for k in range(1, n):
                add_several(y, at + k * one, -1.0, y, at, one, gram, k * one, down, k, many, down, down)
            for k in range(n):
                inverse = get(gram, k * n + k)
                for r in range(m, m + many):
                    put(y, r * n + k, get(y, r * n + k) * inverse)
            for k in range(n - 2, -1, -1):
                o, first = at + k * one, k * down + (k + 1) * one
                add_several(y, o, -1.0, y, o + one, one, gram, first, one, n - 1 - k, many, down, down)
        for at in range(n * n):
            put(y, at, get(y, at) + get(x, at) * spread(b / c))
        x, y = y, x
    set_products(row, 0, 1.0, x, 0, one, x, 0, one, n * n)
    return x
