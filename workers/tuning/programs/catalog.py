"""Which tensor programs there are, by name; read without TVM and without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from math import prod

from workers.tuning.program import Family, ProgramError, Sizes, TensorProgram, TensorSpec
from workers.tuning.programs import (
    attention,
    convolution,
    correlation,
    products,
    recurrent,
    transposed,
)
from workers.tuning.programs.sizes import check_elements
from workers.tuning.programs.workloads import TABLE_2

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for module in (convolution, transposed, correlation, products, recurrent, attention)
    for family in module.FAMILIES
}
"""By name."""

LARGEST_SIZE = 2**31 - 1
LARGEST_PROGRAM = 4 * 2**30
"""Bytes of all inputs and outputs together."""


def family_of(program: TensorProgram) -> Family:
    """The program's family. Raises ProgramError if there is none of that name."""
    return _family(program.family)


def program(family: str, sizes: Sizes) -> TensorProgram:
    """The program of that family and those sizes, the others as in the family's first workload.

    Raises ProgramError, naming what was meant perhaps, if there is no such family or size, and if
    the sizes do not fit each other or make a program that is too large.
    """
    found = _family(family)
    defaults = next(iter(found.workloads.values()))
    for name, size in sizes.items():
        if name not in defaults:
            raise ProgramError(f"{family} has no size {name!r}; {_meant(name, defaults)}")
        if isinstance(size, bool) or not isinstance(size, int):
            raise ProgramError(f"{family}: {name} is {size!r}, not an integer")
        if abs(size) > LARGEST_SIZE:
            raise ProgramError(f"{family}: {name} is {size:,}, at most {LARGEST_SIZE:,} can be")
    complete = {name: sizes.get(name, size) for name, size in defaults.items()}
    try:
        found.check(complete)
        _check_memory((*found.inputs(complete), *found.outputs(complete)))
    except ProgramError as error:
        raise ProgramError(f"{family}: {error}") from None
    return TensorProgram(family, tuple(complete.items()))


def from_key(key: str) -> TensorProgram:
    """The program that has this key. Raises ProgramError if none has."""
    try:
        given = json.loads(key)
        family, sizes = given["family"], dict(given["sizes"])
    except (ValueError, TypeError, KeyError):
        raise ProgramError(f"{key[:200]!r} is no tensor program's key") from None
    return program(family, sizes)


def workloads() -> dict[str, TensorProgram]:
    """Two programs of each family of Table 2, by ``FAMILY.NAME``."""
    return {
        f"{family}.{name}": program(family, sizes)
        for family in TABLE_2
        for name, sizes in FAMILIES[family].workloads.items()
    }


def inputs(program: TensorProgram) -> tuple[TensorSpec, ...]:
    """The tensors that its kernel reads, in their order."""
    return family_of(program).inputs(dict(program.sizes))


def outputs(program: TensorProgram) -> tuple[TensorSpec, ...]:
    """The tensors that its kernel writes, in their order, after the inputs."""
    return family_of(program).outputs(dict(program.sizes))


def flops(program: TensorProgram) -> int:
    """Multiplications and additions, each counted."""
    return family_of(program).flops(dict(program.sizes))


def _family(name: str) -> Family:
    if not isinstance(name, str) or name not in FAMILIES:
        raise ProgramError(
            f"no family of tensor programs is called {name!r}; {_meant(name, FAMILIES)}"
        )
    return FAMILIES[name]


def _meant(name: object, known: Mapping[str, object]) -> str:
    close = get_close_matches(str(name), known)
    if close:
        return f"perhaps {' or '.join(close)} is meant"
    return f"there are {', '.join(known)}"


def _check_memory(tensors: tuple[TensorSpec, ...]) -> None:
    for tensor in tensors:
        check_elements(f"{tensor.name}, {tensor.shape},", prod(tensor.shape))
    needed = sum(tensor.bytes for tensor in tensors)
    if needed > LARGEST_PROGRAM:
        raise ProgramError(
            f"inputs and outputs take {needed / 2**30:.1f} GiB, at most "
            f"{LARGEST_PROGRAM // 2**30} GiB can be tuned"
        )
