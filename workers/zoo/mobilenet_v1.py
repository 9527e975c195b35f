"""MobileNet, width multiplier 1, 224 px (Howard et al. 2017, Table 1)."""

from __future__ import annotations

from torch import Tensor, nn

from workers.zoo.layers import ConvNorm

# (channels, stride) of each depthwise separable convolution
SEPARABLE = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)
)  # fmt: skip


class MobileNetV1(nn.Module):
    """(N, 3, 224, 224) → (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(ConvNorm(3, 32, 3, stride=2))
        inputs = 32
        for channels, stride in SEPARABLE:
            self.features.append(ConvNorm(inputs, inputs, 3, stride, groups=inputs))
            self.features.append(ConvNorm(inputs, channels, 1))
            inputs = channels
        self.classifier = nn.Linear(inputs, 1000)

    def forward(self, image: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(image).mean(dim=(2, 3)))
        return scores
