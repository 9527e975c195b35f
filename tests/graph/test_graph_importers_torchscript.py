"""TorchScript as Graphs: what shapes its inputs get, and what is refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from workers.graph.graph import Graph
from workers.graph.importers.declared import ENTRY
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure
from workers.graph.importers.torchscript import ScriptModel, open_model
from workers.graph.interpreter import run_graph
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs

MEMORY = 1 << 30
SEED = 5

pytestmark = pytest.mark.filterwarnings("ignore")  # that TorchScript is deprecated


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class Mix(nn.Module):
    """(batch, time, 4) to the same, with every time step looking at all the others."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        mixed: Tensor = self.line(x).softmax(1) * x * scale
        return mixed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pt"


def example(*shape: int) -> Tensor:
    return torch.randn(shape or (2, 8, 6, 6), generator=torch.Generator().manual_seed(0))


def traced(path: Path, model: nn.Module, *inputs: Tensor, **extra: str) -> Path:
    torch.manual_seed(0)
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.trace(model.eval(), inputs, strict=False)
    torch.jit.save(module, path, _extra_files=extra)
    return path


def opened(path: Path, batch: int, length: int | None = None) -> ScriptModel:
    return open_model(path, Sizes(batch, length), MEMORY)


def check(model: ScriptModel) -> Graph:
    graph, weights = model.graph()
    inputs = random_inputs(graph, SEED)
    (expected,) = model.run([SEED])
    optimised, new_weights = optimise(graph, weights)
    for imported, tensors in ((graph, weights), (optimised, new_weights)):
        found = run_graph(imported, tensors, inputs)
        results = [found[name] for name in imported.outputs]
        torch.testing.assert_close(results, list(expected.values()), rtol=1e-4, atol=1e-5)
    return graph


def refusal(path: Path, batch: int = 2, length: int | None = None) -> ImportFailure:
    with pytest.raises(ImportFailure) as caught:
        opened(path, batch, length).graph()
    return caught.value


MODELS: dict[str, tuple[nn.Module, Tensor]] = {
    "convolutions": (
        nn.Sequential(
            nn.Conv2d(8, 4, 3, padding="same"),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(4, 6, 2, stride=2),
            nn.MaxPool2d(2),
            nn.Dropout(),
            nn.Flatten(),
        ),
        example(),
    ),
    "lstm": (nn.LSTM(8, 4, batch_first=True), example(2, 3, 8)),
    "norms": (nn.Sequential(nn.GroupNorm(2, 8), nn.LayerNorm(6), nn.GELU()), example()),
    "size of the input": (Function(lambda x: x.view(x.shape[0], -1) * x.size(1)), example()),
    "size through a tensor": (
        Function(lambda x: x[:, : x.shape[1] // 2] + x[:, x.shape[1] // 2 :]),
        example(),
    ),
    "nested outputs": (Function(lambda x: (x + 1, [x * 2, x.sum(1)])), example()),
    "in place": (Function(lambda x: (x * 2).add_(1).relu_()), example()),
    "embedding": (nn.Embedding(10, 4), torch.zeros(2, 5, dtype=torch.int64)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_traced_module_is_called_as_traced_but_for_the_batch(path: Path, name: str) -> None:
    model, inputs = MODELS[name]
    graph = check(opened(traced(path, model, inputs), 3))
    assert graph.values[graph.inputs[0]].shape == (3, *inputs.shape[1:])


def test_a_batch_that_the_trace_wrote_down_is_refused(path: Path) -> None:
    traced(path, Function(lambda x: x.view(2, -1) + 1), example(2, 6))
    check(opened(path, 2))
    failure = refusal(path, 3)
    assert failure.kind == "unsupported_batch"
    assert "batch size 2 only" in failure.detail


def test_a_batch_that_breaks_the_trace_is_refused(path: Path) -> None:
    traced(path, Function(lambda x: x.view(2, 6) + 1), example(2, 6))
    failure = refusal(path, 3)
    assert failure.kind == "unsupported_batch"
    assert "invalid for input of size 18" in failure.detail


def declared(**shapes: list[int | str]) -> str:
    return json.dumps({name: {"shape": s, "dtype": "float32"} for name, s in shapes.items()})


def test_declared_inputs_get_both_sizes(path: Path) -> None:
    text = declared(x=["batch", "sequence", 4], scale=[4])
    traced(path, Mix(), example(2, 5, 4), example(4), **{ENTRY: text})
    graph = check(opened(path, 3, 7))
    assert [graph.values[name].shape for name in graph.inputs] == [(3, 7, 4), (4,)]
    assert "ask for a sequence length" in refusal(path, 3).detail


def test_a_scripted_module_declares_its_inputs(path: Path) -> None:
    module = torch.jit.script(Mix())
    torch.jit.save(module, path)
    failure = refusal(path)
    assert failure.kind == "unsupported_input"
    assert "'x'" in failure.detail
    assert ENTRY in failure.detail
    text = declared(x=["batch", 5, 4], scale=[4])
    torch.jit.save(module, path, _extra_files={ENTRY: text})
    check(opened(path, 3))


def test_a_sequence_length_without_a_place_is_refused(path: Path) -> None:
    traced(path, Mix(), example(2, 5, 4), example(4))
    assert "no such dimension open" in refusal(path, 2, 7).detail
    traced(path, Mix(), example(2, 5, 4), example(4), **{ENTRY: declared(x=[2, 5, 4], scale=[4])})
    assert "declares none" in refusal(path, 1, 7).detail
    assert "no dimension as the batch" in refusal(path, 3).detail


def test_a_declaration_of_other_inputs_is_refused(path: Path) -> None:
    traced(path, Mix(), example(2, 5, 4), example(4), **{ENTRY: declared(x=["batch", 5, 4])})
    failure = refusal(path)
    assert failure.kind == "malformed"
    assert "x, scale" in failure.detail


class Flagged(nn.Module):
    def forward(self, x: Tensor, flag: bool) -> Tensor:
        return x + 1 if flag else x


class Pair(nn.Module):
    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
        return x * pair[0] + pair[1]


def test_inputs_that_are_no_tensors_are_named(path: Path) -> None:
    torch.jit.save(torch.jit.script(Flagged()), path)
    assert "'flag' of the module is of the type bool" in refusal(path).detail
    x = example(2, 3)
    torch.jit.save(torch.jit.trace(Pair(), (x, (x, x))), path)
    assert "'pair'" in refusal(path).detail


def test_what_torch_cannot_convert_says_what_to_do(path: Path) -> None:
    class Counting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            while bool(x.sum() > 0):
                x = x - 1
            return x

    text = {ENTRY: declared(x=["batch", 3])}
    torch.jit.save(torch.jit.script(Counting()), path, _extra_files=text)
    failure = refusal(path)
    assert failure.kind == "unsupported_operator"
    assert "torch.export.export" in failure.detail


def test_outputs_that_are_no_tensors_are_refused(path: Path) -> None:
    class Sized(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, int]:
            return x + 1, x.size(0)

    text = {ENTRY: declared(x=["batch", 3])}
    torch.jit.save(torch.jit.script(Sized()), path, _extra_files=text)
    assert "output 1 of the module is a int" in refusal(path).detail


def test_an_operator_that_a_graph_does_not_know_is_named(path: Path) -> None:
    traced(path, Function(torch.nonzero), example(2, 3))
    failure = refusal(path)
    assert failure.kind == "unsupported_operator"
    assert "nonzero" in failure.detail


@pytest.mark.parametrize("save", ["weights", "module", "exported"])
def test_other_archives_of_torch_are_told_apart(path: Path, save: str) -> None:
    model = nn.Linear(2, 3)
    if save == "exported":
        with path.open("wb") as file:
            torch.export.save(torch.export.export(model, (example(1, 2),)), file)
    else:
        torch.save(model.state_dict() if save == "weights" else model, path)
    failure = refusal(path)
    assert failure.kind == "malformed"
    assert (".pt2" if save == "exported" else "not what to compute") in failure.detail
    assert "torch.export.export" in failure.detail
