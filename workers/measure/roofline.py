"""A device's ceilings, measured with two kernels that do little but compute or move data.

They are what a library's best kernels reach and not what a datasheet says, so that a kernel may
come out a little above: what is derived from them is an estimate. Like any measurement they are
taken once, and found in the ProfileIndex afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workers.devices.base import DeviceError
from workers.graph.graph import Graph, Operator, TensorSpec, ValueRef
from workers.graph.units import operator_units
from workers.hardware.roofline import Roofline
from workers.measure.measurement import Failure, Measurement

SIZE = 2048
"""Of the square matrices that are multiplied: 17 GFLOP, enough to fill any device."""

ELEMENTS = 1 << 25
"""Of the vectors that are added: 128 MiB each in float32, several times any last-level cache."""

COMPUTED = ("float32", "float16", "bfloat16", "float64")
"""Element types that products are measured in; for any other they are in float32."""


def product(dtype: str) -> Graph:
    """A matrix product, which is bound by arithmetic."""
    matrix = TensorSpec((SIZE, SIZE), dtype)
    return _graph("product", "aten.mm.default", matrix)


def addition(dtype: str) -> Graph:
    """An addition of two vectors, which is bound by memory: two are read and one is written."""
    return _graph("addition", "aten.add.Tensor", TensorSpec((ELEMENTS,), dtype))


def _graph(name: str, target: str, spec: TensorSpec) -> Graph:
    arguments = (ValueRef("left"), ValueRef("right"))
    return operator_units(
        name=name,
        inputs=("left", "right"),
        outputs=("out",),
        weights=(),
        values={"left": spec, "right": spec, "out": spec},
        operators=[Operator("out", target, arguments, (), ("out",))],
    )


def measured_roofline(dtype: str, measure: Callable[[Graph], Measurement]) -> Roofline:
    """The ceilings for ``dtype``; ``measure`` gives the latency of a graph of one Unit.

    Raises DeviceError if either kernel fails.
    """
    known = dtype if dtype in COMPUTED else "float32"
    rates: Mapping[str, float] = {
        kind: _per_second(graph, work, measure)
        for kind, graph, work in (
            ("flops", product(known), product(known).units[0].flops),
            ("bytes", addition(known), addition(known).units[0].bytes_moved),
        )
    }
    return Roofline(rates["flops"], rates["bytes"])


def _per_second(graph: Graph, work: int, measure: Callable[[Graph], Measurement]) -> float:
    found = measure(graph)
    if found.failure is Failure.BUDGET:
        raise DeviceError("no time of the budget was left to measure the device's ceilings")
    if found.failure is not None:
        raise DeviceError(f"the device's ceilings are unknown: {graph.name} failed: {found.reason}")
    return work / found.latency_ms * 1e3
