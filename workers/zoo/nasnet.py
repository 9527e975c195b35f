"""NASNet-A (Zoph et al. 2018, Figure 4 and appendix A): cells of five sums of two branches.

``N @ F`` in the paper's notation: N normal cells between reductions, F filters after the last.
A branch runs its separable convolution twice, each time as ReLU, depthwise, pointwise and batch
normalisation, which is one schedule unit of IOS (Table 2).
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d


class ReluConv(nn.Module):
    """ReLU, 1x1 convolution, batch normalisation. With a stride of 2 and ``shift``, it reads the
    odd rows and columns (0 beyond the edge) where it would read the even ones."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, *, shift: bool = False) -> None:
        super().__init__()
        self.shift = shift
        self.conv = nn.Conv2d(inputs, outputs, 1, stride, padding=int(shift), bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(torch.relu(x)))
        return y[:, :, 1:, 1:] if self.shift else y

    def temper(self) -> None:
        """A cell's result is a sum of two branches: halve its variance on the way in."""
        self.norm.weight.div_(sqrt(2))


class SepConv(nn.Module):
    """ReLU, depthwise and pointwise convolution, batch normalisation."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        half = kernel // 2
        self.depthwise = nn.Conv2d(inputs, inputs, kernel, stride, half, groups=inputs, bias=False)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.pointwise(self.depthwise(torch.relu(x))))
        return y

    def temper(self) -> None:
        """No ReLU stands between the two convolutions."""
        self.pointwise.weight.div_(sqrt(2))


class Branch(nn.Sequential):
    """The separable convolution that a cell names, twice; the first takes the stride."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            SepConv(inputs, outputs, kernel, stride), SepConv(outputs, outputs, kernel, 1)
        )


class FactorizedReduction(nn.Module):
    """Halves height and width without losing what a stride skips: two strided 1x1 convolutions,
    the second of them one pixel further down and right."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.even = ReluConv(inputs, outputs // 2, stride=2)
        self.odd = ReluConv(inputs, outputs // 2, stride=2, shift=True)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.even(x), self.odd(x)], dim=1)


class NormalCell(nn.Module):
    """Figure 4, left. ``left`` brings the cell before the previous one to this cell's size."""

    def __init__(self, left: nn.Module, current: int, filters: int) -> None:
        super().__init__()
        self.left = left
        self.right = ReluConv(current, filters)
        self.five_right = Branch(filters, filters, 5)
        self.three_left = Branch(filters, filters, 3)
        self.five_left = Branch(filters, filters, 5)
        self.three_left_again = Branch(filters, filters, 3)
        self.three_right = Branch(filters, filters, 3)

    def forward(self, previous: Tensor, current: Tensor) -> Tensor:
        left, right = self.left(previous), self.right(current)
        sums = [
            self.five_right(right) + self.three_left(left),
            self.five_left(left) + self.three_left_again(left),
            _average(right) + left,
            _average(left) + _average(left),  # both, as published
            self.three_right(right) + right,
        ]
        return torch.cat([left, *sums], dim=1)


class ReductionCell(nn.Module):
    """Figure 4, right: halves height and width. ``left`` as in NormalCell; it has
    ``left_filters`` channels."""

    def __init__(self, left: nn.Module, left_filters: int, right: nn.Module, filters: int) -> None:
        super().__init__()
        self.left = left
        self.right = right
        self.five_right = Branch(filters, filters, 5, stride=2)
        self.seven_left = Branch(left_filters, filters, 7, stride=2)
        self.seven_left_again = Branch(left_filters, filters, 7, stride=2)
        self.five_left = Branch(left_filters, filters, 5, stride=2)
        self.three_first = Branch(filters, filters, 3)

    def forward(self, previous: Tensor, current: Tensor) -> Tensor:
        left, right = self.left(previous), self.right(current)
        first = self.five_right(right) + self.seven_left(left)
        second = _maximum(right) + self.seven_left_again(left)
        third = _average(right, stride=2) + self.five_left(left)
        fourth = _average(first) + second
        fifth = self.three_first(first) + _maximum(right)
        return torch.cat([second, third, fourth, fifth], dim=1)


class NASNet(nn.Module):
    """(N, 3, H, W) → (N, classes).

    Without ``stem_cells`` (CIFAR-10) the stem is one convolution of ``stem`` channels; with them
    (ImageNet) it halves the size, and two reduction cells with a quarter and a half of the
    ``filters`` follow. Each of the three stages has ``repeats`` normal cells, at least two: the
    reduction after them expects two results of the same size.
    """

    def __init__(
        self, repeats: int, filters: int, stem: int, classes: int, *, stem_cells: bool
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, stem, 3, 2 if stem_cells else 1, 0 if stem_cells else 1, bias=False),
            nn.BatchNorm2d(stem, eps=0.001),
        )
        cells: list[nn.Module] = []
        before, last = stem, stem  # the channels of the two most recent results
        shrunk = False  # whether the older of the two is twice as large
        if stem_cells:
            quarter, half = filters // 4, filters // 2
            cells.append(ReductionCell(nn.Identity(), stem, ReluConv(stem, quarter), quarter))
            before, last = stem, 4 * quarter
            cells.append(
                ReductionCell(FactorizedReduction(before, half), half, ReluConv(last, half), half)
            )
            before, last, shrunk = last, 4 * half, True
        for stage in range(3):
            width = filters * 2**stage
            if stage:
                cells.append(
                    ReductionCell(ReluConv(before, width), width, ReluConv(last, width), width)
                )
                before, last, shrunk = last, 4 * width, True
            for _ in range(repeats):
                left: nn.Module = (
                    FactorizedReduction(before, width) if shrunk else ReluConv(before, width)
                )
                cells.append(NormalCell(left, last, width))
                before, last, shrunk = last, 6 * width, False
        self.cells = nn.ModuleList(cells)
        self.classifier = nn.Linear(last, classes)

    def forward(self, image: Tensor) -> Tensor:
        current = self.stem(image)
        previous = current
        for cell in self.cells:
            previous, current = current, cell(previous, current)
        scores: Tensor = self.classifier(torch.relu(current).mean(dim=(2, 3)))
        return scores


def _average(x: Tensor, stride: int = 1) -> Tensor:
    return avg_pool2d(x, 3, stride, padding=1, count_include_pad=False)


def _maximum(x: Tensor) -> Tensor:
    return max_pool2d(x, 3, stride=2, padding=1)


def nasnet_a_large() -> NASNet:
    """6 @ 4032 for ImageNet at 331 px (Table 2)."""
    return NASNet(repeats=6, filters=168, stem=96, classes=1000, stem_cells=True)


def nasnet_a_cifar() -> NASNet:
    """6 @ 768 for CIFAR-10 (Table 1)."""
    return NASNet(repeats=6, filters=32, stem=96, classes=10, stem_cells=False)
