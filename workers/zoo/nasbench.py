"""Random networks of NAS-Bench-101 (Ying et al. 2019, Section 2).

Rammer schedules 5,000 of them, "up to 9 operators and 7 edges"; the benchmark's own limits, used
here, are 7 vertices, with input and output, and 9 edges. Most of its
cells have all seven vertices; ours always have.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workers.zoo.layers import ConvNorm

VERTICES, MOST_EDGES = 7, 9
LABELS = ("conv3x3", "conv1x1", "maxpool3x3")
STEM, STACKS, CELLS, CLASSES = 128, 3, 3, 10


@dataclass(frozen=True, slots=True)
class CellGraph:
    """A cell: ``reads[v]`` are the vertices that vertex ``v`` reads, all of them before it.

    Vertex 0 is the cell's input, the last its output, and every other is on a path between the two.
    ``labels[v]`` says what vertex ``v`` computes; that of the first and last is empty.
    """

    reads: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]

    @property
    def edges(self) -> int:
        return sum(map(len, self.reads))

    def channels(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Each vertex's channels: those that the output reads share its channels
        evenly, the first ones taking what is left over; any other has as many as the widest vertex
        that reads it."""
        last = len(self.reads) - 1
        joined = [vertex for vertex in self.reads[last] if vertex]
        widths = [inputs, *[0] * (last - 1), outputs]
        for number, vertex in enumerate(joined):
            widths[vertex] = outputs // len(joined) + (number < outputs % len(joined))
        for vertex in reversed(range(1, last)):
            if vertex not in joined:
                readers = (reader for reader in range(last) if vertex in self.reads[reader])
                widths[vertex] = max(widths[reader] for reader in readers)
        return tuple(widths)


def draw(seed: int) -> CellGraph:
    """A cell of the largest size: each of 7 vertices reads each earlier one with probability 1/2,
    until a draw has no more than MOST_EDGES edges and every vertex on a path from input to output.
    The same in every version of Python."""
    draws = random.Random(seed)  # noqa: S311  # a benchmark, not a secret
    while True:
        reads = tuple(
            tuple(earlier for earlier in range(vertex) if draws.random() < 0.5)
            for vertex in range(VERTICES)
        )
        if sum(map(len, reads)) <= MOST_EDGES and _all_on_paths(reads):
            break
    labels = (LABELS[int(draws.random() * len(LABELS))] for _ in range(VERTICES - 2))
    return CellGraph(reads, ("", *labels, ""))


def _all_on_paths(reads: tuple[tuple[int, ...], ...]) -> bool:
    """Whether each vertex but the first reads one, and each but the last is read."""
    return all(reads[1:]) and len({u for read in reads for u in read}) == len(reads) - 1


class Cell(nn.Module):
    """(N, inputs, H, W) → (N, outputs, H, W).

    A vertex adds what it reads: the cell's input after a 1x1 convolution that brings it to the
    vertex's channels, and of others as many of the first channels as it has itself. The output
    concatenates, and adds the cell's input, likewise projected, if it reads that.
    """

    def __init__(self, graph: CellGraph, inputs: int, outputs: int) -> None:
        super().__init__()
        self.graph = graph
        self.widths = graph.channels(inputs, outputs)
        self.projections = nn.ModuleDict()
        self.operators = nn.ModuleList()
        for vertex, (read, label) in enumerate(zip(graph.reads, graph.labels, strict=True)):
            width = self.widths[vertex]
            if 0 in read:
                self.projections[str(vertex)] = ConvNorm(inputs, width, 1)
            self.operators.append(_operator(label, width))

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        last = len(self.graph.reads) - 1
        for vertex in range(1, last):
            terms = [found[u][:, : self.widths[vertex]] for u in self.graph.reads[vertex] if u]
            found.append(self.operators[vertex](self._sum(x, vertex, terms)))
        joined = [found[u] for u in self.graph.reads[last] if u]
        return self._sum(x, last, [torch.cat(joined, dim=1)] if len(joined) > 1 else joined)

    def temper(self) -> None:
        """What ReLU leaves is positive: its sums grow with the number of terms."""
        for vertex, operator in enumerate(self.operators):
            terms = max(len(self.graph.reads[vertex]), 1)
            for module in operator.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.weight.div_(terms)

    def _sum(self, x: Tensor, vertex: int, terms: list[Tensor]) -> Tensor:
        if 0 in self.graph.reads[vertex]:
            terms = [self.projections[str(vertex)](x), *terms]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


class NasBench(nn.Module):
    """(N, 3, 32, 32) → (N, 10): a convolution, three stacks of three cells, a classifier. Pooling
    between stacks halves height and width, and the channels double."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        graph = draw(seed)
        self.features = nn.Sequential(ConvNorm(3, STEM, 3))
        inputs = STEM
        for stack in range(STACKS):
            outputs = STEM * 2**stack
            if stack:
                self.features.append(nn.MaxPool2d(2))
            for _ in range(CELLS):
                self.features.append(Cell(graph, inputs, outputs))
                inputs = outputs
        self.classifier = nn.Linear(inputs, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(image).mean(dim=(2, 3)))
        return scores


def _operator(label: str, width: int) -> nn.Module:
    if label == "maxpool3x3":
        return nn.MaxPool2d(3, stride=1, padding=1)
    return ConvNorm(width, width, int(label[-1])) if label else nn.Identity()
