"""A type for the numbers in the lanes of an instruction: arithmetic with ``LANES`` items side by side.

Kernels that do for several small matrices what they would do for one are written with it. Lanes never mix, so
none gets other bits from what stands beside it; where lanes part, both ways are computed and one is chosen.
"""

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from isoweave.engines.compile import helper

LANES = 8
VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class _Lanes(types.Type):
    def __init__(self, name: str, kind: ir.Type) -> None:
        super().__init__(name)
        self.kind = ir.VectorType(kind, LANES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.kind)


_NUMBERS, _TRUTHS = _Lanes("Numbers", ir.DoubleType()), _Lanes("Truths", ir.IntType(1))


def _lowered(operation: Any, result: Any, operands: list[Any], make: Any) -> None:
    template = type(
        "_Lanes", (ConcreteTemplate,), {"key": operation, "cases": [signature(result, *operands)]}
    )
    infer_global(operation)(template)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return make(builder, *arguments)

    lower_builtin(operation, *operands)(generate)


def _arithmetic(name: str) -> Any:
    # A product and a sum stay two instructions: whether they become one may change where a loop is unrolled.
    return lambda builder, a, b: getattr(builder, name)(a, b)


def _comparison(sign: str) -> Any:
    return lambda builder, a, b: builder.fcmp_ordered(sign, a, b)


for _name in ("add", "sub", "mul"):
    for _operation in (getattr(operator, _name), getattr(operator, f"i{_name}")):
        _lowered(_operation, _NUMBERS, [_NUMBERS] * 2, _arithmetic(f"f{_name}"))
_lowered(operator.truediv, _NUMBERS, [_NUMBERS] * 2, _arithmetic("fdiv"))
_lowered(operator.neg, _NUMBERS, [_NUMBERS], lambda builder, a: builder.fneg(a))
for _operation, _sign in (
    (operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">="), (operator.eq, "=="),
):  # fmt: skip
    _lowered(_operation, _TRUTHS, [_NUMBERS] * 2, _comparison(_sign))
_lowered(operator.and_, _TRUTHS, [_TRUTHS] * 2, lambda builder, a, b: builder.and_(a, b))
_lowered(operator.or_, _TRUTHS, [_TRUTHS] * 2, lambda builder, a, b: builder.or_(a, b))
_lowered(operator.invert, _TRUTHS, [_TRUTHS], lambda builder, a: builder.not_(a))


def _intrinsic(operands: Any, result: Any, make: Any, apart: int = LANES) -> Any:
    """An intrinsic of these types; None stands for a flat array, in which vectors begin ``apart``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = list(arguments)
        if operands[0] is None:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.gep(array.data, [builder.mul(arguments[1], ir.IntType(64)(apart))])
            values[:2] = [builder.bitcast(place, ir.PointerType(_NUMBERS.kind))]
        return make(builder, *values)

    if len(operands) == 1:
        return intrinsic(lambda typing, a: (result(operands[0]), generate))
    if len(operands) == 2:
        return intrinsic(lambda typing, a, b: (result(operands[0] or a, operands[1]), generate))
    return intrinsic(lambda typing, a, b, c: (result(operands[0] or a, *operands[1:]), generate))


def _put(builder: Any, place: Any, value: Any) -> Any:
    builder.store(value, place, align=8)
    return ir.Constant(ir.PointerType(ir.IntType(8)), None)


def spread_number(builder: Any, number: Any) -> Any:
    """The vector of one number."""
    first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    return builder.shuffle_vector(first, first, zeros)


def _library(name: str) -> Any:
    def make(builder: Any, a: Any) -> Any:
        kind = ir.FunctionType(a.type, [a.type])
        return builder.call(builder.module.declare_intrinsic(f"{name}.v{LANES}f64", (), kind), [a])

    return make


def _any(builder: Any, truths: Any) -> Any:
    bits = ir.IntType(LANES)
    return builder.icmp_unsigned("!=", builder.bitcast(truths, bits), bits(0))


# Vector ``at`` of a flat array: read, written.
get = _intrinsic((None, types.int64), _NUMBERS, lambda builder, place: builder.load(place, align=8))
put = _intrinsic((None, types.int64, _NUMBERS), types.void, _put)
# The vector that begins at an entry of an array.
get_from = _intrinsic((None, types.int64), _NUMBERS, lambda builder, place: builder.load(place, align=8), 1)
put_from = _intrinsic((None, types.int64, _NUMBERS), types.void, _put, 1)
spread = _intrinsic((types.float64,), _NUMBERS, spread_number)
root = _intrinsic((_NUMBERS,), _NUMBERS, _library("llvm.sqrt"))
size_of = _intrinsic((_NUMBERS,), _NUMBERS, _library("llvm.fabs"))
choose = _intrinsic(
    (_TRUTHS, _NUMBERS, _NUMBERS), _NUMBERS, lambda builder, truths, a, b: builder.select(truths, a, b)
)
some = _intrinsic((_TRUTHS,), types.boolean, _any)


@helper
def aligned(count):
    """So many vectors of zeros, flat; each fills a line of the cache, of two it would take twice the time."""
    numbers = np.zeros((count + 1) * LANES)
    first = -(numbers.ctypes.data // 8) % LANES
    return numbers[first : first + count * LANES]
