"""Images as columns of patches: Col2Im, and DeformConv, whose patches are bent."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import onnx_operator
from workers.graph.importers.onnx.operators.slicing import sliced
from workers.graph.importers.onnx.recorder import Value


@onnx_operator("Col2Im")
def _columns_to_image(n: Node) -> Value:
    """Adds up patches (batch, channels · patch, patches) where they came from, on any axes."""
    x, image, block = n[0], n.known_ints(1), n.known_ints(2)
    axes = len(image)
    dilations, strides = n.integers("dilations", [1] * axes), n.integers("strides", [1] * axes)
    pads = n.integers("pads", [0] * 2 * axes)
    before, after = pads[:axes], pads[axes:]
    if axes == 2 and before == after:
        return n.call("col2im.default", x, image, block, dilations, before, strides)
    grown = [sum(ends) for ends in zip(before, image, after, strict=True)]
    places = torch.zeros(1, 1, dtype=torch.int64)
    for size, length, dilation, stride in zip(grown, block, dilations, strides, strict=True):
        firsts = torch.arange(0, size - (length - 1) * dilation, stride)
        along = torch.arange(length).reshape(-1, 1) * dilation + firsts
        # (patch, patches) of the axes so far, by (length, firsts) of this one
        joined = (places * size)[:, None, :, None] + along[None, :, None, :]
        places = joined.reshape(places.shape[0] * length, places.shape[1] * len(firsts))
    batch, channels = x.shape[0], x.shape[1] // math.prod(block)
    columns = n.reshape(x, [batch * channels, places.numel()])
    empty = Value(torch.zeros(batch * channels, math.prod(grown), dtype=x.dtype))
    added = n.call("index_add.default", empty, 1, Value(places.reshape(-1)), columns)
    result = n.reshape(added, [batch, channels, *grown])
    for axis, (start, size) in enumerate(zip(before, image, strict=True), start=2):
        result = sliced(n, result, axis, start, start + size)
    return result


@onnx_operator("DeformConv")
def _deformed_convolution(n: Node) -> Value:
    """Each patch's elements are sampled at their own offsets, then it is a product of matrices
    (Dai et al., "Deformable Convolutional Networks", 2017; masks by Zhu et al., 2019)."""
    x, weight, offset, bias, mask = n[0], n[1], n[2], n.optional(3), n.optional(4)
    if x.rank != 4:
        raise n.refuse(f"a deformed convolution over {x.rank - 2} axes; 2 are supported")
    batch, channels, height, width = x.shape
    outputs, (rows, columns) = weight.shape[0], offset.shape[2:]
    parts, groups = n.integer("offset_group", 1), n.integer("group", 1)
    kernel = weight.shape[2] * weight.shape[3]
    # From an offset in elements to grid_sampler's coordinates, where -1 to 1 is the whole image.
    scale = torch.tensor([2 / height, 2 / width], dtype=torch.float64).reshape(2, 1, 1)
    undeformed = _places(n, weight.shape[2:], (rows, columns)) * scale + scale / 2 - 1
    moved = n.call(
        "addcmul.default", Value(undeformed.to(x.dtype)),
        n.reshape(offset, [batch * parts, kernel, 2, rows, columns]), Value(scale.to(x.dtype)),
    )  # fmt: skip
    pairs = n.call("permute.default", n.call("flip.default", moved, [2]), [0, 1, 3, 4, 2])
    grid = n.reshape(pairs, [batch * parts, kernel * rows, columns, 2])
    images = n.reshape(x, [batch * parts, channels // parts, height, width])
    bilinear, zeros = 0, 0
    patches = n.call("grid_sampler_2d.default", images, grid, bilinear, zeros, False)
    if mask is not None:
        shared = n.reshape(mask, [batch * parts, 1, kernel * rows, columns])
        patches = n.call("mul.Tensor", patches, shared)
    depth = channels // groups * kernel
    split = n.reshape(patches, [batch, groups, depth, rows * columns])
    matrices = n.reshape(weight, [groups, outputs // groups, depth])
    product = n.call("matmul.default", matrices, split)
    result = n.reshape(product, [batch, outputs, rows, columns])
    return result if bias is None else n.call("add.Tensor", result, n.reshape(bias, [-1, 1, 1]))


def _places(n: Node, kernel: tuple[int, ...], windows: tuple[int, ...]) -> Tensor:
    """Row and column of each element of each patch: (patch, 2, *windows), in double precision."""
    strides, dilations = n.integers("strides", [1, 1]), n.integers("dilations", [1, 1])
    pads = n.integers("pads", [0] * 4)
    along = [
        torch.arange(kernel[axis], dtype=torch.float64).reshape(-1, 1) * dilations[axis]
        + torch.arange(windows[axis], dtype=torch.float64) * strides[axis]
        - pads[axis]
        for axis in range(2)
    ]
    shape = (kernel[0], kernel[1], windows[0], windows[1])
    rows = along[0][:, None, :, None].expand(shape)
    columns = along[1][None, :, None, :].expand(shape)
    return torch.stack([rows, columns], dim=2).reshape(kernel[0] * kernel[1], 2, *windows)
