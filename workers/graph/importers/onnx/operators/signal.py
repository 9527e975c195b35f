"""Fourier transforms: a Graph knows no complex numbers, so they are products with matrices of
cosines and sines; and the filters of mel spectrograms."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import onnx_operator
from workers.graph.importers.onnx.recorder import Value
from workers.graph.importers.onnx.tensors import dtype_of

_MOST_ELEMENTS = 1 << 26  # of a matrix; 256 MiB in single precision


@onnx_operator("DFT", since=17)
def _dft_of_attribute(n: Node) -> Value:
    return _dft(n, n.axis("axis", n[0].rank, 1))


@onnx_operator("DFT", since=20)
def _dft_of_input(n: Node) -> Value:
    axis = n.known_ints(2)[0] if n.optional(2) is not None else -2
    return _dft(n, n.on(axis, n[0].rank))


def _dft(n: Node, axis: int) -> Value:
    """Along ``axis`` of (…, parts), where a complex number has two parts and a real one has one."""
    x, last = n[0], n[0].rank - 2
    if axis > last:
        raise n.refuse("a transform along the axis that holds real and imaginary parts")
    size, parts = x.shape[axis], x.shape[-1]
    inverse, onesided = bool(n.integer("inverse", 0)), bool(n.integer("onesided", 0))
    default = 2 * (size - 1) if inverse and onesided else size
    length = n.known_ints(1)[0] if n.optional(1) is not None else default
    _check(n, size * parts, 2 * length)
    if inverse and onesided:
        matrix = _real_inverse(size, parts, length)
    else:
        matrix = _transform(size, parts, length, inverse=inverse, onesided=onesided)
    moved = x if axis == last else n.call("transpose.int", x, axis, last)
    result = _product(n, moved, matrix)
    return result if axis == last else n.call("transpose.int", result, axis, last)


@onnx_operator("STFT")
def _stft(n: Node) -> Value:
    """Transforms of the windows that begin at every ``frame_step``."""
    x, step, window = n[0], n.known_ints(1)[0], n.optional(2)
    batch, size, parts = x.shape if x.rank == 3 else (*x.shape, 1)
    default = size if window is None else window.shape[0]
    length = n.known_ints(3)[0] if n.optional(3) is not None else default
    if window is not None and window.shape != (length,):
        raise n.refuse(f"a window of {list(window.shape)} for frames of length {length}")
    if not 0 < length <= size or step <= 0:
        raise n.refuse(f"frames of length {length} every {step} of a signal of length {size}")
    _check(n, length * parts, 2 * length)
    matrix = _transform(length, parts, length, onesided=bool(n.integer("onesided", 1)))
    frames = n.call("unfold.default", n.reshape(x, [batch, size, parts]), 1, length, step)
    frames = n.call("transpose.int", frames, 2, 3)  # (batch, frames, length, parts)
    if window is not None and window.constant:
        matrix = matrix * window.tensor.to(matrix.dtype).reshape(-1, 1, 1, 1)
    elif window is not None:
        frames = n.call("mul.Tensor", frames, n.reshape(window, [length, 1]))
    return _product(n, frames, matrix)


def _check(n: Node, rows: int, columns: int) -> None:
    if rows * columns > _MOST_ELEMENTS:
        raise n.refuse(
            f"a transform by a matrix of {rows} by {columns}; at most {_MOST_ELEMENTS} elements "
            "are supported: transform shorter frames"
        )


def _product(n: Node, x: Value, matrix: Tensor) -> Value:
    """``x`` (…, size, parts) times ``matrix`` (size, parts, results, parts of a result)."""
    size, parts, results, result_parts = matrix.shape
    flat = n.reshape(x, [*x.shape[:-2], size * parts])
    weight = matrix.reshape(size * parts, results * result_parts).t().contiguous()
    product = n.call("linear.default", flat, Value(weight.to(x.dtype)))
    return n.reshape(product, [*x.shape[:-2], results, result_parts])


def _angles(rows: int, columns: int, length: int) -> Tensor:
    """2π · row · column / length, reduced before it loses precision."""
    turns = torch.outer(torch.arange(rows), torch.arange(columns)) % length
    return turns.to(torch.float64) * (2 * math.pi / length)


def _transform(
    size: int, parts: int, length: int, *, inverse: bool = False, onesided: bool = False
) -> Tensor:
    """(size, parts, results, 2) from the first ``size`` of ``length`` numbers to their transform;
    numbers beyond ``length`` do not count."""
    results = length // 2 + 1 if onesided else length
    angles, sign = _angles(size, results, length), 1 if inverse else -1
    cosine, sine = torch.cos(angles), torch.sin(angles) * sign
    real, imaginary = torch.stack([cosine, sine], -1), torch.stack([-sine, cosine], -1)
    matrix = torch.stack([real, imaginary][:parts], 1)
    matrix[length:] = 0
    return matrix / length if inverse else matrix


def _real_inverse(size: int, parts: int, length: int) -> Tensor:
    """(size, parts, length, 1) from the first half of a transform to the real numbers that it is
    of: all but the first frequency, and the middle one, stand for their conjugate too."""
    angles = _angles(size, length, length)
    counted = torch.full((size, 1), 2.0, dtype=torch.float64)
    counted[0] = 1
    if length % 2 == 0:
        counted[length // 2 : length // 2 + 1] = 1
    counted[length // 2 + 1 :] = 0
    both = [torch.cos(angles) * counted, -torch.sin(angles) * counted]
    return torch.stack(both[:parts], 1)[..., None] / length


@onnx_operator("MelWeightMatrix")
def _mel_weight_matrix(n: Node) -> Value:
    """(dft_length // 2 + 1, mel bins): triangles, evenly spaced on the mel scale.

    Their corners are rounded to bins of the transform, as ONNX's reference does.
    """
    bins, length, rate = (n.known_ints(index)[0] for index in range(3))
    mels = [2595 * math.log10(1 + float(n.known(index)) / 700) for index in (3, 4)]
    step = (mels[1] - mels[0]) / (bins + 2)
    corners = [
        math.floor((length + 1) * 700 * (10 ** ((mels[0] + step * place) / 2595) - 1) / rate)
        for place in range(bins + 2)
    ]
    matrix = torch.zeros(length // 2 + 1, bins, dtype=torch.float64)
    for place in range(bins):
        low, centre, high = corners[place : place + 3]
        if low < centre:
            matrix[low : centre + 1, place] = torch.arange(centre - low + 1) / (centre - low)
        else:
            matrix[centre, place] = 1
        if centre < high:
            falling = torch.arange(high - centre, 0, -1, dtype=torch.float64) / (high - centre)
            matrix[centre:high, place] = falling
    return Value(matrix.to(dtype_of(n.integer("output_datatype", 1), "its result")))
