"""Layers that several models share."""

from __future__ import annotations

from torch import nn


class ConvNorm(nn.Sequential):
    """2-D convolution without bias, batch normalisation and, if ``relu``, ReLU. The padding keeps
    height and width up to the stride."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        *,
        relu: bool = True,
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        super().__init__(*layers, *([nn.ReLU()] if relu else []))
