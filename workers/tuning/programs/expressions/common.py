"""What the families' expressions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te

from workers.tuning.program import TensorSpec


def placeholders(specs: Sequence[TensorSpec]) -> list[te.Tensor]:
    """A kernel's inputs."""
    return [te.placeholder(spec.shape, spec.dtype, spec.name) for spec in specs]


def reduce_axis(extent: int, name: str) -> Any:
    """Counts from zero to ``extent`` within a sum."""
    return te.reduce_axis((0, extent), name)


def group_of(channel: Any, channels_per_group: int, groups: int) -> Any:
    """Which group an output channel is in. Of a single one this is no division of the channel, as
    what does not depend on it can be tiled better."""
    return te.floordiv(channel, channels_per_group) if groups > 1 else 0


def padded(tensor: te.Tensor, before: Sequence[int], after: Sequence[int], name: str) -> te.Tensor:
    """With so many zeros before and after it in each dimension; itself if there are none."""
    if not any((*before, *after)):
        return tensor
    shape = [
        int(extent) + first + last
        for extent, first, last in zip(tensor.shape, before, after, strict=True)
    ]

    def at(*point: Any) -> Any:
        inside = [
            condition
            for here, extent, first, last in zip(point, tensor.shape, before, after, strict=True)
            for condition in ([here >= first] * bool(first))
            + ([here < first + int(extent)] * bool(last))
        ]
        moved = [here - first for here, first in zip(point, before, strict=True)]
        return te.if_then_else(te.all(*inside), tensor(*moved), te.const(0, tensor.dtype))

    return te.compute(shape, at, name)


def with_epilogue(
    result: te.Tensor, bias: Sequence[te.Tensor], relu: int, channel: int
) -> te.Tensor:
    """``result`` plus the bias of each place along dimension ``channel``, if there is one, and
    what is positive of it, if ``relu`` says so."""
    if bias:
        (added,) = bias
        plain = result
        result = te.compute(
            plain.shape, lambda *point: plain(*point) + added(point[channel]), "biased"
        )
    if relu:
        before = result
        result = te.compute(
            before.shape, lambda *point: te.max(before(*point), te.const(0, before.dtype)), "relu"
        )
    return result
