"""Resize and Upsample of every version against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from support.onnx_nodes import computed
from support.onnx_runtime import by_onnx_runtime, one_node
from torch import Tensor

from workers.graph.importers.onnx import OnnxModel
from workers.graph.importers.onnx.model_file import ModelData
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure

_SHAPE = (2, 3, 6, 8)
_UP, _DOWN, _MIXED = (1, 1, 2, 2), (1, 1, 0.5, 0.75), (1, 1, 1.5, 0.625)
_SCALES = [_UP, _DOWN, _MIXED]


def _signal(shape: tuple[int, ...] = _SHAPE) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5))


def _resize(opset: int, x: Tensor, **given: Any) -> onnx.ModelProto:
    """``scales``, ``sizes`` and ``roi`` become constants, the rest attributes."""
    constants = {
        name: torch.tensor(given.pop(name), dtype=torch.int64 if name == "sizes" else torch.float32)
        for name in ("roi", "scales", "sizes")
        if name in given
    }
    names = ["scales"] if opset < 11 else ["roi", "scales", "sizes"]
    inputs = ["x", *(name if name in constants else "" for name in names)]
    while not inputs[-1]:
        inputs.pop()
    return one_node(
        "Resize", inputs, ["y"], opset=opset, given={"x": x}, constants=constants, **given
    )


def _assert_same(model: onnx.ModelProto, x: Tensor) -> None:
    (wanted,), (found,) = by_onnx_runtime(model, {"x": x}), computed(model, {"x": x})
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scales", [_UP, (1, 1, 1.5, 2.75)])  # it does not shrink
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9])
def test_upsample(opset: int, mode: str, scales: tuple[float, ...]) -> None:
    x = _signal()
    if opset < 9:
        model = one_node(
            "Upsample", ["x"], ["y"], opset=opset, given={"x": x}, mode=mode,
            scales=[float(s) for s in scales],
        )  # fmt: skip
    else:
        weights = {"scales": torch.tensor(scales, dtype=torch.float32)}
        model = one_node(
            "Upsample", ["x", "scales"], ["y"], opset=opset, given={"x": x}, constants=weights,
            mode=mode,
        )  # fmt: skip
    _assert_same(model, x)


@pytest.mark.parametrize("scales", _SCALES)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_first_resize(mode: str, scales: tuple[float, ...]) -> None:
    x = _signal()
    _assert_same(_resize(10, x, scales=scales, mode=mode), x)


@pytest.mark.parametrize("scales", _SCALES)
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn"]
)
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest(nearest: str, coordinates: str, scales: tuple[float, ...]) -> None:
    x = _signal()
    model = _resize(
        11, x, roi=[], scales=scales, nearest_mode=nearest,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    _assert_same(model, x)


@pytest.mark.parametrize("opset", [11, 19])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [(2, 3, 12, 16), (2, 3, 4, 5), (2, 3, 1, 11), (2, 3, 6, 3)])
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
)
def test_sizes(opset: int, mode: str, sizes: tuple[int, ...], coordinates: str) -> None:
    x = _signal()
    model = _resize(
        opset, x, roi=[], scales=[], sizes=sizes, mode=mode,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    _assert_same(model, x)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_crop_that_reaches_out_of_the_input(mode: str) -> None:
    x = _signal()
    model = _resize(
        13, x, roi=[0, 0, -0.2, 0.3, 1, 1, 0.9, 1.4], sizes=(2, 3, 5, 9), mode=mode,
        coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.5,
    )  # fmt: skip
    _assert_same(model, x)


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("a", [-0.75, -0.5])
def test_cubic_filters(a: float, exclude: int) -> None:
    x = _signal()
    model = _resize(
        13, x, roi=[], scales=_MIXED, mode="cubic", cubic_coeff_a=a, exclude_outside=exclude
    )
    _assert_same(model, x)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiasing_without_what_lies_outside(mode: str) -> None:
    """ONNX Runtime always excludes it, ONNX does only if asked to."""
    x = _signal()
    model = _resize(18, x, roi=[], sizes=(2, 3, 3, 5), mode=mode, antialias=1, exclude_outside=1)
    _assert_same(model, x)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_keeping_the_aspect_ratio_of_some_axes(policy: str) -> None:
    x = _signal()
    model = _resize(
        18, x, sizes=(7, 13), axes=[3, 2], mode="linear", keep_aspect_ratio_policy=policy
    )
    _assert_same(model, x)


@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8), (2, 3, 4, 6, 8)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_any_number_of_axes(mode: str, shape: tuple[int, ...]) -> None:
    x = _signal(shape)
    scales = [1.0] * min(2, len(shape) - 1) + [1.5] * (len(shape) - min(2, len(shape) - 1))
    _assert_same(_resize(13, x, roi=[], scales=scales, mode=mode), x)


def test_integers_are_rounded_towards_zero() -> None:
    x = torch.arange(48, dtype=torch.int32).reshape(1, 1, 6, 8) - 20
    _assert_same(_resize(13, x, roi=[], scales=_MIXED, mode="linear"), x)


@pytest.mark.parametrize(
    ("attributes", "target"),
    [
        ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, "nearest2d"),
        ({"mode": "linear", "coordinate_transformation_mode": "half_pixel"}, "bilinear2d"),
        ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, "bilinear2d"),
        ({"mode": "cubic", "coordinate_transformation_mode": "half_pixel"}, "bicubic2d"),
    ],
)
@pytest.mark.parametrize(
    "size", [{"sizes": (2, 3, 12, 16)}, {"sizes": (2, 3, 9, 5)}, {"scales": _UP}]
)
def test_what_torch_exports_is_one_operator(
    attributes: dict[str, Any], target: str, size: dict[str, Any]
) -> None:
    model = _resize(13, _signal(), roi=[], **size, **attributes)
    assert _targets(model) == [f"aten.upsample_{target}.vec"]


@pytest.mark.parametrize("scales", [(1, 1, 1.7, 1.3), (1, 1, 0.45, 0.6)])
@pytest.mark.parametrize(
    ("mode", "target"),
    [("nearest", "nearest2d"), ("linear", "bilinear2d"), ("cubic", "bicubic2d")],
)
def test_a_factor_that_is_not_the_ratio_of_the_sizes(
    mode: str, target: str, scales: tuple[float, ...]
) -> None:
    attributes = {"mode": mode, "nearest_mode": "floor"}
    attributes["coordinate_transformation_mode"] = (
        "asymmetric" if mode == "nearest" else "half_pixel"
    )
    model = _resize(13, _signal(), roi=[], scales=scales, **attributes)
    assert _targets(model) == [f"aten.upsample_{target}.vec"]
    _assert_same(model, _signal())


def test_another_filter_is_not_mistaken_for_torchs() -> None:
    model = _resize(13, _signal(), roi=[], sizes=(2, 3, 12, 16), mode="cubic", cubic_coeff_a=-0.5)
    assert _targets(model).count("aten.linear.default") == 2


def test_an_unknown_mode_is_refused() -> None:
    model = _resize(13, _signal(), roi=[], scales=_UP, nearest_mode="up")
    with pytest.raises(ImportFailure, match="nearest_mode 'up'; known are"):
        computed(model, {"x": _signal()})


def _targets(model: onnx.ModelProto) -> list[str]:
    data = ModelData(model, Path(), memoryview(b""), (), None)
    graph, _ = OnnxModel(data, Sizes(2)).graph()
    return [operator.target for unit in graph.units for operator in unit.operators]
