"""The networks that the benchmarks of scheduling run on, as graphs; no weights are kept."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

from workers import zoo
from workers.graph.graph import Graph, Unit
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise

SAMPLE = "sample"


class Sample(nn.Module):
    """IOS's sample network, Figure 2: three convolutions side by side, one of them continued."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.third = self._layer(375, 375), self._layer(375, 375)
        self.second, self.fourth = self._layer(375, 750), self._layer(375, 750)

    @staticmethod
    def _layer(channels: int, filters: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        parts = [self.fourth(self.first(image)), self.second(image), self.third(image)]
        return torch.cat(parts, dim=1)


@cache
def model(name: str) -> Graph:
    """A model of the zoo, or IOS's sample network, at batch 1."""
    print(f"importing {name}", file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        if name == SAMPLE:
            program = torch.export.export(Sample().eval(), (torch.zeros(1, 375, 15, 15),))
        else:
            program = zoo.program(name, 1)
    return optimise(*import_program(program, 1), merge_common=False)[0]


@cache
def at_batch(name: str, batch: int) -> Graph:
    """The model with every value's first dimension ``batch``."""
    return with_batch(model(name), batch)


def with_batch(graph: Graph, batch: int) -> Graph:
    """The graph with every value's first dimension ``batch``: kernels follow from shapes."""
    weights = set(graph.weights)
    values = {
        value: spec if value in weights else replace(spec, shape=(batch, *spec.shape[1:]))
        for value, spec in graph.values.items()
    }
    return replace(graph, values=values)


def sample_order(graph: Graph) -> list[Unit]:
    """The sample network's Units as IOS numbers them from 1: 375 filters (continued), 750, 375
    (joined at once), 750, the join."""
    source = [unit for unit in graph.units if graph.inputs[0] in unit.inputs]
    join = graph.units[-1]
    wide = next(u for u in source if graph.values[u.outputs[0]].shape[1] == 750)
    narrow = [u for u in source if u is not wide]
    joined = next(u for u in narrow if u.outputs[0] in join.inputs)
    continued = next(u for u in narrow if u is not joined)
    last = next(u for u in graph.units if continued.outputs[0] in u.inputs)
    return [continued, wide, joined, last, join]
