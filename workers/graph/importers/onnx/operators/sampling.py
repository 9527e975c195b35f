"""Sampling images at places that are given or computed: grids and regions of interest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import onnx_operator
from workers.graph.importers.onnx.recorder import Value

_MODES = {"bilinear": 0, "linear": 0, "nearest": 1, "bicubic": 2, "cubic": 2}
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}
_CUBIC = _MODES["cubic"]


@onnx_operator("GridSample")
def _grid_sample(n: Node) -> Value:
    axes = n[0].rank - 2
    mode, padding = n.text("mode", "linear"), n.text("padding_mode", "zeros")
    for name, known in ((mode, _MODES), (padding, _PADDING)):
        if name not in known:
            raise n.refuse(f"sampling by {name!r}; known are {', '.join(known)}")
    if axes not in (2, 3) or (axes == 3 and _MODES[mode] == _CUBIC):
        raise n.refuse(f"{mode} sampling over {axes} axes; 2 are supported, or 3 but for cubic")
    corners = bool(n.integer("align_corners", 0))
    target = f"grid_sampler_{axes}d.default"
    return n.call(target, n[0], n[1], _MODES[mode], _PADDING[padding], corners)


@onnx_operator("AffineGrid")
def _affine_grid(n: Node) -> Value:
    """Places (batch, …, axes) that a matrix (batch, axes, axes + 1) makes of an even grid's."""
    theta, (batch, _, *sizes) = n[0], n.known_ints(1)
    corners = bool(n.integer("align_corners", 0))
    grid = torch.meshgrid(*(_even(size, corners) for size in sizes), indexing="ij")
    points = torch.stack([*reversed(grid), torch.ones(sizes, dtype=torch.float64)], dim=-1)
    rows = Value(points.reshape(math.prod(sizes), len(sizes) + 1).to(theta.dtype))
    moved = n.call("matmul.default", rows, n.call("transpose.int", theta, 1, 2))
    return n.reshape(moved, [batch, *sizes, len(sizes)])


def _even(size: int, corners: bool) -> Tensor:
    """Places from -1 to 1: of the elements' centres, or with ``corners`` ends included."""
    if corners:
        return torch.linspace(-1, 1, size, dtype=torch.float64)
    return (2 * torch.arange(size, dtype=torch.float64) + 1) / size - 1


@onnx_operator("RoiAlign")
def _roi_align(n: Node) -> Value:
    """Samples each region evenly, then takes the mean or maximum of each bin's samples.

    How many samples a bin has is given, or depends on the region: then regions must be constant.
    """
    x, regions, batch = n[0], n[1], n.cast(n[2], torch.int64)
    given = n.integer("sampling_ratio", 0)
    if given > 0:
        return _bins(n, x, regions, batch, (given, given))
    if not regions.constant:
        raise n.refuse(
            "a sampling_ratio that depends on the regions, which are computed; give it a "
            "sampling_ratio, such as 2"
        )
    wanted = _adaptive(n, regions.tensor)
    parts, order = [], []
    for samples in sorted(set(wanted)):
        places = [place for place, each in enumerate(wanted) if each == samples]
        chosen = Value(torch.tensor(places))
        part, images = (
            n.call("index_select.default", value, 0, chosen) for value in (regions, batch)
        )
        parts.append(_bins(n, x, part, images, samples))
        order += places
    if len(parts) == 1:
        return parts[0]
    back = Value(torch.argsort(torch.tensor(order)))
    return n.call("index_select.default", n.call("cat.default", parts, 0), 0, back)


def _half_pixel(n: Node) -> bool:
    default = "half_pixel" if n.version >= 16 else "output_half_pixel"
    return n.text("coordinate_transformation_mode", default) == "half_pixel"


def _pooled(n: Node) -> tuple[int, int]:
    return n.integer("output_height", 1), n.integer("output_width", 1)


def _adaptive(n: Node, regions: Tensor) -> list[tuple[int, int]]:
    """How many samples a bin of each region has along both axes: about one for each element."""
    extents = (regions[:, 2:] - regions[:, :2]) * n.number("spatial_scale", 1.0)
    if not _half_pixel(n):
        extents = extents.clamp(min=1.0)
    height, width = _pooled(n)
    counts = torch.ceil(extents / torch.tensor([width, height])).clamp(min=0).to(torch.int64)
    return [(int(y), int(x)) for x, y in counts.tolist()]


def _bins(n: Node, x: Value, regions: Value, batch: Value, samples: tuple[int, int]) -> Value:
    """(regions, channels, *pooled) of ``x`` (batch, channels, height, width)."""
    pooled = _pooled(n)
    channels, sizes = x.shape[1], x.shape[2:]
    if 0 in samples:
        return Value(torch.zeros(regions.shape[0], channels, *pooled, dtype=x.dtype))
    steps = [
        Value(((torch.arange(bins * count) + 0.5) / (bins * count)).to(regions.dtype))
        for bins, count in zip(pooled, samples, strict=True)
    ]
    scale, half = n.number("spatial_scale", 1.0), _half_pixel(n)
    maximum = n.text("mode", "avg") == "max"

    def points(regions: Tensor, *steps: Tensor) -> list[Tensor]:
        ends = regions * scale - 0.5 if half else regions * scale
        rows = _neighbours(ends[:, 1:2], ends[:, 3:4], steps[0], sizes[0], half)
        return [*rows, *_neighbours(ends[:, 0:1], ends[:, 2:3], steps[1], sizes[1], half)]

    def sampled(x: Tensor, batch: Tensor, *found: Tensor) -> Tensor:
        table = x.permute(0, 2, 3, 1).reshape(-1, channels)
        firsts = (batch * (sizes[0] * sizes[1])).reshape(-1, 1, 1)
        corners = []
        for row, of_row in zip(found[0:2], found[2:4], strict=True):
            for column, of_column in zip(found[4:6], found[6:8], strict=True):
                places = firsts + row[:, :, None] * sizes[1] + column[:, None, :]
                weights = of_row[:, :, None] * of_column[:, None, :]
                taken = table.index_select(0, places.reshape(-1))
                corners.append(taken * weights.reshape(-1, 1))
        return _combined(corners, batch.shape[0], pooled, samples, maximum)

    neighbours = n.recorder.trace(points, regions, *steps)
    (result,) = n.recorder.trace(sampled, x, batch, *neighbours)
    return result


def _neighbours(
    start: Tensor, end: Tensor, steps: Tensor, size: int, half: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The elements on both sides of each sample along an axis, and the weight of each.

    ``start`` and ``end`` are (regions, 1), the results (regions, samples). What lies more than one
    element outside the axis has no weight.
    """
    extent = end - start if half else (end - start).clamp(min=1.0)
    place = start + extent * steps
    within = ((place >= -1) & (place <= size)).to(place.dtype)
    place = place.clamp(0, size - 1)
    near = place.floor()
    far = (near + 1).clamp(max=size - 1)
    weight = place - near
    return near.to(torch.int64), far.to(torch.int64), (1 - weight) * within, weight * within


def _combined(
    corners: Sequence[Tensor],
    regions: int,
    pooled: tuple[int, int],
    samples: tuple[int, int],
    maximum: bool,
) -> Tensor:
    """ONNX takes the maximum of the four weighted neighbours too, not of their sums."""
    total = corners[0]
    for corner in corners[1:]:
        total = torch.maximum(total, corner) if maximum else total + corner
    split = total.reshape(regions, pooled[0], samples[0], pooled[1], samples[1], -1)
    bins = split.amax((2, 4)) if maximum else split.mean((2, 4))
    return bins.permute(0, 3, 1, 2)
