"""What kernels are called with, and what they should compute of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from workers.tuning.program import TensorProgram, TensorSpec
from workers.tuning.programs import catalog, values

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64
"""Bytes; generated code may assume as much of its arguments (TVM's kAllocAlignment)."""


class Arguments(Protocol):
    """Sent to measuring processes, which keep what they made of it as long as they get equal
    ones."""

    def __hash__(self) -> int: ...

    def inputs(self) -> Sequence[Array]:
        """What the kernel reads, in the order of its arguments."""
        ...

    def outputs(self) -> Sequence[TensorSpec]:
        """What it writes, after the inputs."""
        ...

    def expected(self) -> Sequence[Array] | None:
        """What it should write; None where nobody knows."""
        ...

    def difference(self, outputs: Sequence[Array], expected: Sequence[Array]) -> str | None:
        """None if they are the same up to rounding; else in words why not."""
        ...


@dataclass(frozen=True, slots=True)
class ProgramArguments:
    """A program's random inputs, the same for the same ``seed``, and what NumPy computed of them,
    which is in ``file`` (``write_reference``)."""

    program: TensorProgram
    seed: int
    file: Path

    def inputs(self) -> Sequence[Array]:
        return values.random_inputs(self.program, self.seed)

    def outputs(self) -> Sequence[TensorSpec]:
        return catalog.outputs(self.program)

    def expected(self) -> Sequence[Array]:
        with np.load(self.file) as archive:
            return [archive[name] for name in archive.files]

    def difference(self, outputs: Sequence[Array], expected: Sequence[Array]) -> str | None:
        return values.differ(self.program, outputs, expected)


@dataclass(frozen=True, slots=True)
class UnknownArguments:
    """Of a kernel of which only its tensors are known: each holds random numbers, and nothing is
    checked."""

    tensors: tuple[TensorSpec, ...]

    def inputs(self) -> Sequence[Array]:
        generator = np.random.default_rng(0)
        return [
            generator.uniform(0, 1, spec.shape).astype(spec.dtype)
            if np.issubdtype(spec.dtype, np.floating)
            else generator.integers(0, 2, spec.shape).astype(spec.dtype)
            for spec in self.tensors
        ]

    def outputs(self) -> Sequence[TensorSpec]:
        return ()

    def expected(self) -> None:
        return None

    def difference(self, outputs: Sequence[Array], expected: Sequence[Array]) -> None:
        return None


def write_reference(program: TensorProgram, seed: int, file: Path) -> ProgramArguments:
    """Compute by NumPy what the program's kernels should, once, into ``file``. One that is there
    already is taken."""
    if not file.exists():
        expected = values.reference(program, values.random_inputs(program, seed))
        part = file.with_suffix(".part")
        with part.open("wb") as opened:
            np.savez(opened, *expected)
        part.replace(file)
    return ProgramArguments(program, seed, file)


def aligned(array: Array) -> Array:
    """A copy in memory that a kernel may assume to be aligned."""
    room = empty(TensorSpec("", array.shape, str(array.dtype)))
    room[...] = array
    return room


def empty(spec: TensorSpec) -> Array:
    """Aligned memory for a tensor, full of what no kernel computes: NaN, or the lowest integer."""
    item = np.dtype(spec.dtype)
    size = prod(spec.shape) * item.itemsize
    room = np.empty(size + _ALIGNMENT, np.uint8)
    first = -room.ctypes.data % _ALIGNMENT
    array = room[first : first + size].view(item).reshape(spec.shape)
    spoil(array)
    return array


def spoil(array: Array) -> None:
    """So that what a kernel forgets to write is not what it, or another, wrote before."""
    array.fill(np.nan if np.issubdtype(array.dtype, np.floating) else _lowest(array.dtype))


def _lowest(dtype: np.dtype[Any]) -> int:
    return int(np.iinfo(dtype).min) if np.issubdtype(dtype, np.integer) else 0
