"""GoogLeNet (Szegedy et al. 2015, Table 1) without the auxiliary classifiers.

Batch normalisation replaces the local response normalisation, and 3x3 convolutions the 5x5 ones, as
in the model of torchvision 0.15, which Opara measures.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from workers.zoo.layers import ConvNorm


class Inception(nn.Module):
    """Four branches (Figure 2b): ``one``; ``three[0]`` reduced, ``three[1]``; ``five`` alike;
    ``pool`` after pooling. All are numbers of channels."""

    def __init__(
        self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int
    ) -> None:
        super().__init__()
        self.one = ConvNorm(inputs, one, 1)
        self.three = nn.Sequential(ConvNorm(inputs, three[0], 1), ConvNorm(*three, 3))
        self.five = nn.Sequential(ConvNorm(inputs, five[0], 1), ConvNorm(*five, 3))
        self.pool = ConvNorm(inputs, pool, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.pool(max_pool2d(x, 3, stride=1, padding=1))
        return torch.cat([self.one(x), self.three(x), self.five(x), pooled], dim=1)


class GoogLeNet(nn.Module):
    """(N, 3, 224, 224) → (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            ConvNorm(3, 64, 7, stride=2),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
            ConvNorm(64, 64, 1),
            ConvNorm(64, 192, 3),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
        )
        self.body = nn.Sequential(
            Inception(192, 64, (96, 128), (16, 32), 32),
            Inception(256, 128, (128, 192), (32, 96), 64),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
            Inception(480, 192, (96, 208), (16, 48), 64),
            Inception(512, 160, (112, 224), (24, 64), 64),
            Inception(512, 128, (128, 256), (24, 64), 64),
            Inception(512, 112, (144, 288), (32, 64), 64),
            Inception(528, 256, (160, 320), (32, 128), 128),
            nn.MaxPool2d(2, stride=2, ceil_mode=True),
            Inception(832, 256, (160, 320), (32, 128), 128),
            Inception(832, 384, (192, 384), (48, 128), 128),
        )
        self.classifier = nn.Linear(1024, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = self.body(self.stem(image))
        scores: Tensor = self.classifier(x.mean(dim=(2, 3)))
        return scores
