"""The originals of every format, run by what their users have: in real sandboxed processes."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support import onnx_models
from support.model_files import write
from support.models import Branches, export_branches
from torch import Tensor, nn

from workers.alternatives.catalog import KINDS, AlternativeError, names
from workers.alternatives.opening import open_alternative
from workers.alternatives.separate import SeparateModel
from workers.devices.cpu_facts import read_cpu
from workers.graph.graph import Graph
from workers.graph.importers import torchscript
from workers.graph.importers.onnx.reference import reference
from workers.graph.importers.opened import Sizes
from workers.graph.importers.pt2 import import_program, run_original
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile, ModelSource, ZooModel
from workers.graph.random_inputs import random_inputs
from workers.measure.compare import Care, compare
from workers.measure.tolerance import compare_outputs

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=250)
BATCH = 2
ONE_CORE = (min(os.sched_getaffinity(0)),)
Opening = Callable[[str, ModelSource, Graph], AbstractContextManager[SeparateModel]]


@pytest.fixture
def opening(tmp_path: Path) -> Opening:
    def open_one(
        name: str, source: ModelSource, graph: Graph
    ) -> AbstractContextManager[SeparateModel]:
        return open_alternative(name, source, graph, BATCH, tmp_path / "w", LIMITS, ONE_CORE)

    return open_one


class Small(nn.Module):
    """As little as there is to compile."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * 2).relu() + 1


def exported(model: nn.Module, path: Path) -> tuple[ModelFile, Graph]:
    example = torch.randn(BATCH, 8)
    program = torch.export.export(model, (example,))
    torch.export.save(program, path)
    return ModelFile(path, "pt2"), import_program(program, BATCH)[0]


def check_outputs(found: Mapping[str, Tensor], graph: Graph, expected: list[Tensor]) -> None:
    for name, right in zip(graph.outputs, expected, strict=True):
        assert compare_outputs(found[name], right)[1] is None


def test_an_exported_program_runs_eagerly(opening: Opening, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    export_branches(path)
    program = torch.export.load(path)
    graph, _ = import_program(program, BATCH)
    with opening("eager", ModelFile(path, "pt2"), graph) as alternative:
        for seed in (3, 4):
            inputs = random_inputs(graph, seed)
            expected = run_original(program, BATCH, [seed])[0]
            check_outputs(alternative.run(inputs), graph, list(expected.values()))
        latencies = alternative.time(inputs, 4)
        assert len(latencies) == 4
        assert min(latencies) > 0
        assert "limits" in alternative.isolation
    assert not list((tmp_path / "w").iterdir())
    with pytest.raises(AlternativeError, match="eager: its process has ended"):
        alternative.run(inputs)


def test_torchscript_runs_eagerly_and_is_not_compiled(opening: Opening, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, example = Branches().eval(), torch.randn(BATCH, 3, 16, 16)
    path = write("torchscript", model, example, (), tmp_path / "model.pt")
    graph, _ = torchscript.open_model(path, Sizes(BATCH), 1 << 30).graph()
    source = ModelFile(path, "torchscript")
    assert names(source, read_cpu()) == ("eager",)
    inputs = random_inputs(graph, 3)
    with opening("eager", source, graph) as alternative:
        expected = model(*inputs.values()).detach()
        check_outputs(alternative.run(inputs), graph, [expected])


@pytest.mark.parametrize("name", ["onnxruntime", "onnxruntime parallel"])
def test_an_onnx_file_runs_in_onnx_runtime(name: str, opening: Opening, tmp_path: Path) -> None:
    path = onnx_models.written(onnx_models.convolutions("batch"), tmp_path)
    graph, _ = onnx_models.opened(path, BATCH).graph()
    inputs = random_inputs(graph, 3)
    source = ModelFile(path, "onnx")
    assert name in names(source, read_cpu())
    with opening(name, source, graph) as alternative:
        check_outputs(alternative.run(inputs), graph, reference(path)(inputs))
        assert alternative.time(inputs, 1)[0] > 0


def test_torch_compile_compiles_in_the_sandbox(opening: Opening, tmp_path: Path) -> None:
    source, graph = exported(Small(), tmp_path / "model.pt2")
    inputs = random_inputs(graph, 3)
    with opening("torch.compile", source, graph) as alternative:
        check_outputs(alternative.run(inputs), graph, [Small()(*inputs.values())])
        kernels = list((tmp_path / "w").glob("sandbox-*/scratch/inductor/**/*.so"))
        assert kernels, "nothing was compiled"


def test_alternatives_are_compared_like_any_other_contender(
    opening: Opening, tmp_path: Path
) -> None:
    path = onnx_models.written(onnx_models.convolutions("batch"), tmp_path)
    graph, _ = onnx_models.opened(path, BATCH).graph()
    source, inputs = ModelFile(path, "onnx"), random_inputs(graph, 3)
    care = Care(min_rounds=1, max_rounds=1, limit_s=0.1, warm_up_ms=1)
    with (
        opening("onnxruntime", source, graph) as first,
        opening("onnxruntime parallel", source, graph) as second,
    ):
        found = compare({"one": first, "two": second}, inputs, "one", care)
    assert found["two"].measurement.latency_ms > 0


def test_a_model_of_another_batch_size_is_no_alternative(opening: Opening, tmp_path: Path) -> None:
    path = onnx_models.written(onnx_models.convolutions(1), tmp_path)
    graph, _ = onnx_models.opened(path, BATCH).graph()
    with (
        pytest.raises(AlternativeError, match="takes batch size 1 only, and the job asks for 2"),
        opening("onnxruntime", ModelFile(path, "onnx"), graph),
    ):
        pass


def test_what_is_lacking_is_a_reason(
    opening: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    source, graph = exported(Small(), tmp_path / "model.pt2")
    with (
        pytest.raises(AlternativeError, match="there is no no-such-compiler"),
        opening("torch.compile", source, graph),
    ):
        pass


def test_what_its_process_used_is_counted_as_ours(opening: Opening, tmp_path: Path) -> None:
    """Or the noise guard would take importing PyTorch for somebody else's work."""
    path = onnx_models.written(onnx_models.convolutions("batch"), tmp_path)
    graph, _ = onnx_models.opened(path, BATCH).graph()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with opening("onnxruntime", ModelFile(path, "onnx"), graph):
        pass
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before > 0.3


def test_an_unknown_alternative_is_named(opening: Opening) -> None:
    graph = Graph("empty", {}, (), (), (), ())
    with (
        pytest.raises(AlternativeError, match=r"'tensorrt'; known: eager, torch\.compile"),
        opening("tensorrt", ZooModel("squeezenet"), graph),
    ):
        pass


def test_which_alternatives_a_model_has() -> None:
    cpu = read_cpu()
    simulated = replace(cpu, name="sim:a100", kind="sim", simulated=True)
    gpu = replace(cpu, name="cuda:0", kind="cuda")
    torch_ones = ("eager", "torch.compile", "torch.compile max-autotune")
    onnx_ones = ("onnxruntime", "onnxruntime parallel")
    assert set(torch_ones + onnx_ones) == set(KINDS)
    for facts in (cpu, gpu):
        assert names(ZooModel("squeezenet"), facts) == torch_ones
        assert names(ModelFile(Path("a.pt2"), "pt2"), facts) == torch_ones
        assert names(ModelFile(Path("a.onnx"), "onnx"), facts) == onnx_ones
        assert names(ModelFile(Path("a.zip"), "onnx.zip"), facts) == onnx_ones
    assert names(ZooModel("squeezenet"), simulated) == ()


def test_a_model_that_takes_too_long_to_prepare_is_given_up(tmp_path: Path) -> None:
    source, graph = exported(Small(), tmp_path / "model.pt2")
    started = time.monotonic()
    with (
        pytest.raises(AlternativeError, match=r"eager: the model was not ready within 0\.2 s"),
        open_alternative("eager", source, graph, BATCH, tmp_path, LIMITS, ONE_CORE, seconds=0.2),
    ):
        pass
    assert time.monotonic() - started < 20
