"""What kernels are called with, and what they should compute of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from mmap import MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from workers.tuning.program import TensorProgram, TensorSpec
from workers.tuning.programs import catalog, values

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64
"""Bytes; generated code may assume as much of its arguments (TVM's kAllocAlignment)."""

_STEP = 17 * _ALIGNMENT
_HUGE = 2 << 20


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


def placed(inputs: Sequence[Array], outputs: Sequence[TensorSpec]) -> tuple[Array, ...]:
    """The arguments in one block of memory, one behind the other: copies of the inputs, and the
    outputs, full of what no kernel computes.

    The block is of huge pages where the system has some. With ordinary ones every process gets its
    own random physical addresses, and so, we think, its own conflicts in the caches: one kernel was
    some 40 % slower in two of four processes, run after run, and with huge pages in none.
    """
    specs = [TensorSpec("", array.shape, str(array.dtype)) for array in inputs] + list(outputs)
    sizes = [prod(spec.shape) * np.dtype(spec.dtype).itemsize for spec in specs]
    # The odd step keeps arguments whose size is a power of two out of each other's cache sets.
    starts = [0, *accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT + _STEP for size in sizes)]
    block = _block(starts[-1])
    arrays = tuple(
        block[start : start + size].view(spec.dtype).reshape(spec.shape)
        for start, size, spec in zip(starts, sizes, specs, strict=False)
    )
    for array, given in zip(arrays, inputs, strict=False):
        array[...] = given
    for array in arrays[len(inputs) :]:
        spoil(array)
    return arrays


def _block(size: int) -> Array:
    """Zeroed memory that begins with a huge page, if it may."""
    memory = mmap(-1, -(-size // _HUGE) * _HUGE + _HUGE, MAP_PRIVATE | MAP_ANONYMOUS)
    room = np.frombuffer(memory, np.uint8)  # which keeps the memory
    first = -room.ctypes.data % _HUGE
    with suppress(OSError, AttributeError):
        memory.madvise(MADV_HUGEPAGE, first, len(memory) - _HUGE)
    return room[first : first + size]


def spoil(array: Array) -> None:
    """So that what a kernel forgets to write is not what it, or another, wrote before."""
    array.fill(np.nan if np.issubdtype(array.dtype, np.floating) else _lowest(array.dtype))


def _lowest(dtype: np.dtype[Any]) -> int:
    return int(np.iinfo(dtype).min) if np.issubdtype(dtype, np.integer) else 0
