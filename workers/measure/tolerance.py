"""When two tensors are the same result."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
}
"""Largest error allowed, relative to the largest magnitude in the expected output. Fusing and
reordering change the last bits of every operator, and those errors add up over a deep network;
other element types must agree exactly."""


def compare_outputs(actual: Tensor, expected: Tensor) -> tuple[float, str | None]:
    """The largest absolute error, and in words why it is too large, if it is. NaN never passes,
    not even where both have it: it could hide anything. An infinity passes where the other has the
    same one."""
    actual = actual.to(expected.device)
    if (words := _misfit(actual, expected)) is not None:
        return torch.inf, words
    if not expected.numel():
        return 0.0, None
    if expected.dtype.is_floating_point:
        return _float_error(actual, expected)
    error = float((actual.double() - expected.double()).abs().max())
    return error, f"it differs by {error:g}, no difference is allowed" if error else None


def _misfit(actual: Tensor, expected: Tensor) -> str | None:
    """Why no error can be told, if none can."""
    if actual.dtype != expected.dtype:
        return f"it is {actual.dtype}, expected {expected.dtype}"
    if actual.shape != expected.shape:
        return f"its shape is {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if actual.isnan().any():
        return "it has NaN"
    if expected.isnan().any():
        return "the original has NaN"
    return None


def _float_error(actual: Tensor, expected: Tensor) -> tuple[float, str | None]:
    finite = expected.isfinite()
    if not torch.equal(actual.isfinite(), finite) or not torch.equal(
        actual[~finite], expected[~finite]
    ):
        return torch.inf, "its infinities are not where the original's are"
    wide = expected[finite].double()
    if not wide.numel():
        return 0.0, None
    error = float((actual[finite].double() - wide).abs().max())
    allowed = TOLERANCE[expected.dtype] * float(wide.abs().max())
    return (
        error,
        f"it differs by {error:g}, at most {allowed:g} is allowed" if error > allowed else None,
    )
