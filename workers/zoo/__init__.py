"""The papers' models, built from their published architecture.

``catalog`` is the table of them. Weights are random but seeded: schedules depend on shapes, not on
what a model has learned. Integer inputs are indices; every model is right for 0 and 1.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from workers.zoo.catalog import FAMILIES, Entry, Input, find, known, names

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.export import ExportedProgram

__all__ = [
    "FAMILIES",
    "Entry",
    "Input",
    "build",
    "construct",
    "find",
    "inputs",
    "known",
    "names",
    "parameters",
    "program",
]

SEED = 0


def build(name: str) -> nn.Module:
    """The model of that name in eval mode, with the same weights every time.

    Raises KeyError if there is no such model.
    """
    from workers.zoo.initialise import initialise  # noqa: PLC0415  # torch, when needed

    model = construct(find(name))
    initialise(model, SEED)
    return model.eval()


def parameters(name: str) -> int:
    """How many numbers the model learns, without making any of them."""
    import torch  # noqa: PLC0415  # torch, when needed

    with torch.device("meta"):
        model = construct(find(name))
    return sum(parameter.numel() for parameter in model.parameters())


def inputs(name: str, batch_size: int, sequence_length: int | None = None) -> tuple[Tensor, ...]:
    """Example arguments of the model: zeros of the right shapes and types.

    Raises KeyError if there is no such model, ValueError if it takes no such sequence length.
    """
    import torch  # noqa: PLC0415  # torch, when needed

    entry = find(name)
    entry.check_length(sequence_length)
    return tuple(
        torch.zeros(
            batch_size, *given.at_length(sequence_length), dtype=getattr(torch, given.dtype)
        )
        for given in entry.inputs
    )


def program(
    name: str, batch_size: int | None, sequence_length: int | None = None
) -> ExportedProgram:
    """The model of that name, exported for ``batch_size``, or for any if that is None.

    Without ``sequence_length``, sequences have the length that the catalog says. Raises KeyError
    if there is no such model, ValueError if it takes no such sequence length.
    """
    import torch  # noqa: PLC0415  # torch, when needed

    # Exporting would take a size of 1 for a constant.
    example = inputs(name, 2 if batch_size is None else batch_size, sequence_length)
    batch = {0: torch.export.Dim("batch")} if batch_size is None else None
    return torch.export.export(build(name), example, dynamic_shapes=tuple(batch for _ in example))


def construct(entry: Entry) -> nn.Module:
    """The entry's model, its weights not yet set."""
    module, _, factory = entry.factory.partition(":")
    make: Callable[..., nn.Module] = getattr(
        importlib.import_module(f"{__name__}.{module}"), factory
    )
    return make(*entry.arguments)
