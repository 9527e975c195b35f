"""Small torch models to upload."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Three branches of one convolution, the middle one deeper, joined: something to schedule."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.stem = self._convolution(inputs, channels, 3)
        self.first = self._convolution(channels, channels, 1)
        self.second = nn.Sequential(
            self._convolution(channels, channels, 1), self._convolution(channels, channels, 3)
        )
        self.third = nn.Sequential(nn.MaxPool2d(3, 1, 1), self._convolution(channels, channels, 1))

    @staticmethod
    def _convolution(inputs: int, outputs: int, kernel: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, image: Tensor) -> Tensor:
        stem = self.stem(image)
        return torch.cat([self.first(stem), self.second(stem), self.third(stem)], dim=1)


class Branches(Block):
    """A ``Block`` and the classification of what it finds."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__(3, channels)
        self.head = nn.Linear(3 * channels, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(super().forward(image).mean(dim=(2, 3)))


class Chain(nn.Sequential):
    """Blocks one after another, no two alike: operators that take next to no time, and a search
    over them that takes some seconds."""

    def __init__(self, length: int = 3) -> None:
        widths = [16 + 4 * index for index in range(length)]
        fed = [3, *(3 * width for width in widths)]
        super().__init__(*map(Block, fed[:-1], widths))


def export_branches(path: Path, dynamic_batch: bool = True) -> nn.Module:
    """Write ``Branches`` with ``torch.export`` and return the module it was made from."""
    torch.manual_seed(0)
    model = Branches().eval()
    example = (torch.randn(2, 3, 16, 16),)
    shapes = ({0: torch.export.Dim("batch", min=1, max=64)},) if dynamic_batch else None
    torch.export.save(torch.export.export(model, example, dynamic_shapes=shapes), path)
    return model


def export_chain(path: Path) -> None:
    """Write a ``Chain`` for batch 1 with ``torch.export``."""
    torch.manual_seed(0)
    torch.export.save(torch.export.export(Chain().eval(), (torch.randn(1, 3, 16, 16),)), path)
