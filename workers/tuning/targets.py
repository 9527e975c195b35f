"""What kernels are compiled for: TVM's targets as plain values, read without TVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tvm

KINDS = ("llvm", "cuda")


class TargetError(ValueError):
    """A target that kernels cannot be compiled for; the message says which there are."""


@dataclass(frozen=True, slots=True)
class KernelTarget:
    """TVM's target as the JSON of its attributes, so that it is stored and compared by value."""

    text: str

    @property
    def kind(self) -> str:
        """One of ``KINDS``."""
        return str(json.loads(self.text)["kind"])

    @property
    def architecture(self) -> str:
        """The GPU's, such as ``sm_90``; empty for a CPU."""
        return str(json.loads(self.text).get("arch", ""))

    def tvm(self) -> tvm.target.Target:
        """TVM's own. Raises ImportError where TVM is missing."""
        from workers.tuning.space import tvm_target  # noqa: PLC0415  # loads TVM

        return tvm_target(json.loads(self.text))


def target(attributes: Mapping[str, object]) -> KernelTarget:
    """The target of these attributes. Raises TargetError unless its kind is one of ``KINDS``."""
    if attributes.get("kind") not in KINDS:
        raise TargetError(
            f"kernels cannot be compiled for {attributes.get('kind')!r}, only for"
            f" {' and '.join(KINDS)}"
        )
    return KernelTarget(json.dumps(attributes, sort_keys=True))


def named_target(name: str) -> KernelTarget:
    """``llvm``: one core of the CPU that this process runs on, as several kernels are measured
    beside each other; ``cuda``: sm_90. Raises TargetError, and ImportError where TVM, which knows
    the CPU, is missing."""
    if name == "llvm":
        return target({"kind": "llvm", "num-cores": 1, "mcpu": _host_cpu()})
    if name == "cuda":
        return target({"kind": "cuda", "arch": "sm_90"})
    return target({"kind": name})


def _host_cpu() -> str:
    import_module("workers.tuning.space")  # says what to install where TVM is missing
    from tvm.target.codegen import llvm_get_system_cpu  # noqa: PLC0415  # an optional extra

    return str(llvm_get_system_cpu())
