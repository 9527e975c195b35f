"""From a Unit to the kernels that it launches: what the provider ``aten`` would call on a GPU.

One kernel for each operator, except that

- views launch nothing;
- a convolution or product takes along what ``providers.gpu_fusions`` fuses to it;
- the bias of a convolution that takes nothing along is added by a kernel of its own, as PyTorch
  does after cuDNN's convolution (``aten/src/ATen/native/Convolution.cpp``, ``_convolution``), but
  for depthwise ones, for which PyTorch has its own kernel, with the bias in it. Linear layers
  always take their bias along (``addmm``).

Anything else is a kernel of its own: other activations, a ReLU before a convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from workers.devices.base import DeviceError
from workers.devices.sim import products, streaming
from workers.devices.sim.fusions import fusions, has_bias
from workers.devices.sim.kernel import SimKernel
from workers.devices.sim.products import Traffic
from workers.graph.cost import flops
from workers.graph.graph import Argument, Graph, Operator, TensorSpec, Unit, ValueRef
from workers.graph.operators import KINDS, is_kernel_free
from workers.hardware.gpu import GpuFacts

Values = Mapping[str, TensorSpec]


def kernels_of(gpu: GpuFacts, graph: Graph, unit: Unit) -> tuple[SimKernel, ...]:
    """The kernels of ``unit`` in order; none if it only looks at values in another way."""
    return _Unit(gpu, graph, unit).kernels()


class _Unit:
    def __init__(self, gpu: GpuFacts, graph: Graph, unit: Unit) -> None:
        self._gpu, self._values, self._unit = gpu, graph.values, unit
        self._weights = {*unit.weights}
        self._fusions = fusions(graph, unit)

    def kernels(self) -> tuple[SimKernel, ...]:
        found: list[SimKernel] = []
        fused = {other.name for others in self._fusions.values() for other in others}
        for operator in self._unit.operators:
            empty = not any(self._values[name].numel for name in operator.outputs)
            if empty or operator.name in fused or is_kernel_free(operator.target):
                continue
            found.extend(_MODELS[KINDS[operator.target]](self, operator))
        return tuple(found)

    # What operators read and write

    def traffic(self, operator: Operator) -> Traffic:
        weights = inputs = 0
        for name in (*operator.inputs, *self._summands(operator)):
            if name in self._weights:
                weights += self._values[name].nbytes
            else:
                inputs += self._values[name].nbytes
        outputs = sum(self._values[name].nbytes for name in operator.outputs)
        return Traffic(float(weights), float(inputs), float(outputs))

    def _summands(self, operator: Operator) -> list[str]:
        """What the operators that are fused to this one read besides its own results."""
        own = {*operator.outputs}
        read: list[str] = []
        for other in self._fusions.get(operator.name, ()):
            read += [name for name in other.inputs if name not in own]
            own.update(other.outputs)
        return read

    def operand(self, operator: Operator, position: int) -> TensorSpec:
        argument = operator.arguments[position]
        if not isinstance(argument, ValueRef):
            raise DeviceError(
                f"argument {position} of operator {operator.name!r} ({operator.target}) in unit"
                f" {self._unit.name!r} is not a tensor; the simulator has no model of that"
            )
        return self._values[argument.name]

    def result(self, operator: Operator) -> TensorSpec:
        return self._values[operator.outputs[0]]

    # Models by kind

    def convolution(self, operator: Operator) -> tuple[SimKernel, ...]:
        source, weight = self.operand(operator, 0), self.operand(operator, 1)
        result, traffic = self.result(operator), self.traffic(operator)
        groups = max(1, _integer(_argument(operator, 6, "groups", 1)))
        window = math.prod(weight.shape[2:])
        transposed = operator.target.startswith("aten.conv_transpose")
        if groups > 1 and weight.shape[1] == 1 and not transposed:
            size = result.nbytes // max(1, result.numel)
            return (streaming.depthwise(self._gpu, result.numel, float(window), size, traffic),)
        if transposed:
            # A product with every input pixel, whose results are added into overlapping windows.
            made = products.convolution(
                self._gpu,
                result.dtype,
                groups,
                max(1, source.shape[0] * math.prod(source.shape[2:])),
                math.prod(weight.shape[1:]),
                weight.shape[0] // groups,
                traffic,
            )
        else:
            tiles = 0
            if groups == 1 and weight.shape[2:] == (3, 3) and self._unit_stride(operator):
                squares = math.prod(math.ceil(side / 2) for side in result.shape[2:])
                tiles = result.shape[0] * squares
            made = products.convolution(
                self._gpu,
                result.dtype,
                groups,
                result.shape[0] * math.prod(result.shape[2:]),
                weight.shape[0] // groups,
                weight.shape[1] * window,
                traffic,
                tiles,
            )
        if operator.name in self._fusions or not has_bias(operator):
            return made
        return *made, self._bias(result)

    def _bias(self, result: TensorSpec) -> SimKernel:
        size = float(result.nbytes)
        work = float(result.numel)
        return streaming.pointwise(
            self._gpu, "add_bias", result.numel, work, Traffic(0.0, size, size)
        )

    @staticmethod
    def _unit_stride(operator: Operator) -> bool:
        stride, dilation = (
            _argument(operator, 3, "stride", 1),
            _argument(operator, 5, "dilation", 1),
        )
        return all(
            value == 1 or (isinstance(value, tuple) and set(value) == {1})
            for value in (stride, dilation)
        )

    def product(self, operator: Operator) -> tuple[SimKernel, ...]:
        added_first = operator.target in ("aten.addmm.default", "aten.baddbmm.default")
        first = self.operand(operator, 1 if added_first else 0)
        second = self.operand(operator, 2 if added_first else 1)
        result = self.result(operator)
        k = max(1, first.shape[-1])
        if operator.target == "aten.linear.default":
            batch, n = 1, second.shape[0]
        elif len(second.shape) <= 2:
            batch, n = 1, second.shape[-1] if len(second.shape) == 2 else 1
        else:
            batch, n = math.prod(result.shape[:-2]), result.shape[-1]
        m = max(1, result.numel // max(1, batch * n))
        return products.gemm(self._gpu, result.dtype, batch, m, n, k, self.traffic(operator))

    def attention(self, operator: Operator) -> tuple[SimKernel, ...]:
        query, key = self.operand(operator, 0), self.operand(operator, 1)
        return products.attention(
            self._gpu,
            query.dtype,
            math.prod(query.shape[:-2]),
            query.shape[-2],
            key.shape[-2],
            query.shape[-1],
            self.traffic(operator),
        )

    def pointwise(self, operator: Operator) -> tuple[SimKernel, ...]:
        work = float(flops(operator, self._values))
        elements = self.result(operator).numel
        return (
            streaming.pointwise(self._gpu, _name(operator), elements, work, self.traffic(operator)),
        )

    def copy(self, operator: Operator) -> tuple[SimKernel, ...]:
        """What is written, not all that could be read: a gather reads as much as it writes."""
        traffic, written = self.traffic(operator), 0.0
        for name in operator.outputs:
            written += self._values[name].nbytes
        read = min(traffic.weights, written), min(traffic.inputs, 2 * written)
        elements = sum(self._values[name].numel for name in operator.outputs)
        moved = Traffic(read[0], read[1], written)
        return (streaming.copy(self._gpu, _name(operator), elements, moved),)

    def concat(self, operator: Operator) -> tuple[SimKernel, ...]:
        elements, inputs = self.result(operator).numel, len(operator.inputs)
        return (streaming.concat(self._gpu, elements, inputs, self.traffic(operator)),)

    def pool(self, operator: Operator) -> tuple[SimKernel, ...]:
        result = self.result(operator)
        window = flops(operator, self._values) / max(1, result.numel)
        size = result.nbytes // max(1, result.numel)
        return (
            streaming.pooling(
                self._gpu, _name(operator), result.numel, window, size, self.traffic(operator)
            ),
        )

    def over_rows(self, operator: Operator) -> tuple[SimKernel, ...]:
        source, result = self.operand(operator, 0), self.result(operator)
        work = float(flops(operator, self._values)) / max(1, source.numel)
        kind = KINDS[operator.target]
        if operator.target.startswith("aten._native_batch_norm_legit_no_training"):
            return self.pointwise(operator)
        if kind == "reduction":
            length = max(1, source.numel // max(1, result.numel))
        elif "batch_norm" in operator.target:
            length = source.numel // max(1, source.shape[1])
        elif "group_norm" in operator.target:
            groups = self.operand(operator, 0).shape[0]
            length = source.numel // max(1, groups)
        elif kind == "softmax":
            dimension = _integer(_argument(operator, 1, "dim", -1))
            length = source.shape[dimension] if source.shape else 1
        else:
            length = source.shape[-1] if source.shape else 1
        count = max(1, source.numel // max(1, length))
        return (
            streaming.rows(self._gpu, _name(operator), count, length, work, self.traffic(operator)),
        )


def _argument(operator: Operator, position: int, name: str, default: Argument) -> Argument:
    if position < len(operator.arguments):
        return operator.arguments[position]
    return dict(operator.keywords).get(name, default)


def _integer(argument: Argument) -> int:
    return argument if isinstance(argument, int) else 1


def _name(operator: Operator) -> str:
    """``aten.max_pool2d.default`` → ``max_pool2d``."""
    return operator.target.split(".")[1]


_MODELS: dict[str, Callable[[_Unit, Operator], tuple[SimKernel, ...]]] = {
    "conv": _Unit.convolution,
    "linear": _Unit.product,
    "matmul": _Unit.product,
    "attention": _Unit.attention,
    "pool": _Unit.pool,
    "concat": _Unit.concat,
    "normalization": _Unit.over_rows,
    "softmax": _Unit.over_rows,
    "reduction": _Unit.over_rows,
    "activation": _Unit.pointwise,
    "elementwise": _Unit.pointwise,
    "embedding": _Unit.copy,
    "data": _Unit.copy,
}
