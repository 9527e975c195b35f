"""What the rest of a model does to the caches between two runs of a part of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from workers.devices.base import Surroundings

_WORD = torch.float32


class Scratch:
    """Memory that nobody else reads, for all executables of a device: it takes the place of the
    weights of other Units in the caches. It grows to the most that was asked for."""

    def __init__(self) -> None:
        self._words = torch.zeros(0, dtype=_WORD)

    def words(self, size: int) -> Tensor:
        """``size`` bytes of it, rounded down."""
        if self._words.nbytes < size:
            self._words = torch.zeros(size // _WORD.itemsize, dtype=_WORD)
        return self._words[: size // _WORD.itemsize]


def disturbance(surroundings: Surroundings, scratch: Scratch) -> Callable[[], None]:
    """Reads as many bytes as other Units have weights, then writes memory from the allocator as
    their values do, and gives it back: on as many threads as the calling thread may use, so that
    each core's own caches lose what they held."""
    return partial(_disturb, scratch.words(surroundings.weights_bytes), surroundings.values_bytes)


def _disturb(words: Tensor, values_bytes: int) -> None:
    words.sum()
    torch.empty(values_bytes, dtype=torch.uint8).fill_(1)
