"""Convolutions of one, two and three dimensions: plain, grouped and depthwise, in their layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from workers.tuning.program import ProgramError, Sizes, TensorSpec
from workers.tuning.programs.described import family_of
from workers.tuning.programs.layouts import SPACE, arranged, space_of, transposed
from workers.tuning.programs.sizes import (
    check_at_least,
    check_elements,
    check_flags,
    check_int8_sum,
)

if TYPE_CHECKING:
    import tvm

    from workers.tuning.program import Array

FLAGS = ("bias", "relu")


class Grouping(Enum):
    """How input channels meet output channels."""

    NONE = "none"  # every one with every one
    GROUPS = "groups"  # within each of the `groups`
    DEPTHWISE = "depthwise"  # each with `multiplier` of its own


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution's sizes; tuples have one entry for each dimension of space."""

    batch: int
    in_channels: int
    out_channels: int
    groups: int
    extent: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def channels_read(self) -> int:
        """Input channels that an output channel depends on."""
        return self.in_channels // self.groups

    @property
    def window(self) -> tuple[int, ...]:
        """What a filter spans of its input."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def padded(self) -> tuple[int, ...]:
        """The input's extent with its padding."""
        return tuple(e + 2 * p for e, p in zip(self.extent, self.padding, strict=True))

    @property
    def output(self) -> tuple[int, ...]:
        """The result's extent; not positive where the filter is larger than the padded input."""
        return tuple(
            (padded - window) // stride + 1
            for padded, window, stride in zip(self.padded, self.window, self.stride, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Convolution:
    """A family of convolutions: the layouts of the data, which is also the result's, and of the
    filters. Of float32 a bias and a ReLU may follow; of int8 the result is int32.

    y[n, o, p] = Σ_{i, k} x[n, i, stride · p + dilation · k − padding] · w[o, i, k], a convolution
    as networks have it, where i runs over the channels of o's group.
    """

    data: str
    filters: str
    grouping: Grouping = Grouping.NONE
    dtype: str = "float32"

    @property
    def names(self) -> tuple[str, ...]:
        """Of its sizes, in their order."""
        space = [SPACE[letter] for letter in space_of(self.data)]
        each = [f"{what}_{axis}" for what in ("kernel", "stride") for axis in space]
        each_or_none = [f"{what}_{axis}" for what in ("padding", "dilation") for axis in space]
        channels = {
            Grouping.NONE: ["out_channels"],
            Grouping.GROUPS: ["out_channels", "groups"],
            Grouping.DEPTHWISE: ["multiplier"],
        }[self.grouping]
        return ("batch", "in_channels", *space, *channels, *each, *each_or_none, *self.flags)

    @property
    def flags(self) -> tuple[str, ...]:
        """What may follow."""
        return FLAGS if self.dtype == "float32" else ()

    def geometry(self, sizes: Sizes) -> Geometry:
        """The sizes by what they are of."""
        channels = sizes["in_channels"]

        def along(what: str) -> tuple[int, ...]:
            return tuple(sizes[what + SPACE[letter]] for letter in space_of(self.data))

        depthwise = self.grouping is Grouping.DEPTHWISE
        return Geometry(
            sizes["batch"],
            channels,
            channels * sizes["multiplier"] if depthwise else sizes["out_channels"],
            channels if depthwise else sizes.get("groups", 1),
            *(along(what) for what in ("", "kernel_", "stride_", "padding_", "dilation_")),
        )

    def check(self, sizes: Sizes) -> None:
        """Raises ProgramError if no such convolution exists."""
        padding = [name for name in self.names if name.startswith("padding_")]
        check_at_least(0, sizes, padding)
        check_flags(sizes, self.flags)
        check_at_least(1, sizes, (n for n in self.names if n not in (*padding, *self.flags)))
        geometry = self.geometry(sizes)
        for what in ("in_channels", "out_channels"):
            if sizes.get(what, 0) % geometry.groups and self.grouping is Grouping.GROUPS:
                raise ProgramError(
                    f"groups ({geometry.groups}) do not divide {what} ({sizes[what]})"
                )
        for letter, window, padded in zip(
            space_of(self.data), geometry.window, geometry.padded, strict=True
        ):
            if window > padded:
                raise ProgramError(
                    f"the kernel spans {window} of the {SPACE[letter]}, which is {padded} "
                    "with its padding"
                )
        check_elements(
            "the padded input", geometry.batch * geometry.in_channels * prod(geometry.padded)
        )
        if self.dtype == "int8":
            check_int8_sum(geometry.channels_read * prod(geometry.kernel))

    def inputs(self, sizes: Sizes) -> tuple[TensorSpec, ...]:
        geometry = self.geometry(sizes)
        space = space_of(self.data)
        data = dict(zip(f"NC{space}", self._sizes_of_data(geometry), strict=True))
        filters = dict(
            zip(
                f"OI{space}",
                (geometry.out_channels, geometry.channels_read, *geometry.kernel),
                strict=True,
            )
        )
        specs = [
            TensorSpec("x", arranged(self.data, data), self.dtype),
            TensorSpec("w", arranged(self.filters, filters), self.dtype),
        ]
        if sizes.get("bias"):
            specs.append(TensorSpec("b", (geometry.out_channels,), self.dtype))
        return tuple(specs)

    def outputs(self, sizes: Sizes) -> tuple[TensorSpec, ...]:
        geometry = self.geometry(sizes)
        shape = (geometry.batch, geometry.out_channels, *geometry.output)
        by_letter = dict(zip(f"NC{space_of(self.data)}", shape, strict=True))
        dtype = "int32" if self.dtype == "int8" else self.dtype
        return (TensorSpec("y", arranged(self.data, by_letter), dtype),)

    def flops(self, sizes: Sizes) -> int:
        """A bias is among those of the products, as they are one more than their sums."""
        geometry = self.geometry(sizes)
        results = geometry.batch * geometry.out_channels * prod(geometry.output)
        length = geometry.channels_read * prod(geometry.kernel)
        return results * (2 * length + sizes.get("relu", 0))

    def reference(self, sizes: Sizes, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """A product of the filters and the windows that they are laid on, group by group; in
        float64, which holds sums of int8's products without rounding."""
        geometry = self.geometry(sizes)
        space = space_of(self.data)
        x = transposed(inputs[0], self.data, f"CN{space}").astype(np.float64)
        w = transposed(inputs[1], self.filters, f"OI{space}").astype(np.float64)
        columns = _windows(x, geometry).reshape(
            geometry.groups, geometry.channels_read * prod(geometry.kernel), -1
        )
        y = w.reshape(geometry.groups, -1, columns.shape[1]) @ columns
        y = y.reshape(geometry.out_channels, -1)
        if sizes.get("bias"):
            y += inputs[2][:, np.newaxis]
        if sizes.get("relu"):
            y = np.maximum(y, 0)
        (spec,) = self.outputs(sizes)
        y = y.reshape(geometry.out_channels, geometry.batch, *geometry.output)
        found = transposed(y, f"CN{space}", self.data).astype(spec.dtype)
        return (np.ascontiguousarray(found),)

    def prim_func(self, sizes: Sizes) -> tvm.tirx.PrimFunc:
        from workers.tuning.programs.expressions.convolution import (  # noqa: PLC0415
            convolution,
        )

        return convolution(self, sizes)

    @staticmethod
    def _sizes_of_data(geometry: Geometry) -> tuple[int, ...]:
        return (geometry.batch, geometry.in_channels, *geometry.extent)


def _windows(x: Array, geometry: Geometry) -> Array:
    """(channels, kernel …, batch, output …) of x, which is (channels, batch, extent …)."""
    dimensions = len(geometry.extent)
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in geometry.padding)])
    space = tuple(range(2, 2 + dimensions))
    windows = sliding_window_view(padded, geometry.window, axis=space)
    strides = tuple(slice(None, None, step) for step in geometry.stride)
    dilations = tuple(slice(None, None, step) for step in geometry.dilation)
    chosen = windows[(slice(None), slice(None), *strides, *dilations)]
    taps = tuple(range(2 + dimensions, 2 + 2 * dimensions))
    return chosen.transpose(0, *taps, 1, *space)


FAMILIES = (
    # In one and three dimensions groups are a size; in two they are families, as in Table 2.
    family_of(
        "conv1d_ncw",
        "1-D convolution, channels first",
        Convolution("NCW", "OIW", Grouping.GROUPS),
    ),
    family_of("conv1d_nwc", "1-D convolution, channels last", Convolution("NWC", "WIO")),
    family_of("conv2d_nchw", "2-D convolution, channels first", Convolution("NCHW", "OIHW")),
    family_of("conv2d_nhwc", "2-D convolution, channels last", Convolution("NHWC", "HWIO")),
    family_of("conv2d_hwcn", "2-D convolution, batch last", Convolution("HWCN", "HWIO")),
    family_of(
        "conv2d_int8",
        "2-D convolution of 8-bit integers, channels first",
        Convolution("NCHW", "OIHW", dtype="int8"),
    ),
    family_of(
        "conv3d_ncdhw",
        "3-D convolution, channels first",
        Convolution("NCDHW", "OIDHW", Grouping.GROUPS),
    ),
    family_of("conv3d_ndhwc", "3-D convolution, channels last", Convolution("NDHWC", "DHWIO")),
    family_of(
        "grouped_conv2d",
        "grouped 2-D convolution, channels first",
        Convolution("NCHW", "OIHW", Grouping.GROUPS),
    ),
    family_of(
        "depthwise_conv2d",
        "depthwise 2-D convolution, channels first",
        Convolution("NCHW", "OIHW", Grouping.DEPTHWISE),
    ),
)
