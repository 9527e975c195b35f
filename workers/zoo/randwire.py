"""RandWire in its regular regime (Xie et al. 2019, Table 1): four randomly wired stages.

WS(4, 0.75) graphs, 16 nodes in the first stage and 32 in each of the three others, 154 channels in
the first and twice as many in each that follows: the network that IOS measures (its Table 2 counts
the three large stages). The graphs are our own draws; the seeds were chosen such that parameters
and multiply-adds lie within a standard deviation of the means that Xie et al. report.

A node adds what it reads, without the learned factor of each edge: IOS does so too, and it changes
neither the shapes nor what waits for what. Then follow ReLU, separable convolution and batch
normalisation, one schedule unit of IOS.
"""

from __future__ import annotations

from functools import reduce
from math import sqrt

import torch
from torch import Tensor, nn

from workers.zoo.wiring import Wiring, watts_strogatz

CHANNELS = 154
STAGE_NODES = (16, 32, 32, 32)
FIRST_SEED = 5


class Node(nn.Module):
    """Sum of ``fan_in`` tensors, ReLU, separable 3x3 convolution, batch normalisation."""

    def __init__(self, fan_in: int, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.fan_in = fan_in
        self.depthwise = nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, *given: Tensor) -> Tensor:
        x = torch.relu(_sum(given))
        y: Tensor = self.norm(self.pointwise(self.depthwise(x)))
        return y

    def temper(self) -> None:
        """The sum is as large as one tensor; no ReLU stands between the two convolutions."""
        self.pointwise.weight.div_(sqrt(2 * self.fan_in))


class Stage(nn.Module):
    """A wiring of Nodes, (N, inputs, H, W) → (N, outputs, H/2, W/2).

    Nodes that read no other read the stage's input, with a stride of 2; the result is the mean of
    those that no other reads.
    """

    def __init__(self, wiring: Wiring, inputs: int, outputs: int) -> None:
        super().__init__()
        self.wiring = wiring
        self.nodes = nn.ModuleList(
            Node(len(read), outputs, outputs, 1) if read else Node(1, inputs, outputs, 2)
            for read in wiring
        )
        read_by_some = {node for read in wiring for node in read}
        self.last = [node for node in range(len(wiring)) if node not in read_by_some]

    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        for node, read in zip(self.nodes, self.wiring, strict=True):
            found.append(node(*(found[other] for other in read)) if read else node(x))
        return _sum([found[node] for node in self.last]) / len(self.last)


class RandWire(nn.Module):
    """(N, 3, 224, 224) → (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        stem = CHANNELS // 2
        self.stem = nn.Sequential(
            nn.Conv2d(3, stem, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(stem)
        )
        self.stages = nn.Sequential()
        inputs = stem
        for number, nodes in enumerate(STAGE_NODES):
            outputs = CHANNELS * 2**number
            wiring = watts_strogatz(nodes, 4, 0.75, FIRST_SEED + number)
            self.stages.append(Stage(wiring, inputs, outputs))
            inputs = outputs
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv2d(inputs, 1280, 1, bias=False), nn.BatchNorm2d(1280)
        )
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = self.head(self.stages(self.stem(image)))
        scores: Tensor = self.classifier(x.mean(dim=(2, 3)))
        return scores


def _sum(tensors: tuple[Tensor, ...] | list[Tensor]) -> Tensor:
    return reduce(torch.add, tensors)
