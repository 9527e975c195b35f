"""Which alternatives there are, and to which models they apply. Needs no torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from workers.devices.base import DeviceError, DeviceFacts
from workers.graph.importers.source import ModelSource, ZooModel

ARTIFACT = "artifact"
"""The folder of what is delivered, among what its process is given."""


class AlternativeError(DeviceError):
    """An alternative that cannot be had, or no longer; the message is the reason, for users."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How an alternative runs a model. ``mode`` is ``torch.compile``'s, None for eager PyTorch;
    ``parallel`` is ONNX Runtime's execution mode for branches."""

    name: str
    runtime: Literal["torch", "onnxruntime"]
    mode: str | None = None
    parallel: bool = False

    @property
    def compiles(self) -> bool:
        """Whether it starts a compiler, and loads what that writes."""
        return self.mode is not None


_KINDS = (
    Kind("eager", "torch"),
    Kind("torch.compile", "torch", mode="default"),
    Kind("torch.compile max-autotune", "torch", mode="max-autotune"),
    Kind("onnxruntime", "onnxruntime"),
    Kind("onnxruntime parallel", "onnxruntime", parallel=True),
)
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _KINDS})
"""Every alternative by its name."""


def names(source: ModelSource, facts: DeviceFacts) -> tuple[str, ...]:
    """The alternatives of a model on a device: those that its users could run it with.

    A simulated device runs nothing but Plans. ``torch.compile`` does not take TorchScript, which
    its own compiler has made.
    """
    if facts.simulated or facts.kind not in ("cpu", "cuda"):
        return ()
    form = "zoo" if isinstance(source, ZooModel) else source.format
    if form in ("onnx", "onnx.zip"):
        return tuple(kind.name for kind in _KINDS if kind.runtime == "onnxruntime")
    torch = (kind for kind in _KINDS if kind.runtime == "torch")
    return tuple(kind.name for kind in torch if not (kind.compiles and form == "torchscript"))


def missing(kind: Kind) -> str | None:
    """What this machine lacks for the alternative, in words; None if nothing."""
    if kind.runtime == "onnxruntime" and importlib.util.find_spec("onnxruntime") is None:
        return "ONNX Runtime is not installed; install the Python package onnxruntime"
    if kind.compiles:
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            return (
                f"torch.compile needs a C++ compiler, and there is no {compiler}; install one, or "
                "name it in CXX"
            )
    return None


def out_of_memory(memory_bytes: int) -> str:
    """The reason where an alternative does not fit."""
    return (
        f"it takes more than {memory_bytes / 2**30:.1f} GiB of memory; use a smaller batch, or "
        "allow more (PLAIT_IMPORT_MEMORY_BYTES)"
    )
