"""Resize and Upsample: what each result element takes along each axis.

Every mode is separable, so an axis is described by a few source elements and weights for each of
its results (``axis_taps``). Where ATen's own operators take the same ones, they are called, else
an axis is one gather or one product with a constant matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn.functional import interpolate

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.axis_taps import Axis, Resampling, Taps, taps
from workers.graph.importers.onnx.operators.registry import onnx_operator
from workers.graph.importers.onnx.recorder import Value

_ATEN = {
    ("nearest", 1): "upsample_nearest1d.vec", ("nearest", 2): "upsample_nearest2d.vec",
    ("nearest", 3): "upsample_nearest3d.vec", ("linear", 1): "upsample_linear1d.vec",
    ("linear", 2): "upsample_bilinear2d.vec", ("linear", 3): "upsample_trilinear3d.vec",
    ("cubic", 2): "upsample_bicubic2d.vec",
}  # fmt: skip
"""By mode and by the number of axes behind the batch and the channels."""

_FIRST = Resampling("nearest", coordinates="asymmetric", nearest="simple")
"""What Upsample and the first version of Resize do, apart from the mode."""

_PROBES = 4  # random signals, any one of which tells two resamplings apart


@onnx_operator("Upsample")
@onnx_operator("Resize", since=10)
def _by_scales(n: Node) -> Value:
    scales = [float(s) for s in n.get("scales")] if n.has("scales") else n.known(1).tolist()
    how = Resampling(_mode(n), _FIRST.coordinates, _FIRST.nearest)
    return _resized(n, how, [_scaled(size, s) for size, s in zip(n[0].shape, scales, strict=True)])


@onnx_operator("Resize", since=11)
def _resize(n: Node) -> Value:
    how = Resampling(
        _mode(n),
        coordinates=n.text("coordinate_transformation_mode", "half_pixel"),
        nearest=n.text("nearest_mode", "round_prefer_floor"),
        cubic_a=n.number("cubic_coeff_a", -0.75),
        exclude_outside=bool(n.integer("exclude_outside", 0)),
        antialias=bool(n.integer("antialias", 0)),
    )
    return _resized(n, how, _axes(n, how))


def _mode(n: Node) -> str:
    mode = n.text("mode", "nearest")
    return {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)


def _axes(n: Node, how: Resampling) -> list[Axis]:
    """All axes of the input, most of which keep their size, as scales or sizes say."""
    x = n[0]
    chosen = [n.on(axis, x.rank) for axis in n.integers("axes", list(range(x.rank)))]
    axes = [Axis(size, size, 1.0) for size in x.shape]
    lengths = [x.shape[axis] for axis in chosen]
    for axis, change in zip(chosen, _changes(n, lengths), strict=True):
        axes[axis] = change
    if how.coordinates == "tf_crop_and_resize":
        roi = [float(item) for item in n.known(1).tolist()]
        for axis, start, end in zip(chosen, roi[: len(chosen)], roi[len(chosen) :], strict=True):
            axes[axis] = Axis(axes[axis].size, axes[axis].target, axes[axis].scale, start, end)
    return axes


def _changes(n: Node, lengths: Sequence[int]) -> list[Axis]:
    if _is_given(n, 2):
        return [_scaled(size, s) for size, s in zip(lengths, n.known(2).tolist(), strict=True)]
    if not _is_given(n, 3):
        raise n.refuse("neither scales nor sizes; one of them must be given")
    sizes = n.known_ints(3)
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [Axis(a, b, b / a) for a, b in zip(lengths, sizes, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise n.refuse(f"keeping the aspect ratio by {policy!r}")
    choose = min if policy == "not_larger" else max
    scale = choose(size / length for size, length in zip(sizes, lengths, strict=True))
    return [Axis(length, math.floor(scale * length + 0.5), scale) for length in lengths]


def _is_given(n: Node, index: int) -> bool:
    """Whether an optional input is there; exporters also leave one out by an empty tensor."""
    value = n.optional(index)
    return value is not None and value.shape != (0,)


def _scaled(size: int, scale: float) -> Axis:
    """The size rounds down what a product of single precision comes to: 10 · 0.7 is 7."""
    product = torch.tensor(scale, dtype=torch.float32) * size
    return Axis(size, math.floor(product.item()), scale)


def _resized(n: Node, how: Resampling, axes: Sequence[Axis]) -> Value:
    x = n[0]
    fault = how.fault()
    if fault is not None:
        raise n.refuse(fault)
    shape = [axis.target for axis in axes]
    if math.prod(shape) == 0:
        return Value(torch.empty(shape, dtype=x.dtype))
    found = [taps(axis, how) for axis in axes]
    if all(of.keeps(axis.size) for of, axis in zip(found, axes, strict=True)):
        return _extrapolated(n, x, found)
    whole = not x.dtype.is_floating_point
    computed = n.cast(x, torch.float32) if whole and how.mode != "nearest" else x
    result = _by_aten(n, computed, how.mode, axes, found)
    if result is None:
        result = _by_axes(n, computed, how.mode, found)
    return _extrapolated(n, n.cast(result, x.dtype), found)


def _by_aten(
    n: Node, x: Value, mode: str, axes: Sequence[Axis], found: Sequence[Taps]
) -> Value | None:
    """All axes by one operator of ATen's that takes the same elements; None if there is none.

    It scales by the ratio of the sizes, or by a factor that need not be exactly that.
    """
    target = _ATEN.get((mode, x.rank - 2))
    kept = all(of.keeps(axis.size) for of, axis in zip(found[:2], axes, strict=False))
    if target is None or not kept or not x.dtype.is_floating_point:
        return None
    sizes, scales = [axis.target for axis in axes[2:]], [axis.scale for axis in axes[2:]]
    for scaled in (False, True):
        for corners in (None,) if mode == "nearest" else (False, True):
            if all(
                _same_as_aten(of, axis, mode, corners, scaled=scaled)
                for of, axis in zip(found[2:], axes[2:], strict=True)
            ):
                flags = [] if corners is None else [corners]
                size = (None, *flags, scales) if scaled else (sizes, *flags, None)
                return n.call(target, x, *size)
    return None


def _by_axes(n: Node, x: Value, mode: str, found: Sequence[Taps]) -> Value:
    """One axis after the other, but those that stay as they are."""
    last = x.rank - 1
    for place, of in enumerate(found):
        size = x.shape[place]
        if of.keeps(size):
            continue
        if mode == "nearest":
            x = n.call("index_select.default", x, place, Value(of.places[:, 0]))
            continue
        matrix = Value(of.matrix(size).to(x.dtype))
        moved = x if place == last else n.call("transpose.int", x, place, last)
        product = n.call("linear.default", moved, matrix)
        x = product if place == last else n.call("transpose.int", product, place, last)
    return x


def _extrapolated(n: Node, x: Value, found: Sequence[Taps]) -> Value:
    """``x``, but where any coordinate lies outside the input the value that the node gives."""
    if all(bool(of.inside.all()) for of in found):
        return x
    inside = torch.ones((), dtype=torch.bool)
    for place, of in enumerate(found):
        if not of.inside.all():
            inside = inside & of.inside.reshape(-1, *[1] * (x.rank - 1 - place))
    outside = n.number("extrapolation_value", 0.0)
    return n.call("where.self", Value(inside), x, n.constant(outside, x.dtype))


def _same_as_aten(of: Taps, axis: Axis, mode: str, corners: bool | None, *, scaled: bool) -> bool:
    """Whether ATen's operator takes the same elements with the same weights along an axis.

    Found by resampling random signals both ways, in double precision.
    """
    generator = torch.Generator().manual_seed(0)
    signals = torch.rand(1, _PROBES, 1, axis.size, dtype=torch.float64, generator=generator)
    planar = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
    theirs = interpolate(
        signals,
        size=None if scaled else (1, axis.target),
        scale_factor=(1.0, axis.scale) if scaled else None,
        mode=planar,
        align_corners=corners,
    )[0, :, 0]
    ours = (signals[0, :, 0][:, of.places] * of.weights).sum(2)
    return theirs.shape == ours.shape and torch.allclose(theirs, ours, rtol=0, atol=1e-9)
