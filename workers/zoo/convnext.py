"""ConvNeXt (Liu et al. 2022, Section 3, Figure 4 and Table 9) at 224 px."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm

EPSILON = 1e-6


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of (N, C, H, W)."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        last = layer_norm(
            x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps
        )
        return last.permute(0, 3, 1, 2)


class Block(nn.Module):
    """Depthwise 7x7, layer normalisation, expansion to four times the channels with GELU and back,
    scaled per channel and added to the input (Figure 4, right)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=EPSILON)
        self.expand = nn.Linear(channels, 4 * channels)
        self.project = nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        last = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.project(gelu(self.expand(last)))
        return torch.add(x, y.permute(0, 3, 1, 2))

    def temper(self) -> None:
        """Training starts from a scale of 1e-6; a third keeps the branch visible."""
        self.scale.div_(3)


class ConvNeXt(nn.Module):
    """(N, 3, 224, 224) → (N, 1000). Four stages of ``depths[i]`` blocks with ``channels * 2**i``
    channels."""

    def __init__(self, depths: tuple[int, int, int, int], channels: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, channels, 4, stride=4), ChannelNorm(channels))
        for stage, depth in enumerate(depths):
            width = channels * 2**stage
            if stage:
                self.features.append(ChannelNorm(width // 2))
                self.features.append(nn.Conv2d(width // 2, width, 2, stride=2))
            self.features.extend(Block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.classifier = nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = self.features(image).mean(dim=(2, 3))
        scores: Tensor = self.classifier(self.norm(x))
        return scores


def convnext_tiny() -> ConvNeXt:
    return ConvNeXt((3, 3, 9, 3), 96)


def convnext_xlarge() -> ConvNeXt:
    return ConvNeXt((3, 3, 27, 3), 256)
