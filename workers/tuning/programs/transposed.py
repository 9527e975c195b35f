"""Transposed convolutions, channels first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from workers.tuning.program import ProgramError, Sizes, TensorSpec
from workers.tuning.programs.described import family_of
from workers.tuning.programs.layouts import SPACE
from workers.tuning.programs.sizes import check_at_least, check_elements, check_flags

if TYPE_CHECKING:
    import tvm

    from workers.tuning.program import Array

FLAGS = ("bias", "relu")


@dataclass(frozen=True, slots=True)
class Transposed:
    """A family of transposed convolutions over ``space``, letters of DHW: what a convolution's
    gradient with respect to its input is. Filters are (in_channels, out_channels / groups, kernel).

    y[n, o, stride · p + k − padding] += x[n, i, p] · w[i, o, k] for all p and k, and for all i of
    o's group. ``output_padding`` rows more than the smallest result that a convolution of this
    stride would take to x.
    """

    space: str

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(SPACE[letter] for letter in self.space)

    @property
    def _padding(self) -> list[str]:
        return [f"{what}_{axis}" for what in ("padding", "output_padding") for axis in self.axes]

    @property
    def _counts(self) -> list[str]:
        each = [f"{what}_{axis}" for what in ("kernel", "stride") for axis in self.axes]
        return ["batch", "in_channels", *self.axes, "out_channels", "groups", *each]

    def along(self, what: str, sizes: Sizes) -> tuple[int, ...]:
        """The sizes called ``what`` of each dimension of space."""
        return tuple(sizes[f"{what}_{axis}"] for axis in self.axes)

    def extent(self, sizes: Sizes) -> tuple[int, ...]:
        """Of the input's space."""
        return tuple(sizes[axis] for axis in self.axes)

    def spanned(self, sizes: Sizes) -> tuple[int, ...]:
        """Of the result's space before its borders are cut off."""
        steps = zip(
            self.extent(sizes), self.along("stride", sizes), self.along("kernel", sizes),
            strict=True,
        )  # fmt: skip
        return tuple((extent - 1) * stride + kernel for extent, stride, kernel in steps)

    def output(self, sizes: Sizes) -> tuple[int, ...]:
        """Of the result's space."""
        borders = zip(
            self.spanned(sizes), self.along("padding", sizes), self.along("output_padding", sizes),
            strict=True,
        )  # fmt: skip
        return tuple(spanned - 2 * cut + more for spanned, cut, more in borders)

    def check(self, sizes: Sizes) -> None:
        """Raises ProgramError if no such transposed convolution exists."""
        check_at_least(0, sizes, self._padding)
        check_flags(sizes, FLAGS)
        check_at_least(1, sizes, self._counts)
        for what in ("in_channels", "out_channels"):
            if sizes[what] % sizes["groups"]:
                raise ProgramError(
                    f"groups ({sizes['groups']}) do not divide {what} ({sizes[what]})"
                )
        for axis, extent in zip(self.axes, self.output(sizes), strict=True):
            if sizes[f"output_padding_{axis}"] >= sizes[f"stride_{axis}"]:
                raise ProgramError(
                    f"output_padding_{axis} is {sizes[f'output_padding_{axis}']}, it must be less "
                    f"than stride_{axis}, which is {sizes[f'stride_{axis}']}"
                )
            if extent < 1:
                raise ProgramError(f"padding_{axis} leaves nothing of the result's {axis}")
        check_elements(
            "the result before its borders are cut off",
            sizes["batch"] * sizes["out_channels"] * prod(self.spanned(sizes)),
        )

    def inputs(self, sizes: Sizes) -> tuple[TensorSpec, ...]:
        data = (sizes["batch"], sizes["in_channels"], *self.extent(sizes))
        per_group = sizes["out_channels"] // sizes["groups"]
        filters = (sizes["in_channels"], per_group, *self.along("kernel", sizes))
        bias = [TensorSpec("b", (sizes["out_channels"],), "float32")] * sizes["bias"]
        return (TensorSpec("x", data, "float32"), TensorSpec("w", filters, "float32"), *bias)

    def outputs(self, sizes: Sizes) -> tuple[TensorSpec, ...]:
        shape = (sizes["batch"], sizes["out_channels"], *self.output(sizes))
        return (TensorSpec("y", shape, "float32"),)

    def flops(self, sizes: Sizes) -> int:
        """Every input element meets the filters of its channel, also where the result is cut."""
        x, w = self.inputs(sizes)[:2]
        (y,) = self.outputs(sizes)
        return 2 * prod(x.shape) * prod(w.shape[1:]) + sizes["relu"] * prod(y.shape)

    def reference(self, sizes: Sizes, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Each tap of the kernel adds a product of its own to every stride-th result, in float64;
        then the borders are cut off."""
        groups, batch = sizes["groups"], sizes["batch"]
        extent, kernel = self.extent(sizes), self.along("kernel", sizes)
        strides, cuts = self.along("stride", sizes), self.along("padding", sizes)
        x = inputs[0].astype(np.float64).reshape(batch, groups, -1, prod(extent))
        w = inputs[1].astype(np.float64).reshape(groups, x.shape[2], -1, prod(kernel))
        output = self.output(sizes)
        room = [max(s, c + o) for s, c, o in zip(self.spanned(sizes), cuts, output, strict=True)]
        y = np.zeros((batch, sizes["out_channels"], *room))
        for number, tap in enumerate(product(*map(range, kernel))):
            filters = w[..., number].swapaxes(1, 2)
            reached = (
                slice(k, k + stride * (e - 1) + 1, stride)
                for k, stride, e in zip(tap, strides, extent, strict=True)
            )
            y[(slice(None), slice(None), *reached)] += (filters @ x).reshape(batch, -1, *extent)
        kept = (slice(c, c + o) for c, o in zip(cuts, output, strict=True))
        y = y[(slice(None), slice(None), *kept)]
        if sizes["bias"]:
            y += inputs[2].reshape(-1, *[1] * len(kernel))
        if sizes["relu"]:
            y = np.maximum(y, 0)
        return (y.astype(np.float32),)

    def prim_func(self, sizes: Sizes) -> tvm.tirx.PrimFunc:
        from workers.tuning.programs.expressions.transposed import (  # noqa: PLC0415
            transposed_convolution,
        )

        return transposed_convolution(self, sizes)


FAMILIES = (
    family_of("tconv1d_ncw", "transposed 1-D convolution, channels first", Transposed("W")),
    family_of("tconv2d_nchw", "transposed 2-D convolution, channels first", Transposed("HW")),
    family_of("tconv3d_ncdhw", "transposed 3-D convolution, channels first", Transposed("DHW")),
)
