"""What programs are run on, and whether a kernel computed what it should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workers.tuning.program import TensorProgram, TensorSpec
from workers.tuning.programs import catalog

if TYPE_CHECKING:
    from workers.tuning.program import Array

SPREAD = 0.3
"""Standard deviation of random inputs. Small, or the sums of some hundred products would saturate a
cell's gates and an attention's softmax, behind which wrong sums go unseen."""

FLOAT_TOLERANCE = 1e-4
"""Kernels sum in another order than the reference; as for Units (``workers.measure.tolerance``)."""


def random_inputs(program: TensorProgram, seed: int) -> list[Array]:
    """The same for the same program and seed: normal with SPREAD, or the whole range of int8."""
    generator = np.random.default_rng(seed)
    return [_random(spec, generator) for spec in catalog.inputs(program)]


def _random(spec: TensorSpec, generator: np.random.Generator) -> Array:
    if np.issubdtype(spec.dtype, np.integer):
        limits = np.iinfo(spec.dtype)
        return generator.integers(limits.min, limits.max, spec.shape, spec.dtype, endpoint=True)
    return SPREAD * generator.standard_normal(spec.shape, np.float32)


def reference(program: TensorProgram, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """What every kernel of the program should compute."""
    return catalog.family_of(program).reference(dict(program.sizes), inputs)


def tolerance(program: TensorProgram) -> float:
    """The largest error allowed, relative to the largest magnitude of an output. Integers must
    agree exactly."""
    exact = all(np.issubdtype(spec.dtype, np.integer) for spec in catalog.outputs(program))
    return 0.0 if exact else FLOAT_TOLERANCE


def matches(
    program: TensorProgram, inputs: Sequence[Array], outputs: Sequence[Array]
) -> str | None:
    """None if ``outputs`` are what the program computes of ``inputs``; else in words why not."""
    return differ(program, outputs, reference(program, inputs))


def differ(
    program: TensorProgram, outputs: Sequence[Array], expected: Sequence[Array]
) -> str | None:
    """None if ``outputs`` are the ``expected`` ones up to rounding; else in words why not."""
    if len(outputs) != len(expected):
        return f"there are {len(outputs)} outputs, expected {len(expected)}"
    allowed = tolerance(program)
    specs = catalog.outputs(program)
    for spec, actual, right in zip(specs, outputs, expected, strict=True):
        if (words := _difference(actual, right, allowed)) is not None:
            return f"{spec.name}: {words}"
    return None


def _difference(actual: Array, expected: Array, allowed: float) -> str | None:
    """NaN never passes: no finite input gives one."""
    if actual.dtype != expected.dtype:
        return f"it is {actual.dtype}, expected {expected.dtype}"
    if actual.shape != expected.shape:
        return f"its shape is {actual.shape}, expected {expected.shape}"
    if not np.isfinite(actual).all():
        return "not all of its elements are finite"
    wide = expected.astype(np.float64)
    errors = np.abs(actual.astype(np.float64) - wide)
    limit = allowed * float(np.abs(wide).max())
    if errors.max() <= limit:
        return None
    worst = np.unravel_index(int(errors.argmax()), errors.shape)
    place = ", ".join(map(str, worst))
    return f"it differs by {errors.max():g} at ({place}), where {expected[worst]:g} is right; " + (
        f"at most {limit:g} is allowed" if allowed else "no difference is allowed"
    )
