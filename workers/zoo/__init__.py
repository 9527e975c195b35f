"""The papers' models, one file each, built from their published architecture.

Weights are random but seeded: schedules depend on shapes, not on what a model has learned.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram

SEED = 0


def names() -> tuple[str, ...]:
    """Every model's name, without importing torch."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in found if name != "initialise"))


def program(name: str, batch_size: int) -> ExportedProgram:
    """The model of that name, in eval mode, exported for ``batch_size``.

    Raises KeyError if there is no such model.
    """
    import torch  # noqa: PLC0415  # names() is for processes without torch

    from workers.zoo.initialise import initialise  # noqa: PLC0415

    if name not in names():
        raise KeyError(f"no model {name!r} in the zoo; known: {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    model = module.build().eval()
    initialise(model, SEED)
    example = torch.zeros(batch_size, *module.INPUT)
    return torch.export.export(model, (example,))
