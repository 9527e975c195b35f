"""What holds for every kernel provider."""

from __future__ import annotations

import pytest
import torch
from support.graphs import DIAMOND, SIDE, graph_of

from workers.devices.base import DeviceError
from workers.devices.providers import create
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(DeviceError, match="no kernel provider 'tvm'; known: aten"):
        create("tvm")


@pytest.mark.parametrize("name", ["aten"])
def test_units_compute_what_the_interpreter_says(name: str) -> None:
    graph = graph_of(DIAMOND)
    weights = {"w": torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(1)) / 3}
    values = random_inputs(graph, 0)
    expected = run_graph(graph, weights, values)
    provider = create(name)
    assert provider.name == name
    with torch.inference_mode():
        for unit in graph.units:
            compiled = provider.compile(graph, unit, weights, threads=1)
            results = compiled.function(*(values[read] for read in compiled.inputs))
            values |= dict(zip(compiled.outputs, results, strict=True))
    for output, tensor in expected.items():
        torch.testing.assert_close(values[output], tensor)
