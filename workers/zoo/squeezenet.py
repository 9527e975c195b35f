"""SqueezeNet 1.0 with complex bypass (Iandola et al. 2016, Table 1 and Figure 2, right).

The variant of IOS's evaluation: 224 px, 1x1 convolutions where a bypass changes the channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Fire(nn.Module):
    """squeeze 1x1, then expand 1x1 and 3x3 side by side; ``bypass`` adds the input around both."""

    def __init__(self, inputs: int, squeeze: int, expand: int, bypass: str) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.bypass: nn.Module | None = None
        if bypass == "convolution":
            self.bypass = nn.Conv2d(inputs, 2 * expand, 1)
        elif bypass == "identity":
            self.bypass = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        squeezed = torch.relu(self.squeeze(x))
        expanded = torch.cat(
            [torch.relu(self.expand1x1(squeezed)), torch.relu(self.expand3x3(squeezed))], dim=1
        )
        return expanded if self.bypass is None else expanded + self.bypass(x)


class SqueezeNet(nn.Module):
    """(N, 3, 224, 224) → (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 96, 7, stride=2)
        self.fire2 = Fire(96, 16, 64, "convolution")
        self.fire3 = Fire(128, 16, 64, "identity")
        self.fire4 = Fire(128, 32, 128, "convolution")
        self.fire5 = Fire(256, 32, 128, "identity")
        self.fire6 = Fire(256, 48, 192, "convolution")
        self.fire7 = Fire(384, 48, 192, "identity")
        self.fire8 = Fire(384, 64, 256, "convolution")
        self.fire9 = Fire(512, 64, 256, "identity")
        self.conv10 = nn.Conv2d(512, 1000, 1)

    def forward(self, image: Tensor) -> Tensor:
        x = self._pool(torch.relu(self.conv1(image)))
        x = self._pool(self.fire4(self.fire3(self.fire2(x))))
        x = self._pool(self.fire8(self.fire7(self.fire6(self.fire5(x)))))
        x = torch.relu(self.conv10(self.fire9(x)))
        return x.mean(dim=(2, 3))

    @staticmethod
    def _pool(x: Tensor) -> Tensor:
        return nn.functional.max_pool2d(x, 3, stride=2, ceil_mode=True)
