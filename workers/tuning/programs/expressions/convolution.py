"""Convolutions as tensor expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import te

from workers.tuning.program import Sizes
from workers.tuning.programs.expressions.common import (
    group_of,
    padded,
    placeholders,
    reduce_axis,
    with_epilogue,
)
from workers.tuning.programs.layouts import arranged, space_of

if TYPE_CHECKING:
    import tvm

    from workers.tuning.programs.convolution import Convolution


def convolution(described: Convolution, sizes: Sizes) -> tvm.tirx.PrimFunc:
    """The input padded, its windows times the filters, and what follows. Groups of a single input
    channel have no sum over channels."""
    geometry = described.geometry(sizes)
    (output,) = described.outputs(sizes)
    space = space_of(described.data)
    tensors = placeholders(described.inputs(sizes))
    data, filters, *bias = tensors

    around = dict(zip(f"NC{space}", (0, 0, *geometry.padding), strict=True))
    border = arranged(described.data, around)
    surrounded = padded(data, border, border, "padded")

    taps = [
        reduce_axis(extent, f"k{letter.lower()}")
        for letter, extent in zip(space, geometry.kernel, strict=True)
    ]
    channels = [reduce_axis(geometry.channels_read, "i")] if geometry.channels_read > 1 else []
    filters_per_group = geometry.out_channels // geometry.groups

    def at(*point: Any) -> Any:
        place = dict(zip(described.data, point, strict=True))
        channel = channels[0] if channels else 0
        read = {
            "N": place["N"],
            "C": group_of(place["C"], filters_per_group, geometry.groups) * geometry.channels_read
            + channel,
            **{
                letter: place[letter] * stride + tap * dilation
                for letter, tap, stride, dilation in zip(
                    space, taps, geometry.stride, geometry.dilation, strict=True
                )
            },
        }
        weight = {"O": place["C"], "I": channel, **dict(zip(space, taps, strict=True))}
        x = surrounded(*arranged(described.data, read))
        w = filters(*arranged(described.filters, weight))
        return te.sum(x.astype(output.dtype) * w.astype(output.dtype), [*channels, *taps])

    result = te.compute(output.shape, at, "convolution")
    result = with_epilogue(result, bias, sizes.get("relu", 0), described.data.index("C"))
    return te.create_prim_func([*tensors, result])
