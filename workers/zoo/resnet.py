"""ResNet (He et al. 2016, Table 1) and ResNeXt (Xie et al. 2017, Table 1).

In bottlenecks the 3x3 convolution takes the stride, as in the models that both papers' later
releases and today's libraries count.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from workers.zoo.layers import ConvNorm


class Residual(nn.Module):
    """``branch`` added to its input, which a 1x1 convolution brings to its shape if it must; then
    ReLU."""

    def __init__(self, branch: nn.Sequential, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = ConvNorm(inputs, outputs, 1, stride, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))

    def temper(self) -> None:
        """A hundred layers add up: each branch contributes a third."""
        *_, last = (m for m in self.branch.modules() if isinstance(m, nn.BatchNorm2d))
        last.weight.div_(3)


def basic(inputs: int, width: int, stride: int) -> Residual:
    """Two 3x3 convolutions (He et al., Figure 5, left)."""
    branch = nn.Sequential(
        ConvNorm(inputs, width, 3, stride), ConvNorm(width, width, 3, relu=False)
    )
    return Residual(branch, inputs, width, stride)


def bottleneck(inputs: int, width: int, outputs: int, stride: int, groups: int = 1) -> Residual:
    """1x1, 3x3 in ``groups``, 1x1 (He et al., Figure 5, right; Xie et al., Figure 3c)."""
    branch = nn.Sequential(
        ConvNorm(inputs, width, 1),
        ConvNorm(width, width, 3, stride, groups),
        ConvNorm(width, outputs, 1, relu=False),
    )
    return Residual(branch, inputs, outputs, stride)


class ResNet(nn.Module):
    """(N, 3, H, W) → (N, classes): stem, residual blocks, global average, classifier."""

    def __init__(
        self, stem: nn.Module, blocks: Sequence[nn.Module], features: int, classes: int
    ) -> None:
        super().__init__()
        self.stem = stem
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(features, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.blocks(self.stem(image))
        scores: Tensor = self.classifier(x.mean(dim=(2, 3)))
        return scores


def resnet18() -> ResNet:
    return _basic_resnet((2, 2, 2, 2))


def resnet34() -> ResNet:
    return _basic_resnet((3, 4, 6, 3))


def resnet50() -> ResNet:
    return _bottleneck_resnet((3, 4, 6, 3), width=64, groups=1)


def resnext101_64x4d() -> ResNet:
    """Cardinality 64, 4 channels in each group of the first stage."""
    return _bottleneck_resnet((3, 4, 23, 3), width=256, groups=64)


def resnext29_16x64d() -> ResNet:
    """For CIFAR-10 (Xie et al., Section 5.3): three stages of three blocks, cardinality 16, 64
    channels in each group of the first stage."""
    blocks, inputs = [], 64
    for stage in range(3):
        width, outputs = 16 * 64 * 2**stage, 256 * 2**stage
        for number in range(3):
            stride = 2 if stage and not number else 1
            blocks.append(bottleneck(inputs, width, outputs, stride, groups=16))
            inputs = outputs
    return ResNet(ConvNorm(3, 64, 3), blocks, inputs, classes=10)


def _imagenet_stem() -> nn.Sequential:
    return nn.Sequential(ConvNorm(3, 64, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1))


def _basic_resnet(depths: Sequence[int]) -> ResNet:
    blocks, inputs = [], 64
    for stage, depth in enumerate(depths):
        width = 64 * 2**stage
        for number in range(depth):
            blocks.append(basic(inputs, width, stride=2 if stage and not number else 1))
            inputs = width
    return ResNet(_imagenet_stem(), blocks, inputs, classes=1000)


def _bottleneck_resnet(depths: Sequence[int], width: int, groups: int) -> ResNet:
    """``width`` channels in the 3x3 convolutions of the first stage."""
    blocks, inputs = [], 64
    for stage, depth in enumerate(depths):
        outputs = 256 * 2**stage
        for number in range(depth):
            stride = 2 if stage and not number else 1
            blocks.append(bottleneck(inputs, width * 2**stage, outputs, stride, groups))
            inputs = outputs
    return ResNet(_imagenet_stem(), blocks, inputs, classes=1000)
