"""Transposed convolutions as tensor expressions."""

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

if TYPE_CHECKING:
    import tvm

    from workers.tuning.programs.transposed import Transposed


def transposed_convolution(described: Transposed, sizes: Sizes) -> tvm.tirx.PrimFunc:
    """Place p of the result is at phase r = (p + padding) mod stride of the period
    q = (p + padding) div stride. It meets only the taps stride · j + r, at q − j of the input, so
    that each phase is a convolution of its own, and no zeros are multiplied as if the input was
    spread by the stride. Filters are filled up to a multiple of it.

    Periods and phases are dimensions of their own, laid out as the result afterwards: TVM tiles no
    sum whose operands are addressed by divisions.
    """
    (output,) = described.outputs(sizes)
    tensors = placeholders(described.inputs(sizes))
    data, filters, *bias = tensors
    strides, cuts = described.along("stride", sizes), described.along("padding", sizes)
    kernel, extent = described.along("kernel", sizes), described.extent(sizes)
    dimensions = len(kernel)

    rounds = [-(-taps // stride) for taps, stride in zip(kernel, strides, strict=True)]
    missing = [n * s - k for n, s, k in zip(rounds, strides, kernel, strict=True)]
    filled = padded(filters, [0] * (2 + dimensions), [0, 0, *missing], "filled")

    begin = [cut // s for cut, s in zip(cuts, strides, strict=True)]  # the first period
    periods = [
        (cut + size - 1) // s - first + 1
        for cut, size, s, first in zip(cuts, output.shape[2:], strides, begin, strict=True)
    ]
    before = [max(0, n - 1 - first) for n, first in zip(rounds, begin, strict=True)]
    after = [max(0, b + n - e) for b, n, e in zip(begin, periods, extent, strict=True)]
    surrounded = padded(data, [0, 0, *before], [0, 0, *after], "padded")

    in_group = sizes["in_channels"] // sizes["groups"]
    out_group = sizes["out_channels"] // sizes["groups"]
    channel = reduce_axis(in_group, "i")
    steps = [reduce_axis(n, f"j{axis[0]}") for n, axis in zip(rounds, described.axes, strict=True)]

    def phase(n: Any, o: Any, *point: Any) -> Any:
        group = group_of(o, out_group, sizes["groups"])
        source = group * in_group + channel
        places = [
            q + first - step + moved
            for q, first, step, moved in zip(point, begin, steps, before, strict=False)
        ]
        taps = [
            step * stride + r
            for r, stride, step in zip(point[dimensions:], strides, steps, strict=True)
        ]
        x = surrounded(n, source, *places)
        return te.sum(x * filled(source, o - group * out_group, *taps), [channel, *steps])

    phases = te.compute((*output.shape[:2], *periods, *strides), phase, "phases")

    def laid_out(n: Any, o: Any, *point: Any) -> Any:
        shifted = [
            p + cut - first * stride
            for p, cut, first, stride in zip(point, cuts, begin, strides, strict=True)
        ]
        q = [te.floordiv(place, stride) for place, stride in zip(shifted, strides, strict=True)]
        r = [te.floormod(place, stride) for place, stride in zip(shifted, strides, strict=True)]
        return phases(n, o, *q, *r)

    result = te.compute(output.shape, laid_out, "transposed_convolution")
    return te.create_prim_func([*tensors, with_epilogue(result, bias, sizes["relu"], 1)])
