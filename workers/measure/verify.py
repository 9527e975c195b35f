"""Verification: a Plan must compute what the original model does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.devices.base import Device
from workers.graph.graph import Graph
from workers.schedules.plan import Plan

TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
}
"""Largest error allowed, relative to the largest magnitude in the expected output. Fusing and
reordering change the last bits of every operator, and those errors add up over a deep network;
other element types must agree exactly."""


@dataclass(frozen=True, slots=True)
class Case:
    """Inputs by name, and what the original model made of them, in the order of the outputs."""

    inputs: Mapping[str, Tensor]
    expected: Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class Verification:
    """``difference`` names the first output that differs and how; None if all cases agree.
    ``max_abs_error`` is the largest over all cases, infinite where no error can be told."""

    cases: int
    max_abs_error: float
    difference: str | None = None

    @property
    def passed(self) -> bool:
        return self.difference is None


def verify(
    device: Device,
    graph: Graph,
    weights: Mapping[str, Tensor],
    plan: Plan,
    cases: Sequence[Case],
    provider: str = "aten",
) -> Verification:
    """Run ``plan`` with the kernels of ``provider`` on every case. Raises ValueError without a case
    or for a case with another number of outputs, DeviceError if the Plan cannot run.

    NaN never passes, not even where the original has it too: it could hide anything. An infinity
    passes where the original has the same one.
    """
    if not cases:
        raise ValueError("nothing is verified by no cases")
    largest, difference = 0.0, None
    with device.prepare(graph, weights, plan, provider) as executable:
        for number, case in enumerate(cases):
            if len(case.expected) != len(graph.outputs):
                raise ValueError(
                    f"case {number} expects {len(case.expected)} outputs;"
                    f" graph {graph.name!r} has {len(graph.outputs)}"
                )
            outputs = executable.run(case.inputs)
            for name, expected in zip(graph.outputs, case.expected, strict=True):
                error, words = compare_outputs(outputs[name], expected)
                largest = max(largest, error)
                if words and difference is None:
                    difference = f"output {name!r} of case {number}: {words}"
    return Verification(len(cases), largest, difference)


def compare_outputs(actual: Tensor, expected: Tensor) -> tuple[float, str | None]:
    """The largest absolute error, and in words why it is too large, if it is."""
    if (words := _misfit(actual, expected)) is not None:
        return torch.inf, words
    if not expected.numel():
        return 0.0, None
    if expected.dtype.is_floating_point:
        return _float_error(actual, expected)
    error = float((actual.double() - expected.double()).abs().max())
    return error, f"it differs by {error:g}, no difference is allowed" if error else None


def _misfit(actual: Tensor, expected: Tensor) -> str | None:
    """Why no error can be told, if none can."""
    if actual.dtype != expected.dtype:
        return f"it is {actual.dtype}, expected {expected.dtype}"
    if actual.shape != expected.shape:
        return f"its shape is {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if actual.isnan().any():
        return "it has NaN"
    if expected.isnan().any():
        return "the original has NaN"
    return None


def _float_error(actual: Tensor, expected: Tensor) -> tuple[float, str | None]:
    finite = expected.isfinite()
    if not torch.equal(actual.isfinite(), finite) or not torch.equal(
        actual[~finite], expected[~finite]
    ):
        return torch.inf, "its infinities are not where the original's are"
    wide = expected[finite].double()
    if not wide.numel():
        return 0.0, None
    error = float((actual[finite].double() - wide).abs().max())
    allowed = TOLERANCE[expected.dtype] * float(wide.abs().max())
    return (
        error,
        f"it differs by {error:g}, at most {allowed:g} is allowed" if error > allowed else None,
    )
