"""What holds for every kernel provider."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.unit_graphs import UNITS, unit_graph
from torch import Tensor

from workers.devices.base import PROVIDERS, DeviceError
from workers.devices.cpu_facts import read_cpu
from workers.devices.providers import create
from workers.graph.graph import Graph
from workers.graph.interpreter import observed, run_graph
from workers.graph.random_inputs import random_inputs


@pytest.fixture(scope="module", autouse=True)
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLAIT_KERNEL_CACHE", str(folder))
        yield folder


def computed(
    provider: str, graph: Graph, weights: dict[str, Tensor], inputs: dict[str, Tensor]
) -> dict[str, Tensor]:
    values = dict(inputs)
    kernels = create(provider)
    with torch.inference_mode():
        for unit in graph.units:
            compiled = kernels.compile(graph, unit, weights, threads=1)
            results = compiled.function(*(values[name] for name in compiled.inputs))
            values |= dict(zip(compiled.outputs, results, strict=True))
    return {name: values[name] for name in graph.outputs}


def test_providers_are_known_by_their_names() -> None:
    for name in PROVIDERS:
        assert create(name).name == name
    with pytest.raises(DeviceError, match="no kernel provider 'tvm'; known: aten, inductor, onnx"):
        create("tvm")


def test_a_machine_without_a_compiler_has_no_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_cpu().providers == PROVIDERS
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert read_cpu().providers == ("aten", "onnxruntime")


@pytest.mark.parametrize("case", UNITS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_units_compute_what_the_interpreter_says(provider: str, case: str) -> None:
    graph, weights = unit_graph(case)
    inputs = random_inputs(graph, 0)
    kept = {name: tensor.clone() for name, tensor in {**weights, **inputs}.items()}
    expected = run_graph(graph, weights, inputs)
    # Twice, and from values that lie otherwise in memory.
    for given in (inputs, {name: _strided(tensor) for name, tensor in inputs.items()}):
        found = computed(provider, graph, weights, given)
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)
    for name, tensor in {**weights, **inputs}.items():
        assert torch.equal(tensor, kept[name])


def _strided(tensor: Tensor) -> Tensor:
    """The same values, the last dimension the slowest."""
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_unit_tells_of_the_calls_that_it_makes(provider: str) -> None:
    graph, weights = unit_graph("elementwise")
    (unit,) = graph.units
    inputs = random_inputs(graph, 0)
    calls: list[tuple[str, int]] = []

    def seen(name: str, start: int, end: int, results: object) -> None:
        calls.append((name, end - start))

    with torch.inference_mode():
        compiled = create(provider).compile(graph, unit, weights, threads=1)
        observed(compiled, seen).function(*(inputs[name] for name in compiled.inputs))
    assert all(took >= 0 for _, took in calls)
    if provider == "aten":
        assert [name for name, _ in calls] == [operator.target for operator in unit.operators]
    else:
        assert len(calls) == 1
