"""Correlation as a tensor expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import te

from workers.tuning.program import Sizes, TensorSpec
from workers.tuning.programs.correlation import displacements, output_extent
from workers.tuning.programs.expressions.common import padded, placeholders, reduce_axis

if TYPE_CHECKING:
    import tvm


def correlation(inputs: Sequence[TensorSpec], sizes: Sizes) -> tvm.tirx.PrimFunc:
    """Channel d of the result belongs to the displacement (d div n, d mod n) of n down and across,
    counted from the most negative one."""
    tensors = placeholders(inputs)
    border = (0, 0, sizes["padding"], sizes["padding"])
    first, second = (
        padded(tensor, border, border, f"{spec.name}_padded")
        for tensor, spec in zip(tensors, inputs, strict=True)
    )
    kernel, count = sizes["kernel"], displacements(sizes)
    stride, step = sizes["stride"], sizes["displacement_stride"]
    farthest = sizes["max_displacement"]
    lowest = farthest - farthest // step * step  # where the most negative displacement begins
    channel = reduce_axis(sizes["channels"], "i")
    taps = [reduce_axis(kernel, name) for name in ("kh", "kw")] if kernel > 1 else []
    down, right = taps or (0, 0)

    def at(n: Any, d: Any, y: Any, x: Any) -> Any:
        row, column = y * stride + down, x * stride + right
        moved_down = lowest + te.floordiv(d, count) * step
        moved_right = lowest + te.floormod(d, count) * step
        return te.sum(
            first(n, channel, row + farthest, column + farthest)
            * second(n, channel, row + moved_down, column + moved_right),
            [channel, *taps],
        )

    shape = (sizes["batch"], count**2, *output_extent(sizes))
    total = te.compute(shape, at, "products")
    length = sizes["channels"] * kernel**2
    mean = te.compute(shape, lambda *point: total(*point) / te.const(length, "float32"), "mean")
    return te.create_prim_func([*tensors, mean])
