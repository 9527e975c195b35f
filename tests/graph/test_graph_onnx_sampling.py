"""Sampling, patches and Fourier transforms of ONNX models, against ONNX Runtime and torch."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from support.onnx_nodes import computed
from support.onnx_runtime import by_onnx_runtime, one_node
from torch import Tensor

from workers.graph.importers.source import ImportFailure


def _random(*shape: int, seed: int = 5) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _assert_same(model: onnx.ModelProto, given: dict[str, Tensor], *, atol: float = 1e-5) -> None:
    (wanted,), (found,) = by_onnx_runtime(model, given), computed(model, given)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=atol)


_X = _random(2, 3, 10, 12)
_REGIONS = torch.tensor(
    [[0.0, 0, 11, 9], [2.3, 1.1, 8.7, 7.9], [5, 5, 5.4, 5.2], [-3, -2, 30, 4], [7, 3, 2, 1]]
)
_BATCH = torch.tensor([0, 1, 0, 1, 1])


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize("known", [True, False])
def test_regions(opset: int, mode: str, samples: int, *, known: bool) -> None:
    regions = {"regions": _REGIONS, "batch": _BATCH}
    given = {"x": _X} if known else {"x": _X, **regions}
    model = one_node(
        "RoiAlign", ["x", "regions", "batch"], ["y"], opset=opset, given=given,
        constants=regions if known else {}, mode=mode, output_height=3, output_width=2,
        sampling_ratio=samples, spatial_scale=0.8,
    )  # fmt: skip
    if samples == 0 and not known:
        with pytest.raises(ImportFailure, match="give it a sampling_ratio"):
            computed(model, given)
    else:
        _assert_same(model, given)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("axes", [2, 3])
def test_grids(axes: int, mode: str, padding: str, corners: int) -> None:
    sizes = (5, 6, 7)[:axes]
    given = {"x": _random(2, 3, *sizes), "grid": _random(2, *(4, 3, 2)[:axes], axes) * 0.8}
    model = one_node(
        "GridSample", ["x", "grid"], ["y"], opset=20, given=given, mode=mode,
        padding_mode=padding, align_corners=corners,
    )  # fmt: skip
    if axes == 3 and mode == "cubic":
        with pytest.raises(ImportFailure, match="cubic sampling over 3 axes"):
            computed(model, given)
    else:
        _assert_same(model, given)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("masked", [True, False])
def test_deformed_convolutions(groups: int, parts: int, *, masked: bool) -> None:
    given = {
        "x": _random(2, 4, 7, 9),
        "weight": _random(6, 4 // groups, 3, 2),
        "offset": _random(2, parts * 12, 4, 7, seed=6) * 2,
        "bias": _random(6),
        "mask": _random(2, parts * 6, 4, 7),
    }
    if not masked:
        del given["mask"]
    model = one_node(
        "DeformConv", list(given), ["y"], opset=19, given=given, group=groups,
        offset_group=parts, strides=[2, 1], pads=[1, 0, 2, 0], dilations=[1, 2],
    )  # fmt: skip
    _assert_same(model, given, atol=1e-4)


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ((6, 7), (2, 3), {}),
        ((6, 7), (2, 3), {"pads": [1, 0, 1, 0], "strides": [2, 1]}),
        ((6, 7), (2, 3), {"pads": [0, 1, 1, 2], "strides": [2, 3], "dilations": [3, 1]}),
        ((9,), (3,), {"strides": [2], "pads": [1, 1]}),
        ((4, 5, 6), (2, 1, 3), {"strides": [1, 2, 2], "dilations": [2, 1, 1]}),
    ],
)
def test_patches_to_images(
    image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    axes = len(image)
    strides, dilations = (attributes.get(name, [1] * axes) for name in ("strides", "dilations"))
    pads = attributes.get("pads", [0] * 2 * axes)
    count, patch = 1, 1
    for axis in range(axes):
        size = image[axis] + pads[axis] + pads[axes + axis]
        count *= (size - (block[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
        patch *= block[axis]
    given = {"x": _random(2, 3 * patch, count)}
    constants = {"image": torch.tensor(image), "block": torch.tensor(block)}
    model = one_node(
        "Col2Im", ["x", "image", "block"], ["y"], opset=18, given=given, constants=constants,
        **attributes,
    )  # fmt: skip
    # ONNX's reference, for ONNX Runtime dilates three axes wrongly.
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": given["x"].numpy()})
    (found,) = computed(model, given)
    torch.testing.assert_close(found, torch.from_numpy(wanted))


def _transformed(x: Tensor, length: int | None, axis: int, **attributes: int) -> Tensor:
    constants = {"axis": torch.tensor(axis)}
    if length is not None:
        constants["length"] = torch.tensor(length)
    names = ["x", "length" if length is not None else "", "axis"]
    model = one_node(
        "DFT", names, ["y"], opset=20, given={"x": x}, constants=constants, **attributes
    )
    return computed(model, {"x": x})[0]


@pytest.mark.parametrize("length", [None, 4, 7, 12])
@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("inverse", [0, 1])
def test_complex_transforms(length: int | None, axis: int, inverse: int) -> None:
    x = _random(5, 8, 6, 2)
    function = torch.fft.ifft if inverse else torch.fft.fft
    wanted = function(torch.view_as_complex(x), n=length, dim=2 if axis == -2 else axis)
    found = _transformed(x, length, axis, inverse=inverse)
    torch.testing.assert_close(found, torch.view_as_real(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [None, 5, 12])
@pytest.mark.parametrize("onesided", [0, 1])
def test_real_transforms(length: int | None, onesided: int) -> None:
    x = _random(3, 9, 4, 1)
    function = torch.fft.rfft if onesided else torch.fft.fft
    wanted = torch.view_as_real(function(x[..., 0], n=length, dim=1))
    found = _transformed(x, length, 1, onesided=onesided)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [None, 5, 8, 11, 12, 20])
def test_transforms_back_to_real_numbers(length: int | None) -> None:
    x = _random(3, 7, 4, 2)
    wanted = torch.fft.irfft(torch.view_as_complex(x), n=length, dim=1)
    found = _transformed(x, length, 1, inverse=1, onesided=1)
    torch.testing.assert_close(found, wanted[..., None], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("windowed", ["no", "constant", "computed"])
@pytest.mark.parametrize("onesided", [0, 1])
def test_short_time_transforms(windowed: str, onesided: int) -> None:
    x, window = _random(2, 50, 1), torch.hann_window(16) + 0.1
    given, constants = {"x": x}, {"step": torch.tensor(5), "length": torch.tensor(16)}
    if windowed != "no":
        (given if windowed == "computed" else constants)["window"] = window
    names = ["x", "step", "window" if windowed != "no" else "", "length"]
    model = one_node(
        "STFT", names, ["y"], opset=17, given=given, constants=constants, onesided=onesided
    )
    _assert_same(model, given)


def test_a_transform_by_too_large_a_matrix_is_refused() -> None:
    x = torch.zeros(1, 20_000, 1)
    with pytest.raises(ImportFailure, match="transform shorter frames"):
        _transformed(x, None, 1)
