"""Seeded weights under which activations keep their scale through a deep network."""

from __future__ import annotations

import torch
from torch import nn


def initialise(model: nn.Module, seed: int) -> None:
    """Set every parameter and statistic of ``model`` in place.

    Convolutions and linear layers follow He et al. (2015, Equation 10); batch normalisation gets
    statistics that are not the identity, so that folding it wrongly would be noticed.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
                if module.bias is not None:
                    module.bias.normal_(0.0, 0.01, generator=generator)
            elif isinstance(module, nn.BatchNorm2d):
                assert module.running_mean is not None  # noqa: S101  # it tracks statistics
                assert module.running_var is not None  # noqa: S101
                module.weight.uniform_(0.8, 1.2, generator=generator)
                module.bias.normal_(0.0, 0.1, generator=generator)
                module.running_mean.normal_(0.0, 0.1, generator=generator)
                module.running_var.uniform_(0.8, 1.2, generator=generator)
