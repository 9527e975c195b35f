"""What every importer offers: a model that was opened and made concrete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from workers.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that a job gives to a model's open dimensions.

    ``batch_size`` goes to the batch dimension, ``sequence_length`` to every other open dimension;
    None leaves those at the sizes that the file suggests, if it does.
    """

    batch_size: int
    sequence_length: int | None = None


class OpenedModel(Protocol):
    """A model with every input's shape settled. Both methods raise ImportFailure."""

    def graph(self) -> tuple[Graph, dict[str, Tensor]]:
        """The Graph, one operator a Unit, and its weights by name."""
        ...

    def run(self, seeds: Sequence[int]) -> list[dict[str, Tensor]]:
        """What the original computes from ``random_inputs`` of each seed, as ``output_0`` … in the
        order in which it returns them, which is the order of the Graph's outputs."""
        ...


class Opener(Protocol):
    """Opens a file of one format; only in the sandbox, for some formats execute code then.

    ``memory_bytes`` bounds what may be unpacked. Raises ImportFailure.
    """

    def __call__(self, path: Path, sizes: Sizes, memory_bytes: int) -> OpenedModel: ...
