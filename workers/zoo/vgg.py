"""VGG-16 (Simonyan and Zisserman 2015, Table 1, configuration D)."""

from __future__ import annotations

from torch import Tensor, nn

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # (channels, convolutions)


class VGG16(nn.Module):
    """(N, 3, 224, 224) → (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential()
        inputs = 3
        for channels, convolutions in STAGES:
            for _ in range(convolutions):
                self.features.append(nn.Conv2d(inputs, channels, 3, padding=1))
                self.features.append(nn.ReLU())
                inputs = channels
            self.features.append(nn.MaxPool2d(2))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
            nn.Linear(4096, 1000),
        )  # fmt: skip

    def forward(self, image: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(image).flatten(1))
        return scores
