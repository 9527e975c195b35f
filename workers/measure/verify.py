"""Verification: a Plan must compute what the original model does."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from workers.devices.base import Device
from workers.devices.cuda.precision import full_precision
from workers.graph.graph import Graph
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.measure.difference import explain_difference
from workers.measure.tolerance import TOLERANCE, compare_outputs
from workers.schedules.plan import Plan

__all__ = [
    "TOLERANCE", "Case", "Verification", "compare_outputs", "fresh_seeds", "reference_cases",
    "verify",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """Inputs by name, and what the original model made of them, in the order of the outputs.
    ``seed`` is that of the inputs, to make them again."""

    inputs: Mapping[str, Tensor]
    expected: Sequence[Tensor]
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """``difference`` names the first output that differs, how, and the Unit that is to blame; None
    if all cases agree. ``max_abs_error`` is the largest over all cases, infinite where no error
    can be told."""

    cases: int
    max_abs_error: float
    difference: str | None = None

    @property
    def passed(self) -> bool:
        return self.difference is None


def fresh_seeds(count: int) -> list[int]:
    """Seeds that nobody has seen before: a Plan that is right on known inputs only is wrong."""
    return [secrets.randbits(32) for _ in range(count)]


def reference_cases(
    graph: Graph, weights: Mapping[str, Tensor], seeds: Sequence[int]
) -> list[Case]:
    """Random inputs with what the reference interpreter makes of them, Unit after Unit: where there
    is no original model at hand."""
    cases = []
    for seed in seeds:
        inputs = random_inputs(graph, seed)
        outputs = run_graph(graph, weights, inputs)
        cases.append(Case(inputs, [outputs[name] for name in graph.outputs], seed))
    return cases


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

    The tolerance is that of ``workers.measure.tolerance``, without TF32; NaN never passes. For the
    first output that differs, the Unit that is wrong is searched for
    (``workers.measure.difference``).
    """
    if not cases:
        raise ValueError("nothing is verified by no cases")
    largest, difference = 0.0, None
    with full_precision(), device.prepare(graph, weights, plan, provider) as executable:
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
                    seed = "" if case.seed is None else f" (seed {case.seed})"
                    blame = explain_difference(
                        executable, graph, weights, plan, case.inputs, case.expected
                    )
                    difference = f"output {name!r} of case {number}{seed}: {words}; {blame}"
    return Verification(len(cases), largest, difference)
