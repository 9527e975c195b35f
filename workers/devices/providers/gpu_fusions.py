"""The fused operators that torch has on a GPU: cuDNN's convolutions and cuBLASLt's products.

- ``conv2d`` with bias, then relu → ``cudnn_convolution_relu``
- ``conv2d`` with bias, then the sum with a value of the same shape, then relu →
  ``cudnn_convolution_add_relu``
- ``addmm``, or ``linear`` with bias, of two dimensions, then relu or gelu → ``_addmm_activation``

The gelu of ``_addmm_activation`` is on a GPU the approximation by tanh (torch's own decomposition
of it says so), and the exact one on a CPU: only ``gelu(approximate="tanh")`` is fused. Left as they
are: a convolution without bias, for which torch would make one of zeros at every call, and one in
groups, for which torch has kernels of its own.

None of these calls has run on a GPU so far. Each is tried there before it is used: see ``trial``.
"""

from __future__ import annotations

from workers.devices.providers.linears import approximation
from workers.devices.providers.reading import Convolution, read_convolution, read_linear
from workers.graph.fused import TRANSPOSED, FusedCall, Packed, UnitKernels, only_reader
from workers.graph.graph import Argument, Graph, Operator, Unit, ValueRef

TYPES = ("float32", "float16", "bfloat16")

_RELU = "aten.relu.default"


def fused_on_gpu(graph: Graph, unit: Unit) -> UnitKernels:
    """The calls that could stand for operators of the Unit, before any was tried."""
    calls: list[FusedCall] = []
    for operator in unit.operators:
        if any(graph.values[name].dtype not in TYPES for name in operator.outputs):
            continue
        taken = {name for call in calls for name in call.operators}
        call = _convolution(graph, unit, operator) or _product(graph, unit, operator)
        # Of two convolutions that a sum adds, one takes the sum.
        if call is not None and not taken & set(call.operators):
            calls.append(call)
    return UnitKernels(tuple(calls))


def _convolution(graph: Graph, unit: Unit, operator: Operator) -> FusedCall | None:
    convolution = read_convolution(operator, graph)
    if convolution is None or convolution.bias is None or convolution.groups != 1:
        return None
    after = only_reader(graph, unit, operator.outputs[0])
    if after is None:
        return None
    if _is_relu(after):
        return FusedCall(
            operators=(operator.name, after.name),
            target="aten.cudnn_convolution_relu.default",
            arguments=_operands(convolution),
            output=after.outputs[0],
        )
    other = _summand(graph, operator, after)
    last = only_reader(graph, unit, after.outputs[0])
    if other is None or last is None or not _is_relu(last):
        return None
    value, weight, *rest = _operands(convolution)
    return FusedCall(
        operators=(operator.name, after.name, last.name),
        target="aten.cudnn_convolution_add_relu.default",
        arguments=(value, weight, ValueRef(other), 1.0, *rest),
        output=last.outputs[0],
    )


def _operands(convolution: Convolution) -> tuple[Argument, ...]:
    return (
        ValueRef(convolution.value),
        ValueRef(convolution.weight),
        convolution.bias_argument,
        convolution.stride,
        convolution.padding,
        convolution.dilation,
        convolution.groups,
    )


def _summand(graph: Graph, convolution: Operator, addition: Operator) -> str | None:
    """What ``addition`` adds to the convolution's result, if it is as large and of its type."""
    if addition.target != "aten.add.Tensor" or addition.keywords or len(addition.inputs) != 2:
        return None
    (result,) = convolution.outputs
    (other,) = (name for name in addition.inputs if name != result)
    return other if graph.values[other] == graph.values[result] else None


def _product(graph: Graph, unit: Unit, operator: Operator) -> FusedCall | None:
    operands = _factors(graph, operator)
    after = only_reader(graph, unit, operator.outputs[0]) if operands else None
    if operands is None or after is None:
        return None
    gelu = after.target == "aten.gelu.default" and approximation(after) == "tanh"
    if not (gelu or _is_relu(after)) or len(after.arguments) != 1:
        return None
    return FusedCall(
        operators=(operator.name, after.name),
        target="aten._addmm_activation.default",
        arguments=operands,
        keywords=(("use_gelu", gelu),),
        output=after.outputs[0],
    )


def _factors(graph: Graph, operator: Operator) -> tuple[Argument | Packed, ...] | None:
    """Bias, first and second factor of a product with a bias of one dimension."""
    if operator.target == "aten.addmm.default" and not operator.keywords:
        references = [argument for argument in operator.arguments if isinstance(argument, ValueRef)]
        if len(references) == 3 and len(graph.values[references[0].name].shape) == 1:
            return tuple(references)
        return None
    linear = read_linear(operator, graph)
    if linear is None or linear.bias is None or len(graph.values[linear.value].shape) != 2:
        return None
    return ValueRef(linear.bias), ValueRef(linear.value), Packed(linear.weight, TRANSPOSED)


def _is_relu(operator: Operator) -> bool:
    return operator.target == _RELU
