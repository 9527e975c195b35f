"""Element-wise arithmetic, comparisons and activations as ONNX nodes.

torch brings operands to a common element type, ONNX wants them of one: they are cast before.
"""

from __future__ import annotations

from typing import Any

from workers.graph.exporters.onnx.call import Call, Description


def _arithmetic(op_type: str, first: str = "self", second: str = "other") -> Description:
    """``first op alpha × second``, in the element type of the result."""

    def describe(call: Call) -> str:
        dtype = _not_bool(call)
        left, right = call.operand(first, dtype), call.operand(second, dtype)
        return call.node(op_type, left, _scaled(call, right, dtype))

    return describe


def _reversed_subtraction(call: Call) -> str:
    dtype = _not_bool(call)
    subtracted = _scaled(call, call.operand("self", dtype), dtype)
    return call.node("Sub", call.operand("other", dtype), subtracted)


def _scaled(call: Call, operand: str, dtype: str) -> str:
    alpha = call.argument("alpha")
    if alpha is None or alpha == 1:
        return operand
    return call.node("Mul", operand, call.scalar(call.number("alpha"), dtype))


def _comparison(op_type: str, inverted: bool = False) -> Description:
    def describe(call: Call) -> str:
        dtype = call.common_dtype("self", "other")
        if dtype == "bool" and op_type != "Equal":
            raise call.error("it orders booleans")
        result = call.node(op_type, call.operand("self", dtype), call.operand("other", dtype))
        return call.node("Not", result) if inverted else result

    return describe


def _logical(op_type: str, *operands: str) -> Description:
    def describe(call: Call) -> str:
        return call.node(op_type, *(call.operand(name, "bool") for name in operands))

    return describe


def _function(op_type: str, **attributes: Any) -> Description:
    """A function of floating-point numbers."""

    def describe(call: Call) -> str:
        return call.node(op_type, _float(call), **attributes)

    return describe


def _either(op_type: str) -> Description:
    """A function of floating-point and of whole numbers."""

    def describe(call: Call) -> str:
        return call.node(op_type, call.operand("self", _not_bool(call)))

    return describe


# ONNX Runtime makes one kernel of a root mean square normalisation if it is spelled with ``Pow``
# and a division by ``Sqrt``; alone, both cost what ``Mul`` and ``Reciprocal`` do.


def _square(call: Call) -> str:
    dtype = _not_bool(call)
    return call.node("Pow", call.operand("self", dtype), call.scalar(2, dtype))


def _rsqrt(call: Call) -> str:
    root = call.node("Sqrt", _float(call))
    return call.node("Div", call.scalar(1, call.result.dtype), root)


def _silu(call: Call) -> str:
    operand = _float(call)
    return call.node("Mul", operand, call.node("Sigmoid", operand))


def _gelu(call: Call) -> str:
    return call.node("Gelu", _float(call), approximate=str(call.argument("approximate")))


def _slope(op_type: str, argument: str) -> Description:
    def describe(call: Call) -> str:
        return call.node(op_type, _float(call), alpha=float(call.number(argument)))

    return describe


def _softplus(call: Call) -> str:
    call.argument("threshold")  # beyond the usual one, the function is the identity to 9 digits
    if call.number("beta") != 1 or call.number("threshold") < 20:
        raise call.error("its beta or threshold is not the usual one")
    return call.node("Softplus", _float(call))


def _prelu(call: Call) -> str:
    x, slope = call.value("self"), call.value("weight")
    if slope.spec.numel == 1 or x.rank < 2:
        return call.node("PRelu", x, slope)
    per_channel = (slope.spec.numel, *(1 for _ in x.shape[2:]))
    return call.node("PRelu", x, call.reshaped(slope, per_channel))


def _clip(low: str | float | None, high: str | float | None) -> Description:
    """Limits by the names of the arguments, or as numbers."""

    def describe(call: Call) -> str:
        dtype = _not_bool(call)
        limits = []
        for limit in (low, high):
            number = call.argument(limit) if isinstance(limit, str) else limit
            if number is not None and not isinstance(number, int | float):
                raise call.error(f"its limit {number!r} is no number")
            limits.append(None if number is None else call.scalar(number, dtype))
        return call.node("Clip", call.operand("self", dtype), *limits)

    return describe


def _where(call: Call) -> str:
    dtype = call.result.dtype
    condition = call.operand("condition", "bool")
    return call.node("Where", condition, call.operand("self", dtype), call.operand("other", dtype))


def _masked_fill(call: Call) -> str:
    dtype = call.result.dtype
    mask = call.operand("mask", "bool")
    return call.node("Where", mask, call.operand("value", dtype), call.operand("self", dtype))


def _cast(call: Call) -> str:
    call.argument("dtype")
    return call.cast(call.value("self"), call.result.dtype)


def _float(call: Call) -> str:
    dtype = call.result.dtype
    if not dtype.startswith(("float", "bfloat")):
        raise call.error(f"it computes in {dtype}")
    return call.operand("self", dtype)


def _not_bool(call: Call) -> str:
    if call.result.dtype == "bool":
        raise call.error("it computes with booleans")
    return call.result.dtype


def _binary(name: str, description: Description) -> dict[str, Description]:
    return {f"aten.{name}.{overload}": description for overload in ("Tensor", "Scalar")}


POINTWISE: dict[str, Description] = {
    **_binary("add", _arithmetic("Add")),
    **_binary("sub", _arithmetic("Sub")),
    **_binary("mul", _arithmetic("Mul")),
    **_binary("div", _arithmetic("Div")),
    "aten.rsub.Scalar": _reversed_subtraction,
    "aten.pow.Tensor_Scalar": _arithmetic("Pow", second="exponent"),
    "aten.pow.Tensor_Tensor": _arithmetic("Pow", second="exponent"),
    "aten.pow.Scalar": _arithmetic("Pow", second="exponent"),
    "aten.maximum.default": _arithmetic("Max"),
    "aten.minimum.default": _arithmetic("Min"),
    **_binary("eq", _comparison("Equal")),
    **_binary("ne", _comparison("Equal", inverted=True)),
    **_binary("gt", _comparison("Greater")),
    **_binary("ge", _comparison("GreaterOrEqual")),
    **_binary("lt", _comparison("Less")),
    **_binary("le", _comparison("LessOrEqual")),
    "aten.logical_and.default": _logical("And", "self", "other"),
    "aten.logical_or.default": _logical("Or", "self", "other"),
    "aten.logical_xor.default": _logical("Xor", "self", "other"),
    "aten.logical_not.default": _logical("Not", "self"),
    "aten.where.self": _where,
    "aten.where.ScalarOther": _where,
    "aten.where.ScalarSelf": _where,
    "aten.where.Scalar": _where,
    "aten.masked_fill.Scalar": _masked_fill,
    "aten.masked_fill.Tensor": _masked_fill,
    "aten._to_copy.default": _cast,
    **{
        f"aten.{name}.default": _either(op_type)
        for name, op_type in (("neg", "Neg"), ("abs", "Abs"), ("sign", "Sign"))
    },
    **{
        f"aten.{name}.default": _function(name.capitalize())
        for name in (
            "exp", "log", "sqrt", "reciprocal", "sin", "cos", "erf", "floor", "ceil", "sigmoid",
            "tanh", "relu", "selu", "mish", "round",
        )
    },
    "aten.rsqrt.default": _rsqrt,
    "aten.square.default": _square,
    "aten.silu.default": _silu,
    "aten.gelu.default": _gelu,
    "aten.hardswish.default": _function("HardSwish"),
    "aten.hardsigmoid.default": _function("HardSigmoid", alpha=1 / 6, beta=0.5),
    "aten.leaky_relu.default": _slope("LeakyRelu", "negative_slope"),
    "aten.elu.default": _slope("Elu", "alpha"),
    "aten.celu.default": _slope("Celu", "alpha"),
    "aten.softplus.default": _softplus,
    "aten.prelu.default": _prelu,
    "aten.relu6.default": _clip(0, 6),
    "aten.hardtanh.default": _clip("min_val", "max_val"),
    "aten.clamp.default": _clip("min", "max"),
    "aten.clamp_min.default": _clip("min", None),
    "aten.clamp_max.default": _clip(None, "max"),
}  # fmt: skip
