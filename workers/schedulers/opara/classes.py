"""Which Units are compute-intensive; the others are memory-intensive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workers.graph.cost import bytes_of, flops
from workers.graph.graph import Operator, TensorSpec, Unit
from workers.graph.operators import is_kernel_free
from workers.graph.units import leading_operator
from workers.hardware.kernel import Kernel

COMPUTE_INTENSIVE = frozenset({"conv", "linear", "matmul", "attention"})
"""Kinds of Unit. The paper's "offline-collected operator table" (Section 3.3) is not printed; what
its text names agrees: Conv and Sgemm are compute-intensive, Relu, Add, To and Ones are not."""

_ARANGE = "aten.arange."
"""Compute-intensive according to Section 5.2, as little as it computes."""


def listed(unit: Unit) -> bool:
    """Whether the table says that the Unit is compute-intensive."""
    if unit.kind in COMPUTE_INTENSIVE:
        return True
    return leading_operator(unit.operators).target.startswith(_ARANGE)


def compute_bound(
    unit: Unit, kernels: Sequence[Kernel], values: Mapping[str, TensorSpec], ridge: float
) -> bool:
    """Whether arithmetic holds the Unit up rather than memory: its operations for each byte moved
    are more than ``ridge``, where a device's two ceilings meet.

    How long a kernel takes says nothing more about it, as both rates that it attains are its work
    over the same time. It does about a Unit whose operators each launch a kernel of their own: the
    Unit's intensity is that of one fused kernel then, which it is not. It is of the class in which
    its kernels spend the most time.
    """
    if len(kernels) > 1:
        launching = [o for o in unit.operators if not is_kernel_free(o.target)]
        if len(launching) == len(kernels):
            return _mostly_compute(launching, kernels, values, ridge)
    return unit.flops > ridge * unit.bytes_moved


def _mostly_compute(
    operators: Sequence[Operator],
    kernels: Sequence[Kernel],
    values: Mapping[str, TensorSpec],
    ridge: float,
) -> bool:
    times = {True: 0.0, False: 0.0}
    for operator, kernel in zip(operators, kernels, strict=True):
        moved = bytes_of((*operator.inputs, *operator.outputs), values)
        times[flops(operator, values) > ridge * moved] += kernel.duration_ms
    return times[True] > times[False]
