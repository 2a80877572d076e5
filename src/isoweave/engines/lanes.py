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

LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
# A product and a sum may become one instruction, where there is one.
_FUSED = ("contract",)
# Part of its norm that the smallest singular value of a matrix has, at least, for a fast polar factor.
_SMALLEST = 1e-5


def _spread(builder: Any, number: Any) -> Any:
    """The vector of one number."""
    value = ir.Constant(_VECTOR, ir.Undefined)
    for k in range(LANES):
        value = builder.insert_element(value, number, ir.Constant(ir.IntType(32), k))
    return value


def _sum_of_products(kind: str, adds: bool, flags: tuple[str, ...] = _FUSED, n_sums: int = 1) -> Any:
    """A sum over ``m < count`` of ``factor x[a + m da] y[b + m db]`` that is put or added to ``out[o]``.

    ``out`` and y, at these indices of flat arrays, are vectors. x are vectors, or numbers; where x are
    "gathered", ``da`` is an array of indices instead, and y is taken at ``b + da[a + m] db``. Where there are
    more sums than one, the x of the next begin where those of one end, and ``out`` is as far on.
    """
    gathered = kind == "gathered"

    def typed(
        _: Any, out: Any, o: Any, factor: Any, x: Any, a: Any, da: Any, y: Any, b: Any, db: Any, count: Any
    ) -> Any:
        index = types.int64
        along = da if gathered else index
        return types.void(out, index, types.float64, x, index, along, y, index, index, index), generate

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, o, factor, x, a, da, y, b, db, count = arguments

        def pointer(which: int, array: Any, index: Any) -> Any:
            data = context.make_array(signature.args[which])(context, builder, array).data
            return builder.gep(data, [index])

        def vector(which: int, array: Any, index: Any) -> Any:
            return builder.bitcast(pointer(which, array, index), ir.PointerType(_VECTOR))

        totals = [
            cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES)) for _ in range(n_sums)
        ]
        further = [ir.Constant(ir.IntType(64), 0)]
        for _ in range(1, n_sums):
            further.append(builder.add(further[-1], builder.mul(count, da)))
        with cgutils.for_range(builder, count) as loop:
            step = loop.index
            if gathered:
                at = builder.add(a, step)
                step = builder.zext(builder.load(pointer(5, da, at)), ir.IntType(64))
            else:
                at = builder.add(a, builder.mul(step, da))
            right = builder.load(vector(6, y, builder.add(b, builder.mul(step, db))), align=8)
            for total, more in zip(totals, further, strict=True):
                here = builder.add(at, more)
                left = (
                    builder.load(vector(3, x, here), align=8)
                    if kind == "vectors"
                    else _spread(builder, builder.load(pointer(3, x, here)))
                )
                product = builder.fmul(left, right, flags=flags)
                builder.store(builder.fadd(builder.load(total), product, flags=flags), total)
        for total, more in zip(totals, further, strict=True):
            place = vector(0, out, builder.add(o, more))
            value = builder.fmul(_spread(builder, factor), builder.load(total), flags=flags)
            if adds:
                value = builder.fadd(builder.load(place, align=8), value, flags=flags)
            builder.store(value, place, align=8)
        return context.get_dummy_value()

    return intrinsic(typed)


set_products, add_products = _sum_of_products("vectors", False), _sum_of_products("vectors", True)
set_multiples, add_multiples = _sum_of_products("numbers", False), _sum_of_products("numbers", True)
set_gathered = _sum_of_products("gathered", False)
# With the bits of products and sums one after the other.
set_exact, add_exact = (_sum_of_products("vectors", adds, ()) for adds in (False, True))
set_four = _sum_of_products("vectors", False, (), 4)


def _lower(_: Any, x: Any, o: Any, a: Any, number: Any) -> Any:
    """Put ``min(x[o], x[a] + number)`` to ``x[o]``, vectors; whether any number is smaller than before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, o, a, number = arguments
        data = context.make_array(signature.args[0])(context, builder, x).data
        place, other = (builder.bitcast(builder.gep(data, [at]), ir.PointerType(_VECTOR)) for at in (o, a))
        before = builder.load(place, align=8)
        value = builder.fadd(builder.load(other, align=8), _spread(builder, number))
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
        for r in range(n):
            for k in range(r + 1):
                set_products(gram, r * down + k * one, c, x, r * one, down, x, k * one, down, n)
            for w in range(LANES):
                gram[r, r, w] += 1.0
        # The Cholesky factor below the diagonal, its transposed inverse above, inverted pivots between them.
        for p in range(n):
            pivot = p * down + p * one
            for r in range(p, n):
                add_products(gram, r * down + p * one, -1.0, gram, r * down, one, gram, p * down, one, p)
            for w in range(LANES):
                gram[p, p, w] = 1.0 / np.sqrt(gram[p, p, w])
            for r in range(p + 1, n):
                at = r * down + p * one
                set_products(gram, at, 1.0, gram, at, one, gram, pivot, one, 1)
        for r in range(n):
            pivot = r * down + r * one
            for k in range(r + 1, n):
                at = r * down + k * one
                set_products(gram, at, -1.0, gram, k * down + r * one, one, gram, pivot, one, k - r)
                set_products(gram, at, 1.0, gram, at, one, gram, k * down + k * one, one, 1)
        for m in range(0, n * down, down):
            for k in range(n):
                set_products(row, k * one, 1.0, x, m, one, gram, k * one, down, k + 1)
            for k in range(n):
                at = m + k * one
                set_products(y, at, a - b / c, row, k * one, one, gram, k * down + k * one, one, n - k)
                add_multiples(y, at, b / c, ONE, 0, 1, x, at, one, 1)
        x, y = y, x
    set_products(row, 0, 1.0, x, 0, one, x, 0, one, n * n)
    return x
