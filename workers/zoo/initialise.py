"""Seeded weights under which activations keep their scale through a deep network."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import nn

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@runtime_checkable
class Tempered(Protocol):
    """A module whose weights need another scale than its layers alone would be given."""

    def temper(self) -> None:
        """Rescale the weights, in place. Called last, without gradients.

        Training does as much: it keeps a sum of many branches, or a product of queries and keys,
        from growing with depth.
        """


def initialise(model: nn.Module, seed: int) -> None:
    """Set every parameter and statistic of ``model`` in place.

    Convolutions and linear layers follow He et al. (2015, Equation 10), embeddings are standard
    normal, and normalisation gets statistics and factors that are not the identity, so that
    folding it wrongly would be noticed. Then every Tempered module rescales its own. Raises
    TypeError naming a parameter that no rule sets: it would be as random as memory is.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, (*_CONVOLUTIONS, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
                if module.bias is not None:
                    module.bias.normal_(0.0, 0.01, generator=generator)
            elif isinstance(module, _BATCH_NORMS):
                _normalisation(module, generator)
                assert module.running_mean is not None  # noqa: S101  # it tracks statistics
                assert module.running_var is not None  # noqa: S101
                module.running_mean.normal_(0.0, 0.1, generator=generator)
                module.running_var.uniform_(0.8, 1.2, generator=generator)
            elif isinstance(module, nn.LayerNorm):
                _normalisation(module, generator)
            elif isinstance(module, nn.Embedding):
                module.weight.normal_(generator=generator)
            elif own := list(module.named_parameters(recurse=False)):
                if not isinstance(module, Tempered):
                    raise TypeError(f"no rule sets parameter {own[0][0]!r} of module {name!r}")
                for _, parameter in own:
                    parameter.normal_(1.0, 0.1, generator=generator)
        for module in model.modules():
            if isinstance(module, Tempered):
                module.temper()


def _normalisation(module: nn.Module, generator: torch.Generator) -> None:
    """Factors near 1 and offsets near 0."""
    for name, parameter in module.named_parameters(recurse=False):
        if name == "weight":
            parameter.uniform_(0.8, 1.2, generator=generator)
        else:
            parameter.normal_(0.0, 0.1, generator=generator)
