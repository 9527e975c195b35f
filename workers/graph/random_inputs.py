"""Random inputs of a graph, the same on both sides of the sandbox for the same seed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from workers.graph.graph import Graph, TensorSpec

LARGEST_INDEX = 2  # valid for any embedding of at least two rows


def random_inputs(graph: Graph, seed: int) -> dict[str, Tensor]:
    """Standard normal floating-point inputs, small indices, fair booleans, by input name."""
    return random_tensors({name: graph.values[name] for name in graph.inputs}, seed)


def random_tensors(specs: Mapping[str, TensorSpec], seed: int) -> dict[str, Tensor]:
    """One tensor for each specification, in the mapping's order."""
    generator = torch.Generator().manual_seed(seed)
    return {name: _random_tensor(spec, generator) for name, spec in specs.items()}


def _random_tensor(spec: TensorSpec, generator: torch.Generator) -> Tensor:
    dtype: torch.dtype = getattr(torch, spec.dtype)
    if dtype.is_floating_point:
        return torch.randn(spec.shape, generator=generator).to(dtype)
    return torch.randint(0, LARGEST_INDEX, spec.shape, generator=generator).to(dtype)
