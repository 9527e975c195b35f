"""What every importer must do, whatever the format: one suite over all of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from support.model_files import ENDINGS, Nothing, Ordered, Tokens, write
from support.models import Branches
from torch import Tensor, nn

from workers.graph.graph import Graph
from workers.graph.importers import import_model, reference_outputs
from workers.graph.importers.catalog import FORMATS
from workers.graph.importers.opened import OpenedModel, Opener, Sizes
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ImportFailure, ModelFile
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=120)
SEEDS = [11, 12]


class Case(NamedTuple):
    model: Callable[[], nn.Module]
    example: Tensor
    words: tuple[str | None, ...] = ()


CASES = {
    "branches": Case(Branches, torch.zeros(1, 3, 16, 16)),
    "tokens": Case(Tokens, torch.zeros(2, 5, dtype=torch.int64), ("batch", "sequence")),
    "ordered": Case(Ordered, torch.zeros(2, 3)),
    "nothing": Case(Nothing, torch.zeros(2, 3)),
}


def made(case: str) -> nn.Module:
    torch.manual_seed(0)
    return CASES[case].model().eval()


@pytest.fixture(scope="module", params=FORMATS)
def file_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def file(file_format: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModelFile]:
    """A case's model in the format."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def written(case: str) -> ModelFile:
        path = folder / f"{case.replace(' ', '-')}{ENDINGS[file_format]}"
        write(file_format, made(case), CASES[case].example, CASES[case].words, path)
        return ModelFile(path, file_format)

    return written


def opened(source: ModelFile, batch: int, length: int | None = None) -> OpenedModel:
    """The model without the sandbox around it."""
    opener: Opener = importlib.import_module(FORMATS[source.format]).open_model
    return opener(source.path, Sizes(batch, length), LIMITS.memory_bytes)


def check(
    case: str, graph: Graph, weights: Mapping[str, Tensor], references: list[dict[str, Tensor]]
) -> None:
    """The Graph and the original compute what the torch module does, on inputs of SEEDS."""
    module = made(case)
    for seed, reference in zip(SEEDS, references, strict=True):
        inputs = random_inputs(graph, seed)
        with torch.inference_mode():
            outputs = module(*inputs.values())
        expected = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        computed = run_graph(graph, weights, inputs)
        results = [computed[name] for name in graph.outputs]
        torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-5)
        assert list(reference) == [f"output_{index}" for index in range(len(expected))]
        torch.testing.assert_close(list(reference.values()), expected, rtol=1e-4, atol=1e-5)


def refusal(
    path: Path, file_format: str, batch: int = 1, length: int | None = None
) -> ImportFailure:
    with pytest.raises(ImportFailure) as caught:
        opened(ModelFile(path, file_format), batch, length).graph()
    return caught.value


def test_a_model_of_a_fixed_batch_is_specialised_to_another(
    file: Callable[[str], ModelFile], tmp_path: Path
) -> None:
    source = file("branches")
    model = import_model(source, 3, tmp_path, LIMITS)
    check(
        "branches",
        model.graph,
        model.weights,
        reference_outputs(source, 3, SEEDS, tmp_path, LIMITS),
    )
    assert model.graph.values[model.graph.inputs[0]].shape == (3, 3, 16, 16)
    assert model.graph.values[model.graph.outputs[0]].shape == (3, 10)
    assert "limits" in model.isolation


def test_open_dimensions_get_the_job_s_sizes(file: Callable[[str], ModelFile]) -> None:
    batch, length = 3, 7
    model = opened(file("tokens"), batch, length)
    graph, weights = model.graph()
    check("tokens", graph, weights, model.run(SEEDS))
    assert graph.values[graph.inputs[0]].shape == (batch, length)
    assert graph.values[graph.outputs[0]].shape == (batch, length, 4)
    again, same_weights = opened(file("tokens"), batch, length).graph()
    assert again == graph
    assert same_weights.keys() == weights.keys()


def test_outputs_keep_their_order_and_may_be_the_same(file: Callable[[str], ModelFile]) -> None:
    model = opened(file("ordered"), 2)
    graph, weights = model.graph()
    check("ordered", graph, weights, model.run(SEEDS))
    assert len(graph.outputs) == 4


def test_a_model_that_computes_nothing_is_refused(
    file: Callable[[str], ModelFile], file_format: str
) -> None:
    if file_format.startswith("onnx"):
        model = opened(file("nothing"), 2)  # in ONNX it has one operator, Identity
        check("nothing", *model.graph(), model.run(SEEDS))
        return
    failure = refusal(file("nothing").path, file_format, 2)
    assert failure.kind == "malformed"
    assert "no operators" in failure.detail


@pytest.mark.parametrize("part", [0, 100, 0.99])
def test_a_file_that_is_cut_off_is_malformed(
    file: Callable[[str], ModelFile], file_format: str, tmp_path: Path, part: float
) -> None:
    whole = file("branches").path.read_bytes()
    path = tmp_path / f"cut{ENDINGS[file_format]}"
    path.write_bytes(whole[: part if isinstance(part, int) else int(part * len(whole))])
    failure = refusal(path, file_format)
    assert failure.kind == "malformed"
    assert "export" in failure.detail or "save" in failure.detail or "pack" in failure.detail


@pytest.mark.parametrize("content", [b"a text, and no model\n" * 50, bytes(4096), b"PK\x03\x04"])
def test_a_file_that_is_no_model_is_malformed(
    file_format: str, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / f"other{ENDINGS[file_format]}"
    path.write_bytes(content)
    assert refusal(path, file_format).kind == "malformed"


@pytest.mark.parametrize("other", FORMATS)
def test_a_file_of_another_format_is_malformed(
    file_format: str, other: str, tmp_path: Path
) -> None:
    if other == file_format:
        return
    source = tmp_path / f"source{ENDINGS[other]}"
    write(other, nn.Linear(2, 3), torch.zeros(1, 2), (), source)
    path = source.rename(tmp_path / f"renamed{ENDINGS[file_format]}")
    failure = refusal(path, file_format)
    assert failure.kind == "malformed"
    assert len(failure.detail) > 20
