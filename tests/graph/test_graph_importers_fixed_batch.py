"""Models of one batch size at another: accepted if each sample comes out as before, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from workers.graph.graph import Graph
from workers.graph.importers.declared import DeclaredInput
from workers.graph.importers.fixed_batch import check_batch, in_batches_of_its_own
from workers.graph.importers.input_sizes import FixedBatch
from workers.graph.importers.opened import Sizes
from workers.graph.importers.pt2 import ExportedModel
from workers.graph.importers.source import ImportFailure
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

SEED = 3


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class Attention(nn.Module):
    """Heads split off with the batch size written into the shapes, and merged with the batch."""

    def __init__(self, merged: bool) -> None:
        super().__init__()
        self.projection, self.merged = nn.Linear(8, 24), merged

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, 2, 4).transpose(1, 2)
            for part in self.projection(x).chunk(3, 2)
        )
        if not self.merged:
            mixed: Tensor = (query @ key.transpose(2, 3)).softmax(3) @ value
            return mixed.transpose(1, 2).reshape(batch, length, width)
        flat = [part.reshape(batch * 2, length, 4) for part in (query, key, value)]
        mixed = torch.bmm(torch.bmm(flat[0], flat[1].transpose(1, 2)).softmax(2), flat[2])
        return mixed.view(batch, 2, length, 4).transpose(1, 2).reshape(batch, length, width)


def fixed(model: nn.Module, *shape: int) -> ExportedProgram:
    torch.manual_seed(0)
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 1.5)
    return export(model.eval(), (torch.randn(shape),))


def check(opened: ExportedModel) -> Graph:
    graph, weights = opened.graph()
    (expected,) = opened.run([SEED])
    found = run_graph(graph, weights, random_inputs(graph, SEED))
    results = [found[name] for name in graph.outputs]
    torch.testing.assert_close(results, list(expected.values()), rtol=1e-4, atol=1e-5)
    return graph


INDEPENDENT: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "convolutions": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()), (3, 6, 6),
    ),
    "flattened by hand": (Function(lambda x: x.view(x.shape[0], -1) * 2), (3, 6, 6)),
    "shape written out": (Function(lambda x: x.view(x.shape[0], 18, 6).relu()), (3, 6, 6)),
    "heads": (Attention(merged=False), (5, 8)),
    "heads in the batch": (Attention(merged=True), (5, 8)),
    "expanded": (
        Function(lambda x: x[:, None].expand(x.shape[0], 2, 3, 4).sum(1) + 1), (3, 4),
    ),
    "several rows a sample": (Function(lambda x: x.reshape(-1, 4) + 1), (3, 4)),
    "several outputs": (Function(lambda x: (x + 1, x.transpose(0, 1) * 2)), (3, 4)),
    "integers": (Function(lambda x: x.argmax(1)), (5,)),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEPENDENT)
@pytest.mark.parametrize("own", [1, 2])
def test_independent_samples_go_into_a_batch_of_any_size(name: str, own: int) -> None:
    model, sample = INDEPENDENT[name]
    graph = check(ExportedModel(fixed(model, own, *sample), Sizes(5)))
    assert graph.values[graph.inputs[0]].shape == (5, *sample)


def test_a_batch_may_become_smaller() -> None:
    model, sample = INDEPENDENT["convolutions"]
    check(ExportedModel(fixed(model, 4, *sample), Sizes(1)))


def test_the_check_s_cost_does_not_grow_with_the_batch() -> None:
    program = fixed(Function(lambda x: x + 1), 1, 3)
    graph, weights = ExportedModel(program, Sizes(64)).graph()
    calls = []

    def original(inputs: Mapping[str, Tensor]) -> list[Tensor]:
        calls.append(inputs)
        return [inputs["x"] + 1]

    check_batch(graph, weights, original, FixedBatch(1, {"x": 0}), 64)
    assert len(calls) == 3


MIXING: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "softmax over the batch": (lambda x: x.softmax(0), "beside it"),
    "minus the mean of the batch": (lambda x: x - x.mean(0, keepdim=True), "beside it"),
    "a sum over the batch": (lambda x: x.sum(0), "output 0"),
    "one sample's rows": (lambda x: x[:2] + 1, "output 0"),
    "no dimensions": (lambda x: x.sum(), "output 0"),
    "one tensor of its own": (lambda x: x + torch.arange(2.0)[:, None], "aten.add"),
    "samples moved apart": (lambda x: x.transpose(0, 1).reshape(-1) + 1, "view"),
}


@pytest.mark.parametrize("name", MIXING)
def test_samples_that_are_not_independent_are_refused(name: str) -> None:
    function, words = MIXING[name]
    with pytest.raises(ImportFailure, match=words) as caught:
        ExportedModel(fixed(Function(function), 2, 3), Sizes(4)).graph()
    assert caught.value.kind == "unsupported_batch"
    assert "exported for batch size 2 only" in caught.value.detail
    assert "torch.export.Dim('batch')" in caught.value.detail


def test_inputs_of_another_first_dimension_are_left_alone() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return x * mask

    program = export(Masked(), (torch.randn(2, 6), torch.randn(6)))
    graph = check(ExportedModel(program, Sizes(5)))
    assert [graph.values[name].shape for name in graph.inputs] == [(5, 6), (6,)]


def test_a_batch_that_is_not_first_is_declared() -> None:
    program = fixed(nn.LSTM(4, 3), 5, 2, 4)
    declared = {"input": DeclaredInput((5, "batch", 4), "float32")}
    assert check(ExportedModel(program, Sizes(2), declared))
    function = Function(lambda x: x.view(5, x.shape[1] * 2, 2).softmax(0))
    declared = {"x": DeclaredInput((5, "batch", 4), "float32")}
    graph = check(ExportedModel(fixed(function, 5, 2, 4), Sizes(3), declared))
    assert graph.values[graph.outputs[0]].shape == (5, 6, 2)


def test_a_model_without_a_batch_is_refused_for_more_than_one() -> None:
    declared = {"x": DeclaredInput((2, 3), "float32")}
    program = fixed(Function(lambda x: x + 1), 2, 3)
    assert check(ExportedModel(program, Sizes(1), declared))
    with pytest.raises(ImportFailure, match="no input of the model has a batch"):
        ExportedModel(program, Sizes(2), declared).graph()


@pytest.mark.parametrize("batch_size", [1, 2, 4, 7])
def test_a_batch_is_cut_up_and_put_together_in_order(batch_size: int) -> None:
    sizes = []

    def original(tensors: Any) -> list[Tensor]:
        sizes.append(tensors["x"].shape[1])
        return [tensors["x"] * tensors["scale"], tensors["x"].T.repeat_interleave(2, 0)]

    x = torch.arange(2.0 * batch_size).view(2, batch_size)
    inputs = {"x": x, "scale": torch.tensor(3.0)}
    fixed = FixedBatch(3, {"x": 1})
    shapes = [(2, batch_size), (2 * batch_size, 2)]
    found = in_batches_of_its_own(original, inputs, fixed, batch_size, shapes)
    assert set(sizes) == {3}
    torch.testing.assert_close(found, [3 * x, x.T.repeat_interleave(2, 0)])
