"""Correlation of two images' features (Dosovitskiy et al. 2015, FlowNet, Section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from workers.tuning.program import Family, ProgramError, Sizes, TensorSpec
from workers.tuning.programs.sizes import check_at_least, check_elements
from workers.tuning.programs.workloads import WORKLOADS

if TYPE_CHECKING:
    import tvm

    from workers.tuning.program import Array

_COUNTS = ("batch", "channels", "height", "width", "kernel", "stride", "displacement_stride")


def displacements(sizes: Sizes) -> int:
    """How many patches of the second image each of the first meets along one dimension."""
    return 2 * (sizes["max_displacement"] // sizes["displacement_stride"]) + 1


def output_extent(sizes: Sizes) -> tuple[int, int]:
    """Places of the first image that are compared, down and across: those whose patch and all that
    it meets are within the padded images."""
    border = 2 * sizes["max_displacement"] + sizes["kernel"]
    height, width = (sizes[axis] + 2 * sizes["padding"] - border for axis in ("height", "width"))
    return height // sizes["stride"] + 1, width // sizes["stride"] + 1


def _check(sizes: Sizes) -> None:
    check_at_least(1, sizes, _COUNTS)
    check_at_least(0, sizes, ("max_displacement", "padding"))
    if sizes["kernel"] % 2 == 0:
        raise ProgramError(f"kernel is {sizes['kernel']}; a patch with a centre has an odd size")
    if min(output_extent(sizes)) < 1:
        raise ProgramError(
            f"patches of {sizes['kernel']} that move by {sizes['max_displacement']} each way are "
            f"larger than images of {sizes['height']} by {sizes['width']} with a padding of "
            f"{sizes['padding']}"
        )
    padded = [sizes[axis] + 2 * sizes["padding"] for axis in ("height", "width")]
    check_elements("a padded image", sizes["batch"] * sizes["channels"] * padded[0] * padded[1])


def _inputs(sizes: Sizes) -> tuple[TensorSpec, ...]:
    shape = tuple(sizes[name] for name in ("batch", "channels", "height", "width"))
    return (TensorSpec("first", shape, "float32"), TensorSpec("second", shape, "float32"))


def _outputs(sizes: Sizes) -> tuple[TensorSpec, ...]:
    shape = (sizes["batch"], displacements(sizes) ** 2, *output_extent(sizes))
    return (TensorSpec("y", shape, "float32"),)


def _flops(sizes: Sizes) -> int:
    """The mean's division is one with the products, which are one more than their sums."""
    height, width = output_extent(sizes)
    results = sizes["batch"] * displacements(sizes) ** 2 * height * width
    return results * 2 * sizes["channels"] * sizes["kernel"] ** 2


def _reference(sizes: Sizes, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """For each displacement the second image is moved, multiplied and averaged over channels; then
    patches are averaged. In float64."""
    padding, farthest = sizes["padding"], sizes["max_displacement"]
    step, kernel, stride = sizes["displacement_stride"], sizes["kernel"], sizes["stride"]
    border = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    first, second = (np.pad(given.astype(np.float64), border) for given in inputs)
    height, width = (extent - 2 * farthest for extent in first.shape[2:])
    centre = first[:, :, farthest : farthest + height, farthest : farthest + width]
    radius = farthest // step
    shifts = [farthest + step * moved for moved in range(-radius, radius + 1)]
    found = []
    for down in shifts:
        for right in shifts:
            moved = second[:, :, down : down + height, right : right + width]
            means = np.einsum("nchw,nchw->nhw", centre, moved) / sizes["channels"]
            patches = sliding_window_view(means, (kernel, kernel), axis=(1, 2))
            found.append(patches[:, ::stride, ::stride].mean(axis=(-2, -1)))
    return (np.stack(found, axis=1).astype(np.float32),)


def _prim_func(sizes: Sizes) -> tvm.tirx.PrimFunc:
    from workers.tuning.programs.expressions.correlation import correlation  # noqa: PLC0415

    return correlation(_inputs(sizes), sizes)


FAMILIES = (
    Family(
        "correlation_nchw",
        "correlation of two images' features, channels first",
        _inputs,
        _outputs,
        _reference,
        _prim_func,
        _flops,
        _check,
        WORKLOADS["correlation_nchw"],
    ),
)
