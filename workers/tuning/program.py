"""Tensor programs: what a tuner makes a kernel for (DOPpler, Tables 1 and 2).

A program is a family with its sizes, nothing else, so that it is stored, sent to other processes
and compared by value. The family knows what is computed: as TIR for TVM, which loads only there,
and in NumPy, which every kernel is checked against.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import tvm

    Array = np.ndarray[Any, Any]

Sizes = Mapping[str, int]


class ProgramError(ValueError):
    """A tensor program that does not exist; the message says what was wrong and what there is."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that a kernel reads or writes; ``dtype`` is NumPy's name of it."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Family:
    """Programs that differ by their sizes alone.

    ``inputs`` and ``outputs`` give the tensors in the order of a kernel's arguments, inputs first;
    ``reference`` computes the outputs by NumPy, ``prim_func`` gives the same as a TIR function
    ``main`` of those arguments; ``flops`` counts a multiply-add as two. ``check`` raises
    ProgramError where sizes do not fit each other. ``workloads`` are those of our evaluation, by
    their names; the first one's sizes stand for those that are not given.
    """

    name: str
    title: str
    inputs: Callable[[Sizes], tuple[TensorSpec, ...]]
    outputs: Callable[[Sizes], tuple[TensorSpec, ...]]
    reference: Callable[[Sizes, Sequence[Array]], tuple[Array, ...]]
    prim_func: Callable[[Sizes], tvm.tirx.PrimFunc]
    flops: Callable[[Sizes], int]
    check: Callable[[Sizes], None]
    workloads: Mapping[str, Sizes]


@dataclass(frozen=True, slots=True)
class TensorProgram:
    """A family of ``workers.tuning.programs`` with all of its sizes, in the family's order."""

    family: str
    sizes: tuple[tuple[str, int], ...]

    @property
    def key(self) -> str:
        """The same for the same program, in a database and over releases."""
        return json.dumps({"family": self.family, "sizes": dict(self.sizes)}, sort_keys=True)
