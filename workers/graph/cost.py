"""What an operator costs on paper: arithmetic operations and bytes.

Conventions: a dot product of length n counts 2n (n multiplications, n - 1 additions and the
addition of a bias, whether there is one or not); a comparison and a transcendental function count
as one operation; moving, selecting and reinterpreting data counts as none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from workers.graph.graph import GraphError, Operator, TensorSpec, ValueRef
from workers.graph.operators import KINDS

Values = Mapping[str, TensorSpec]

_SOFTMAX = 5  # maximum, subtraction, exponential, sum, division

# Operations per element of the result; one for an element-wise operator that is not named.
_PER_RESULT = {
    "aten.relu6.default": 2, "aten.hardtanh.default": 2, "aten.clamp.default": 2,
    "aten.leaky_relu.default": 2, "aten.prelu.default": 2, "aten.elu.default": 4,
    "aten.selu.default": 4, "aten.celu.default": 4, "aten.gelu.default": 5,
    "aten.silu.default": 5, "aten.mish.default": 5, "aten.sigmoid.default": 4,
    "aten.hardsigmoid.default": 4, "aten.hardswish.default": 5, "aten.softplus.default": 3,
    "aten.log_sigmoid.default": 4, "aten.glu.default": 5, "aten._to_copy.default": 0,
    "aten.hardshrink.default": 2, "aten.softshrink.default": 3, "aten.clamp.Tensor": 2,
    "aten.addcmul.default": 3, "aten.addcdiv.default": 3, "aten.lerp.Scalar": 3,
    "aten.lerp.Tensor": 3,
    "aten._native_batch_norm_legit_no_training.default": 2,
    "aten._native_batch_norm_legit.no_stats": 8,
    "aten.native_layer_norm.default": 8, "aten.layer_norm.default": 8,
    "aten.native_group_norm.default": 8, "aten.group_norm.default": 8,
    "aten.rms_norm.default": 4,
    # a weighted sum of 2, 4, 8, 16 neighbours
    "aten.upsample_linear1d.vec": 3, "aten.upsample_bilinear2d.vec": 7,
    "aten.upsample_trilinear3d.vec": 15, "aten.upsample_bicubic2d.vec": 31,
    "aten.grid_sampler_2d.default": 7,
}  # fmt: skip

# Operations per element read; one for a reduction that is not named.
_PER_OPERAND = {
    "aten.var.correction": 4, "aten.std.correction": 4, "aten.var_mean.correction": 4,
    "aten.linalg_vector_norm.default": 2, "aten.logsumexp.default": 4,
}  # fmt: skip


def flops(operator: Operator, values: Values) -> int:
    """Arithmetic operations of one call, multiplications and additions counted separately.

    Raises GraphError if the operator is not in the table or its arguments do not fit it.
    """
    if operator.target not in KINDS:
        raise GraphError(f"operator {operator.name!r} calls {operator.target!r}, which is unknown")
    return _FLOPS[KINDS[operator.target]](operator, values)


def bytes_of(names: Iterable[str], values: Values) -> int:
    """Bytes of the named values together, each once."""
    return sum(values[name].nbytes for name in dict.fromkeys(names))


def _operand(operator: Operator, position: int, values: Values) -> TensorSpec:
    """The specification of the tensor that is the argument at ``position``."""
    if position < len(operator.arguments):
        argument = operator.arguments[position]
        if isinstance(argument, ValueRef):
            return values[argument.name]
    raise GraphError(
        f"argument {position} of operator {operator.name!r} ({operator.target}) is not a tensor"
    )


def _result(operator: Operator, values: Values) -> TensorSpec:
    return values[operator.outputs[0]]


def _nothing(_operator: Operator, _values: Values) -> int:
    return 0


def _convolution(operator: Operator, values: Values) -> int:
    """Every output element is a dot product with one filter, of (C / groups) · kernel elements;
    transposed, every input element is multiplied by the filters of its channel."""
    filters = math.prod(_operand(operator, 1, values).shape[1:])
    transposed = operator.target.startswith("aten.conv_transpose")
    elements = _operand(operator, 0, values) if transposed else _result(operator, values)
    return 2 * elements.numel * filters


def _product(operator: Operator, values: Values) -> int:
    """(…, m, k) by (k, n): every element of the result is a dot product of length k."""
    added_first = operator.target in ("aten.addmm.default", "aten.baddbmm.default")
    length = _operand(operator, 1 if added_first else 0, values).shape[-1]
    return 2 * _result(operator, values).numel * length


def _attention(operator: Operator, values: Values) -> int:
    """softmax(Q Kᵀ · scale + mask) V; a causal mask saves nothing, as in a dense kernel."""
    query, key, value = (_operand(operator, position, values) for position in range(3))
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    return scores * (2 * query.shape[-1] + 2 * value.shape[-1] + _SOFTMAX + 1)


def _pool(operator: Operator, values: Values) -> int:
    """One operation for each element of each window."""
    dimensions = int(operator.target.partition("pool")[2][0])
    source, result = _operand(operator, 0, values), _result(operator, values)
    if "adaptive" in operator.target:
        return math.prod(result.shape[:-dimensions]) * math.prod(
            _adaptive_windows(size, count)
            for size, count in zip(
                source.shape[-dimensions:], result.shape[-dimensions:], strict=True
            )
        )
    if len(operator.arguments) < 2:
        raise GraphError(f"operator {operator.name!r} ({operator.target}) has no kernel size")
    kernel = operator.arguments[1]
    sizes = kernel if isinstance(kernel, tuple) else (kernel,)
    lengths = [size for size in sizes if isinstance(size, int)]
    if len(lengths) != len(sizes) or len(lengths) not in (1, dimensions):
        raise GraphError(f"operator {operator.name!r} has the kernel size {kernel!r}")
    window = lengths[0] ** dimensions if len(lengths) == 1 else math.prod(lengths)
    return result.numel * window


def _adaptive_windows(size: int, count: int) -> int:
    """The summed lengths of the ``count`` windows that adaptive pooling lays over ``size``."""
    return sum(-(-(i + 1) * size // count) - i * size // count for i in range(count))


def _per_result(operator: Operator, values: Values) -> int:
    return _PER_RESULT.get(operator.target, 1) * _result(operator, values).numel


def _resampling(operator: Operator, values: Values) -> int:
    return _PER_RESULT.get(operator.target, 0) * _result(operator, values).numel


def _softmax(operator: Operator, values: Values) -> int:
    return _SOFTMAX * _result(operator, values).numel


def _reduction(operator: Operator, values: Values) -> int:
    return _PER_OPERAND.get(operator.target, 1) * _operand(operator, 0, values).numel


_FLOPS: dict[str, Callable[[Operator, Values], int]] = {
    "conv": _convolution,
    "linear": _product,
    "matmul": _product,
    "attention": _attention,
    "pool": _pool,
    "elementwise": _per_result,
    "activation": _per_result,
    "normalization": _per_result,
    "softmax": _softmax,
    "reduction": _reduction,
    "data": _resampling,
    "concat": _nothing,
    "embedding": _nothing,
    "view": _nothing,
    "identity": _nothing,
}
