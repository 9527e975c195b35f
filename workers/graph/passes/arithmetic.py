"""Arithmetic with a number that changes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from workers.graph.graph import Argument, Operator, TensorSpec, ValueRef

# The number that, as second argument, leaves the first as it is.
_NEUTRAL: dict[str, float] = {
    "aten.mul.Tensor": 1, "aten.mul.Scalar": 1, "aten.div.Tensor": 1, "aten.div.Scalar": 1,
    "aten.pow.Tensor_Scalar": 1,
    "aten.sub.Tensor": 0, "aten.sub.Scalar": 0, "aten.add.Tensor": -0.0, "aten.add.Scalar": -0.0,
}  # fmt: skip
_WHOLE = ("int64", "int32", "int16", "int8", "uint8")


def keeps_its_operand(operator: Operator, values: Mapping[str, TensorSpec]) -> bool:
    """Whether the result is the first operand, bit for bit and in the same type.

    True of ``x * 1``, ``x / 1``, ``x ** 1``, ``x - 0`` and, for whole numbers, ``x + 0``. In
    floating point ``x + 0`` turns -0 into +0, and only ``x + (-0)`` keeps every x; likewise
    ``x - (-0)`` does not. ``1 * x`` counts too, and so does a neutral number that promotes
    nothing: the types of operand and result must be equal.
    """
    neutral = _NEUTRAL.get(operator.target)
    if neutral is None or operator.keywords or len(operator.arguments) != 2:
        return False
    operand, number = operator.arguments
    if not isinstance(operand, ValueRef) and "mul" in operator.target:
        operand, number = number, operand
    if not isinstance(operand, ValueRef) or not _is_number(number):
        return False
    spec = values[operand.name]
    if spec != values[operator.outputs[0]]:
        return False
    signs_matter = neutral == 0 and spec.dtype not in _WHOLE
    return number == neutral and not (signs_matter and _sign(number) != _sign(neutral))


def _is_number(argument: Argument) -> bool:
    return isinstance(argument, int | float) and not isinstance(argument, bool)


def _sign(number: Argument) -> float:
    return math.copysign(1, number) if isinstance(number, int | float) else math.nan
