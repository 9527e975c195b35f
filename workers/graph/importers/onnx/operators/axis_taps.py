"""Which elements of an axis each element of the resized axis is made of, and with which weights.

The coordinates and filters are those that ONNX defines for Resize.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
_RADIUS: Mapping[str, int] = MappingProxyType({"linear": 1, "cubic": 2})


@dataclass(frozen=True)
class Axis:
    """``size`` elements become ``target``, by ``scale``, which need not be their exact ratio.

    ``start`` and ``end`` say which part of the axis is resized, as parts of its length.
    """

    size: int
    target: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True)
class Resampling:
    """How all axes are resized, in ONNX's words."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False

    def fault(self) -> str | None:
        """What of it is not known, in words; None if all is."""
        for name, value, known in (
            ("mode", self.mode, _MODES),
            ("coordinate_transformation_mode", self.coordinates, _COORDINATES),
            ("nearest_mode", self.nearest, tuple(_ROUNDING)),
        ):
            if value not in known:
                return f"the {name} {value!r}; known are {', '.join(known)}"
        return None


@dataclass(frozen=True, eq=False)
class Taps:
    """Element i of the result is Σₖ weights[i, k] · x[places[i, k]]; both are (target, taps).

    ``inside`` (target) says whether the coordinate lies within the axis, where that matters.
    """

    places: Tensor
    weights: Tensor
    inside: Tensor

    def keeps(self, size: int) -> bool:
        """Whether the result is the axis as it is."""
        if len(self.places) != size:
            return False
        own = self.places == torch.arange(size)[:, None]
        return bool((self.weights.where(own, 0).sum(1) == 1).all()) and not bool(
            self.weights.where(~own, 0).any()
        )

    def matrix(self, size: int) -> Tensor:
        """(target, size), whose product with the axis is the result."""
        zeros = torch.zeros(len(self.places), size, dtype=self.weights.dtype)
        return zeros.scatter_add(1, self.places, self.weights)


def taps(axis: Axis, how: Resampling) -> Taps:
    """The taps of one axis. Weights are of double precision.

    Which element is nearest is decided in single precision as ONNX Runtime does, for there 3 / 0.6
    is 5 while with the same single-precision scale in double precision it lies below.
    """
    if how.mode == "nearest":
        x = _coordinates(axis, how.coordinates, torch.float32)
        nearest = _ROUNDING[how.nearest](x, axis.scale).to(torch.int64)
        places = nearest.clamp(0, axis.size - 1)[:, None]
        return Taps(places, torch.ones(places.shape, dtype=torch.float64), _inside(x, axis, how))
    x = _coordinates(axis, how.coordinates, torch.float64)
    first = torch.floor(x)
    radius, shrunk = _RADIUS[how.mode], min(axis.scale, 1.0) if how.antialias else 1.0
    start = math.floor(-radius / shrunk) + 1
    offsets = torch.arange(start, 2 - start, dtype=torch.float64)
    distances = (offsets - (x - first)[:, None]).abs() * shrunk
    weights = 1 - distances if how.mode == "linear" else _cubic(distances, how.cubic_a)
    weights = weights.where(distances < radius, 0.0)
    wanted = first[:, None] + offsets
    if how.exclude_outside:
        weights = weights.where((wanted >= 0) & (wanted < axis.size), 0.0)
    weights = weights / weights.sum(1, keepdim=True)
    places = wanted.clamp(0, axis.size - 1).to(torch.int64)
    return Taps(places, weights, _inside(x, axis, how))


def _cubic(distance: Tensor, a: float) -> Tensor:
    """Keys' cubic convolution kernel (1981) for distances below 2."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return near.where(distance <= 1, far)


def _coordinates(axis: Axis, name: str, dtype: torch.dtype) -> Tensor:
    """Where each result element lies on the axis, whose elements lie at 0, 1, ….

    The result's length is scale · size where ONNX says so, which a rounded target is not. An axis
    that is not resized stays as it is, even where the formula (``tf_half_pixel_for_nn``) moves it.
    """
    size, scale = axis.size, torch.tensor(axis.scale, dtype=dtype)
    x = torch.arange(axis.target, dtype=dtype)
    if axis == Axis(size, size, 1.0):
        return x
    length = scale * size
    if name in ("align_corners", "tf_crop_and_resize"):
        return _between_ends(axis, x, length, cropped=name == "tf_crop_and_resize")
    if name == "asymmetric":
        return x / scale
    if name == "pytorch_half_pixel" and axis.target <= 1:
        return torch.zeros_like(x)
    centres = (x + 0.5) / scale
    if name == "tf_half_pixel_for_nn":
        return centres
    shift = size / 2 * (1 - axis.target / length) if name == "half_pixel_symmetric" else 0.0
    return centres - 0.5 + shift


def _between_ends(axis: Axis, x: Tensor, length: Tensor, *, cropped: bool) -> Tensor:
    """The first element at the start of the part that is resized, the last at its end."""
    last = axis.size - 1
    if length == 1:
        return torch.full_like(x, 0.5 * (axis.start + axis.end) * last if cropped else 0.0)
    return axis.start * last + x * (axis.end - axis.start) * last / (length - 1)


def _inside(x: Tensor, axis: Axis, how: Resampling) -> Tensor:
    """Only a cropped result may reach out of the axis; other modes repeat its ends."""
    if how.coordinates != "tf_crop_and_resize":
        return torch.ones(len(x), dtype=torch.bool)
    return (x >= 0) & (x <= axis.size - 1)


def _simple(x: Tensor, scale: float) -> Tensor:
    return torch.ceil(x) if scale < 1 else torch.floor(x)


_ROUNDING: Mapping[str, Callable[[Tensor, float], Tensor]] = MappingProxyType(
    {
        "round_prefer_floor": lambda x, _: torch.ceil(x - 0.5),
        "round_prefer_ceil": lambda x, _: torch.floor(x + 0.5),
        "floor": lambda x, _: torch.floor(x),
        "ceil": lambda x, _: torch.ceil(x),
        "simple": _simple,
    }
)
"""How a coordinate becomes an element's; ``simple`` is the only way that the first version had."""
