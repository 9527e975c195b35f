"""The provider ``onnxruntime``: each Unit made into an ONNX model and run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar

import torch
from torch import Tensor

from workers.devices.base import DeviceError
from workers.devices.providers.base import KernelProvider
from workers.graph.exporters.onnx import ExportError, OnnxUnit, export_unit
from workers.graph.graph import Graph, Unit
from workers.graph.interpreter import CompiledUnit

_QUIET = 4
"""Its log level at which only what ends the process is written."""

_SPIN_US = "1000"


class OnnxRuntimeProvider(KernelProvider):
    """One session of ONNX Runtime for each Unit, on a CPU. It keeps a whole network's values in the
    blocked layout that its convolutions want, so that it pays for Units of many operators; between
    small ones, values are brought from one layout to the other and back."""

    name: ClassVar[str] = "onnxruntime"

    def __init__(self, device: str) -> None:
        if torch.device(device).type != "cpu":
            raise DeviceError(f"the provider {self.name!r} runs on a CPU only, not on {device}")
        super().__init__(device)

    def onnx(self, graph: Graph, unit: Unit) -> OnnxUnit:
        try:
            return export_unit(graph, unit)
        except ExportError as error:
            raise DeviceError(f"unit {unit.name!r} has no form in ONNX: {error}") from error

    def compile(
        self, graph: Graph, unit: Unit, weights: Mapping[str, Tensor], threads: int
    ) -> CompiledUnit:
        exported = self.onnx(graph, unit)
        try:
            given = [weights[name] for name in exported.weights]
            function = _function(exported, given, threads, alone=len(graph.units) == 1)
        except Exception as error:
            reason = (str(error).strip() or repr(error)).splitlines()[0]
            raise DeviceError(
                f"unit {unit.name!r} cannot be run by ONNX Runtime: {reason}"
            ) from error
        digest = blake2b(exported.model, digest_size=16).hexdigest()
        return CompiledUnit(
            unit.name, exported.inputs, exported.outputs, function, kernel=f"{self.name}.{digest}"
        )


def _function(
    unit: OnnxUnit, weights: Sequence[Tensor], threads: int, alone: bool
) -> Callable[..., tuple[Tensor, ...]]:
    """The session as a function of tensors; the session reads the weights where they lie. Nothing
    else is in the graph of one that is ``alone``."""
    import onnxruntime  # noqa: PLC0415  # optional

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    options.intra_op_num_threads = threads
    # Its threads spin between operators. After the last they may for a moment where the next run
    # comes next, which finds them awake, and never where OpenMP's teams do: those took twice as
    # long beside them. Left to itself a session spins for tens of milliseconds.
    if alone:
        options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN_US)
    else:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    held = [weight.detach().contiguous().numpy() for weight in weights]
    names = [f"weight_{number}" for number in range(len(held))]
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in held]
    options.add_external_initializers(names, values)
    session = onnxruntime.InferenceSession(unit.model, options, providers=["CPUExecutionProvider"])
    inputs = [f"input_{number}" for number in range(len(unit.inputs))]
    outputs = [f"output_{number}" for number in range(len(unit.outputs))]

    def run(*tensors: Tensor, _held: Any = (held, values)) -> tuple[Tensor, ...]:
        given = {
            name: tensor.contiguous().numpy() for name, tensor in zip(inputs, tensors, strict=True)
        }
        return tuple(map(torch.from_numpy, session.run(outputs, given)))

    return run
