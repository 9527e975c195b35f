"""Families that are made of a description, such as a convolution's layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from workers.tuning.program import Family, Sizes, TensorSpec
from workers.tuning.programs.workloads import WORKLOADS

if TYPE_CHECKING:
    import tvm

    from workers.tuning.program import Array


class Description(Protocol):
    """Computes what a Family tells of its sizes."""

    def check(self, sizes: Sizes) -> None: ...
    def inputs(self, sizes: Sizes) -> tuple[TensorSpec, ...]: ...
    def outputs(self, sizes: Sizes) -> tuple[TensorSpec, ...]: ...
    def flops(self, sizes: Sizes) -> int: ...
    def reference(self, sizes: Sizes, inputs: Sequence[Array]) -> tuple[Array, ...]: ...
    def prim_func(self, sizes: Sizes) -> tvm.tirx.PrimFunc: ...


def family_of(name: str, title: str, described: Description) -> Family:
    """The family that ``described`` is of, with its workloads."""
    return Family(
        name,
        title,
        described.inputs,
        described.outputs,
        described.reference,
        described.prim_func,
        described.flops,
        described.check,
        WORKLOADS[name],
    )
