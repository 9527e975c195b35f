"""What the families check of their sizes, one by one."""

from __future__ import annotations

from collections.abc import Iterable

from workers.tuning.program import ProgramError, Sizes

LARGEST_TENSOR = 2**31 - 1
"""Elements: kernels count in 32 bits."""


def check_at_least(least: int, sizes: Sizes, names: Iterable[str]) -> None:
    """Raises ProgramError, naming the size, if one is smaller."""
    for name in names:
        if sizes[name] < least:
            raise ProgramError(f"{name} is {sizes[name]}, at least {least} is needed")


def check_flags(sizes: Sizes, names: Iterable[str]) -> None:
    """Raises ProgramError, naming the size, if one is neither 0 (without) nor 1 (with)."""
    for name in names:
        if sizes[name] not in (0, 1):
            raise ProgramError(f"{name} is {sizes[name]}; 0 is without it, 1 is with it")


def check_elements(what: str, count: int) -> None:
    """Raises ProgramError if a tensor of so many elements is too large for a kernel."""
    if count > LARGEST_TENSOR:
        raise ProgramError(f"{what} has {count:,} elements, at most {LARGEST_TENSOR:,} can be")


def check_int8_sum(length: int) -> None:
    """Raises ProgramError if a sum of so many products of int8 may be out of int32's range."""
    longest = LARGEST_TENSOR // (128 * 128)
    if length > longest:
        raise ProgramError(
            f"int32 holds sums of at most {longest:,} products of int8, here are {length:,}"
        )
