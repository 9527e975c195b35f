"""Orders of a tensor's dimensions, one letter each: N batch, C channels, D H W space, O and I the
output and input channels of filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from workers.tuning.program import Array

Item = TypeVar("Item")

SPACE = {"D": "depth", "H": "height", "W": "width"}
"""The dimensions of space as they are called in sizes, in the order of DHW."""


def space_of(layout: str) -> str:
    """The letters of space in a layout, in their order."""
    return "".join(letter for letter in layout if letter in SPACE)


def arranged(layout: str, by_letter: Mapping[str, Item]) -> tuple[Item, ...]:
    """What belongs to each dimension, in the layout's order."""
    return tuple(by_letter[letter] for letter in layout)


def transposed(tensor: Array, given: str, wanted: str) -> Array:
    """A view of a tensor that has the layout ``given``, in the layout ``wanted``."""
    return tensor.transpose([given.index(letter) for letter in wanted])
