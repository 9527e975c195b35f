"""AlexNet in one tower (Krizhevsky 2014, "One weird trick"), 224 px: that of 2012 without groups or
local response normalisation."""

from __future__ import annotations

from torch import Tensor, nn


class AlexNet(nn.Module):
    """(N, 3, 224, 224) → (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, stride=2),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
            nn.Linear(4096, 1000),
        )  # fmt: skip

    def forward(self, image: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(image).flatten(1))
        return scores
