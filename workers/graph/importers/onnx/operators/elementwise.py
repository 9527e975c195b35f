"""Arithmetic, comparisons, logic and casts: one result for each element, broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
)
from workers.graph.importers.onnx.recorder import Value
from workers.graph.importers.onnx.tensors import dtype_of

_WIDER = {torch.uint16: torch.int64, torch.uint32: torch.int64, torch.uint64: torch.int64}
_SIGN = 1 << 63  # the least int64; adding it to a uint64's bits makes signed order unsigned order

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "IsNaN": "isnan", "Log": "log", "Mish": "mish", "Neg": "neg",
    "Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus",
    "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "BitwiseNot": "bitwise_not",
    "HardSwish": "hardswish",
}  # fmt: skip

_BINARY = {
    "Add": "add.Tensor", "Sub": "sub.Tensor", "Mul": "mul.Tensor", "And": "logical_and.default",
    "Or": "logical_or.default", "Xor": "logical_xor.default", "BitwiseAnd": "bitwise_and.Tensor",
    "BitwiseOr": "bitwise_or.Tensor", "BitwiseXor": "bitwise_xor.Tensor",
}  # fmt: skip

_TAKES_NUMBERS = ("add.Tensor", "sub.Tensor", "mul.Tensor")

_COMPARISONS = {
    "Equal": "eq", "Greater": "gt", "Less": "lt", "GreaterOrEqual": "ge", "LessOrEqual": "le",
}  # fmt: skip


def _register_unary() -> None:
    for name, aten in _UNARY.items():
        onnx_operator(name)(_unary(f"{aten}.default"))


def _unary(target: str) -> Callable[[Node], Value]:
    def describe(n: Node) -> Value:
        x = n[0]
        if x.dtype in _WIDER:
            return n.cast(n.call(target, n.cast(x, torch.int64)), x.dtype)
        if target == "abs.default" and x.dtype is torch.bool:
            return x
        return n.call(target, x)

    return describe


def paired(n: Node, a: Value, b: Value) -> tuple[Value, Value]:
    """Both operands in a type that torch computes with; ONNX gives both the same."""
    wider = _WIDER.get(a.dtype)
    return (a, b) if wider is None else (n.cast(a, wider), n.cast(b, wider))


def binary(n: Node, target: str, a: Value, b: Value) -> Value:
    """An operator of two tensors whose result has their type."""
    x, y = paired(n, a, b)
    number = scalar(y, x) if target in _TAKES_NUMBERS else y
    return n.cast(n.call(target, x, number), a.dtype)


def scalar(value: Value, beside: Value) -> Value | float | int | bool:
    """A constant of one element as a number, if that does not change the result's shape.

    A number takes the type of the tensor beside it, so both are of one type already.
    """
    single = value.constant and value.tensor.numel() == 1 and value.rank <= beside.rank
    if not single or beside.constant or not beside.rank:
        return value
    number: float | int | bool = value.tensor.item()
    return number


def _register_binary() -> None:
    for name, target in _BINARY.items():
        onnx_operator(name)(_binary(target))
    for name, target in _COMPARISONS.items():
        onnx_operator(name)(_comparison(target))


def _binary(target: str) -> Callable[[Node], Value]:
    return lambda n: binary(n, target, n[0], n[1])


def _comparison(name: str) -> Callable[[Node], Value]:
    def describe(n: Node) -> Value:
        a = n[0]
        x, y = paired(n, a, n[1])
        if a.dtype is torch.uint64 and name != "eq":
            x, y = (n.call("bitwise_xor.Scalar", v, -_SIGN) for v in (x, y))
        number = scalar(y, x)
        if isinstance(number, Value):
            return n.call(f"{name}.Tensor", x, number)
        return n.call(f"{name}.Scalar", x, number)

    return describe


@onnx_operator("Div")
def _div(n: Node) -> Value:
    x, y = paired(n, n[0], n[1])
    if x.dtype.is_floating_point:
        return n.call("div.Tensor", x, scalar(y, x))
    return n.cast(n.call("div.Tensor_mode", x, scalar(y, x), rounding_mode="trunc"), n[0].dtype)


@onnx_operator("Mod")
def _mod(n: Node) -> Value:
    x, y = paired(n, n[0], n[1])
    target = "fmod.Tensor" if n.integer("fmod", 0) else "remainder.Tensor"
    return n.cast(n.call(target, x, y), n[0].dtype)


@onnx_operator("Pow")
def _pow(n: Node) -> Value:
    base, exponent = n[0], n[1]
    kept = base.dtype
    if base.dtype in _WIDER:
        base = n.cast(base, torch.int64)
    number = scalar(exponent, base)
    if not isinstance(number, Value):
        if not base.dtype.is_floating_point and float(number).is_integer() and number >= 0:
            number = int(number)
        if base.dtype.is_floating_point or isinstance(number, int):
            return n.cast(n.call("pow.Tensor_Scalar", base, number), kept)
    if exponent.dtype.is_floating_point and not base.dtype.is_floating_point:
        base = n.cast(base, torch.float64)
    exponent = n.cast(exponent, base.dtype)
    return n.cast(n.call("pow.Tensor_Tensor", base, exponent), kept)


@onnx_operator("BitShift")
def _bit_shift(n: Node) -> Value:
    x, y = paired(n, n[0], n[1])
    left = n.text("direction") == "LEFT"
    if n[0].dtype is torch.uint64 and not left:
        return n.cast(_logical_shift(n, x, y), torch.uint64)
    target = "bitwise_left_shift.Tensor" if left else "bitwise_right_shift.Tensor"
    shifted = n.call(target, x, y)
    if left and n[0].dtype is torch.uint16:
        shifted = n.call("bitwise_and.Scalar", shifted, 0xFFFF)
    if left and n[0].dtype is torch.uint32:
        shifted = n.call("bitwise_and.Scalar", shifted, 0xFFFFFFFF)
    return n.cast(shifted, n[0].dtype)


def _logical_shift(n: Node, x: Value, y: Value) -> Value:
    """Right shift of a uint64 held as int64: the copies of the sign bit are masked away."""
    shifted = n.call("bitwise_right_shift.Tensor", x, y)
    places = n.call("rsub.Scalar", y, 63)
    high = n.call("bitwise_left_shift.Tensor", n.constant(-2, torch.int64), places)
    return n.call("bitwise_and.Tensor", shifted, n.call("bitwise_not.default", high))


@onnx_operator("Max", "Min")
def _extreme(n: Node) -> Value:
    target = "maximum.default" if n.op_type == "Max" else "minimum.default"
    result = n[0]
    for value in n.inputs[1:]:
        x, y = paired(n, result, value)
        if result.dtype is torch.uint64:
            x, y = (n.call("bitwise_xor.Scalar", v, -_SIGN) for v in (x, y))
            picked = n.call("bitwise_xor.Scalar", n.call(target, x, y), -_SIGN)
        else:
            picked = n.call(target, x, y)
        result = n.cast(picked, value.dtype)
    return result


@onnx_operator("Sum", "Mean")
def _sum(n: Node) -> Value:
    result = n[0]
    for value in n.inputs[1:]:
        result = n.call("add.Tensor", result, value)
    if n.op_type == "Mean":
        result = n.call("div.Tensor", result, len(n.items))
    return result


@onnx_operator("Where")
def _where(n: Node) -> Value:
    condition, a, b = n[0], n[1], n[2]
    x, y = paired(n, a, b)
    return n.cast(n.call("where.self", condition, x, y), a.dtype)


@onnx_operator("Identity")
def _identity(n: Node) -> Value | tuple[Value, ...] | None:
    return n.items[0]


@onnx_operator("IsInf")
def _is_inf(n: Node) -> Value:
    x = n[0]
    positive, negative = n.integer("detect_positive", 1), n.integer("detect_negative", 1)
    if positive and negative:
        return n.call("isinf.default", x)
    if not positive and not negative:
        return n.call("ne.Tensor", n.call("isinf.default", x), n.call("isinf.default", x))
    return n.call("eq.Scalar", x, math.inf if positive else -math.inf)


@onnx_operator("Clip")
def _clip(n: Node) -> Value:
    x = n[0]
    low = n.number("min", -math.inf) if n.has("min") else None
    high = n.number("max", math.inf) if n.has("max") else None
    bounds: list[Value | float | None] = [low, high]
    for index in (1, 2):
        given = n.optional(index)
        if given is not None:
            bounds[index - 1] = given.tensor.item() if given.constant else given
    for target, bound in zip(("clamp_min", "clamp_max"), bounds, strict=True):
        if isinstance(bound, Value):
            x = n.call(f"{target}.Tensor", x, bound)
        elif bound is not None:
            number = bound if x.dtype.is_floating_point else _within(int(bound), x.dtype)
            x = n.call(f"{target}.default", x, number)
    return x


def _within(number: int, dtype: torch.dtype) -> int:
    info = torch.iinfo(dtype)
    return min(max(number, info.min), info.max)


@onnx_operator("Cast", "CastLike")
def _cast(n: Node) -> Value:
    dtype = n[1].dtype if n.op_type == "CastLike" else dtype_of(n.integer("to"), "the type cast to")
    x = n[0]
    if x.dtype.is_floating_point and dtype in (
        torch.uint8, torch.int8, torch.int16, torch.uint16, torch.uint32
    ):  # fmt: skip
        x = n.cast(x, torch.int64)  # C++ leaves the direct conversion of what does not fit open
    if dtype is torch.bool and x.dtype is not torch.bool:
        return n.call("ne.Scalar", n.cast(x, _WIDER.get(x.dtype, x.dtype)), 0)
    return n.cast(x, dtype)


@onnx_operator("BitCast")
def _bit_cast(n: Node) -> Value:
    dtype = dtype_of(n.integer("to"), "the type cast to")
    if n[0].constant:
        return Value(n[0].tensor.contiguous().view(dtype))
    return n.call("view.dtype", n[0], dtype)


_register_unary()
_register_binary()
