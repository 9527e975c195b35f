"""A fused call is tried before it is used where nobody saw it run: on random values of its shapes,
against the operators that it stands for."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from workers.devices.cuda.precision import full_precision
from workers.graph.fused import PLAIN, FusedCall, UnitKernels
from workers.graph.graph import Graph, Operator, TensorSpec, Unit
from workers.graph.interpreter import compile_unit

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest error, relative to the largest magnitude that the plain operators give; other element
types must agree exactly. As in the verification of whole Plans."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Case:
    """A call and what it stands for, apart from the Unit that it was found in; ``values`` are all
    that its operators read and make, those that are weights also in ``weights``."""

    call: FusedCall
    operators: tuple[Operator, ...]
    values: tuple[tuple[str, TensorSpec], ...]
    weights: frozenset[str]
    device: str

    def graph(self) -> Graph:
        """The operators as a graph of one Unit."""
        made = {name for operator in self.operators for name in operator.outputs}
        given = [name for name, _ in self.values if name not in made]
        inputs = tuple(name for name in given if name not in self.weights)
        weights = tuple(name for name in given if name in self.weights)
        output = (self.call.output,)
        unit = Unit("trial", "trial", self.operators, inputs, weights, output, 0, 0)
        return Graph("trial", inputs, output, weights, dict(self.values), (unit,))


def tried(graph: Graph, unit: Unit, kernels: UnitKernels, device: str) -> UnitKernels:
    """``kernels`` without the calls that raise on ``device`` or give something else there; each of
    them is logged with the reason, once in a process."""
    kept = []
    for call in kernels.calls:
        stood = tuple(o for o in unit.operators if o.name in call.operators)
        names = dict.fromkeys(name for o in stood for name in (*o.inputs, *o.outputs))
        values = tuple((name, graph.values[name]) for name in names)
        weights = frozenset(name for name in names if name in unit.weights)
        if _fault(_Case(call, stood, values, weights, device)) is None:
            kept.append(call)
    return replace(kernels, calls=tuple(kept))


@lru_cache(maxsize=4096)  # stages of one graph are prepared many times
def _fault(case: _Case) -> str | None:
    """Why the call cannot be used; None if it can."""
    try:
        reason = _difference(case)
    except Exception as error:
        reason = (str(error).strip() or repr(error)).splitlines()[0]
    if reason is not None:
        _log.warning(
            "%s is not used for %s on %s: %.200s",
            case.call.name,
            " and ".join(case.call.operators),
            case.device,
            reason,
        )
    return reason


def _difference(case: _Case) -> str | None:
    generator = torch.Generator().manual_seed(0)
    graph = case.graph()
    (unit,) = graph.units
    values = {
        name: _random(graph.values[name], generator, case.device)
        for name in (*unit.inputs, *unit.weights)
    }
    results: list[Tensor] = []
    with torch.inference_mode(), full_precision():
        for kernels in (PLAIN, UnitKernels((case.call,))):
            weights = {name: values[name] for name in unit.weights}
            compiled = compile_unit(graph, unit, weights, kernels)
            results += compiled.function(*(values[name] for name in compiled.inputs))
    expected, found = results
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return f"it gives {found.dtype} {tuple(found.shape)}, which is not what they give"
    scale = max(1.0, float(expected.abs().max()))
    error = float((found.double() - expected.double()).abs().max()) / scale
    allowed = TOLERANCES.get(str(expected.dtype).removeprefix("torch."), 0.0)
    return None if error <= allowed else f"its relative error is {error:.2g} of {allowed:g} allowed"


def _random(spec: TensorSpec, generator: torch.Generator, device: str) -> Tensor:
    """Standard normal, smaller for a weight with many inputs, so that sums stay near one."""
    dtype = getattr(torch, spec.dtype)
    inputs = max(1, spec.numel // spec.shape[0]) if len(spec.shape) > 1 else 1
    values = torch.randn(spec.shape, generator=generator) / inputs**0.25
    made: Tensor = values.to(dtype).to(device)
    return made
