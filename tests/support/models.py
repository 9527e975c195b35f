"""Small torch models to upload."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn


class Branches(nn.Module):
    """Three branches between two convolutions, the middle one deeper: something to schedule."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.stem = self._convolution(3, channels, 3)
        self.first = self._convolution(channels, channels, 1)
        self.second = nn.Sequential(
            self._convolution(channels, channels, 1), self._convolution(channels, channels, 3)
        )
        self.third = nn.Sequential(nn.MaxPool2d(3, 1, 1), self._convolution(channels, channels, 1))
        self.head = nn.Linear(3 * channels, 10)

    @staticmethod
    def _convolution(inputs: int, outputs: int, kernel: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, image: Tensor) -> Tensor:
        stem = self.stem(image)
        joined = torch.cat([self.first(stem), self.second(stem), self.third(stem)], dim=1)
        return self.head(joined.mean(dim=(2, 3)))


def export_branches(path: Path, dynamic_batch: bool = True) -> nn.Module:
    """Write ``Branches`` with ``torch.export`` and return the module it was made from."""
    torch.manual_seed(0)
    model = Branches().eval()
    example = (torch.randn(2, 3, 16, 16),)
    shapes = ({0: torch.export.Dim("batch", min=1, max=64)},) if dynamic_batch else None
    torch.export.save(torch.export.export(model, example, dynamic_shapes=shapes), path)
    return model
