"""Inception-v3 without the auxiliary classifier (Szegedy et al. 2016, Table 1, Figures 5-7).

The layer sizes are those of the authors' published model: 299 px, 1000 classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d


class Convolution(nn.Sequential):
    """Convolution without bias, batch normalisation, ReLU."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
            nn.BatchNorm2d(outputs, eps=0.001),
            nn.ReLU(),
        )


class Grid35(nn.Module):
    """The 35x35 module (Figure 5): four branches."""

    def __init__(self, inputs: int, pooled: int) -> None:
        super().__init__()
        self.one = Convolution(inputs, 64, 1)
        self.five = nn.Sequential(Convolution(inputs, 48, 1), Convolution(48, 64, 5, padding=2))
        self.three = nn.Sequential(
            Convolution(inputs, 64, 1),
            Convolution(64, 96, 3, padding=1),
            Convolution(96, 96, 3, padding=1),
        )
        self.pool = Convolution(inputs, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.pool(avg_pool2d(x, 3, stride=1, padding=1))
        return torch.cat([self.one(x), self.five(x), self.three(x), pooled], dim=1)


class Reduce35(nn.Module):
    """35x35 to 17x17 (Figure 10)."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.three = Convolution(inputs, 384, 3, stride=2)
        self.deep = nn.Sequential(
            Convolution(inputs, 64, 1),
            Convolution(64, 96, 3, padding=1),
            Convolution(96, 96, 3, stride=2),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.three(x), self.deep(x), max_pool2d(x, 3, stride=2)], dim=1)


class Grid17(nn.Module):
    """The 17x17 module with factorised 7x7 convolutions (Figure 6), ``width`` channels inside."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        row, column = ((1, 7), (0, 3)), ((7, 1), (3, 0))
        self.one = Convolution(inputs, 192, 1)
        self.seven = nn.Sequential(
            Convolution(inputs, width, 1),
            Convolution(width, width, row[0], padding=row[1]),
            Convolution(width, 192, column[0], padding=column[1]),
        )
        self.deep = nn.Sequential(
            Convolution(inputs, width, 1),
            Convolution(width, width, column[0], padding=column[1]),
            Convolution(width, width, row[0], padding=row[1]),
            Convolution(width, width, column[0], padding=column[1]),
            Convolution(width, 192, row[0], padding=row[1]),
        )
        self.pool = Convolution(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.pool(avg_pool2d(x, 3, stride=1, padding=1))
        return torch.cat([self.one(x), self.seven(x), self.deep(x), pooled], dim=1)


class Reduce17(nn.Module):
    """17x17 to 8x8."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.three = nn.Sequential(Convolution(inputs, 192, 1), Convolution(192, 320, 3, stride=2))
        self.seven = nn.Sequential(
            Convolution(inputs, 192, 1),
            Convolution(192, 192, (1, 7), padding=(0, 3)),
            Convolution(192, 192, (7, 1), padding=(3, 0)),
            Convolution(192, 192, 3, stride=2),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.three(x), self.seven(x), max_pool2d(x, 3, stride=2)], dim=1)


class Grid8(nn.Module):
    """The 8x8 module with widened filter banks (Figure 7)."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.one = Convolution(inputs, 320, 1)
        self.three = Convolution(inputs, 384, 1)
        self.three_row = Convolution(384, 384, (1, 3), padding=(0, 1))
        self.three_column = Convolution(384, 384, (3, 1), padding=(1, 0))
        self.deep = nn.Sequential(Convolution(inputs, 448, 1), Convolution(448, 384, 3, padding=1))
        self.deep_row = Convolution(384, 384, (1, 3), padding=(0, 1))
        self.deep_column = Convolution(384, 384, (3, 1), padding=(1, 0))
        self.pool = Convolution(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        three, deep = self.three(x), self.deep(x)
        branches = [
            self.one(x),
            self.three_row(three),
            self.three_column(three),
            self.deep_row(deep),
            self.deep_column(deep),
            self.pool(avg_pool2d(x, 3, stride=1, padding=1)),
        ]
        return torch.cat(branches, dim=1)


class InceptionV3(nn.Module):
    """(N, 3, 299, 299) → (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            Convolution(3, 32, 3, stride=2),
            Convolution(32, 32, 3),
            Convolution(32, 64, 3, padding=1),
            nn.MaxPool2d(3, stride=2),
            Convolution(64, 80, 1),
            Convolution(80, 192, 3),
            nn.MaxPool2d(3, stride=2),
        )
        self.body = nn.Sequential(
            Grid35(192, 32),
            Grid35(256, 64),
            Grid35(288, 64),
            Reduce35(288),
            Grid17(768, 128),
            Grid17(768, 160),
            Grid17(768, 160),
            Grid17(768, 192),
            Reduce17(768),
            Grid8(1280),
            Grid8(2048),
        )
        self.classifier = nn.Linear(2048, 1000)

    def forward(self, image: Tensor) -> Tensor:
        features: Tensor = self.body(self.stem(image))
        scores: Tensor = self.classifier(features.mean(dim=(2, 3)))
        return scores
