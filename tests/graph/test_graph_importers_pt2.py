"""Exported programs as Graphs: what is imported computes what the original does, and what cannot
be imported is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import export_branches
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program, load_program, run_original
from workers.graph.importers.source import ImportFailure
from workers.graph.interpreter import run_graph
from workers.graph.operators import KINDS
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs

SEED = 5


class Function(nn.Module):
    """A model of one function of one input."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def image(*shape: int) -> Tensor:
    return torch.randn(shape or (2, 8, 6, 6), generator=torch.Generator().manual_seed(0))


def exported(model: nn.Module, *inputs: Tensor, train: bool = False) -> ExportedProgram:
    """``model`` with a dynamic batch; every parameter random, so that no mistake hides."""
    torch.manual_seed(0)
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 1.5)
    shapes = tuple({0: Dim("batch")} for _ in inputs)
    return export(model.train(train), inputs, dynamic_shapes=shapes)


def check(program: ExportedProgram, batch_size: int) -> Graph:
    """Import, run, optimise, run: each time the original's results."""
    graph, weights = import_program(program, batch_size)
    inputs = random_inputs(graph, SEED)
    (expected,) = run_original(program, batch_size, [SEED])
    optimised, new_weights = optimise(graph, weights)
    for imported, tensors in ((graph, weights), (optimised, new_weights)):
        found = run_graph(imported, tensors, inputs)
        results = [found[name] for name in imported.outputs]
        torch.testing.assert_close(results, list(expected.values()), rtol=1e-4, atol=1e-5)
        specs = imported.specs(imported.outputs)
        assert [spec.shape for spec in specs] == [tuple(tensor.shape) for tensor in results]
        assert [f"torch.{spec.dtype}" for spec in specs] == [str(t.dtype) for t in results]
    return graph


def refusal(program: ExportedProgram, batch_size: int = 2) -> ImportFailure:
    with pytest.raises(ImportFailure) as caught:
        import_program(program, batch_size)
    return caught.value


class Attention(nn.TransformerEncoderLayer):
    def __init__(self) -> None:
        super().__init__(8, 2, 16, batch_first=True)


MODELS: dict[str, tuple[nn.Module, Tensor]] = {
    "convolutions": (
        nn.Sequential(
            nn.Conv2d(8, 4, 3, padding="same"),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(4, 6, 2, stride=2),
            nn.BatchNorm2d(6),
            nn.Hardtanh(inplace=True),
            nn.MaxPool2d(2),
            nn.Dropout(),
        ),
        image(),
    ),
    "one-dimensional": (
        nn.Sequential(nn.Conv1d(8, 4, 3), nn.BatchNorm1d(4), nn.AvgPool1d(2), nn.MaxPool1d(2)),
        image(2, 8, 16),
    ),
    "classifier": (
        nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4), nn.GELU(), nn.Softmax(-1)
        ),
        image(),
    ),
    "attention": (Attention(), image(2, 5, 8)),
    "lstm": (nn.LSTM(8, 4, batch_first=True), image(2, 3, 8)),
    "gru": (nn.GRU(8, 4, num_layers=2, batch_first=True), image(2, 3, 8)),
    "embedding": (nn.Embedding(10, 4), torch.zeros(2, 5, dtype=torch.int64)),
    "norms": (
        nn.Sequential(
            nn.GroupNorm(2, 8), nn.LayerNorm(6), nn.InstanceNorm2d(8), nn.LocalResponseNorm(2)
        ),
        image(),
    ),
    "resizing": (
        nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.PixelShuffle(2),
            nn.ReflectionPad2d(1),
            nn.Unfold(3),
        ),
        image(),
    ),
    "half precision": (Function(lambda x: (x.half() * 2).float()), image()),
    "slices": (Function(lambda x: x[:, 1:3, ..., ::2] + x[:, [0, 2], :, :3]), image()),
    "einsum": (Function(lambda x: torch.einsum("bchw,bdhw->bcd", x, x)), image()),
    "in place": (Function(lambda x: (x * 2).add_(1).relu_()), image()),
    "made inside": (
        Function(lambda x: x + torch.arange(x.shape[0]).view(-1, 1, 1, 1) + x.new_ones(6)),
        image(),
    ),
    "lists": (Function(lambda x: torch.cat(x.split(3, 1)[::-1], 1).chunk(2, 1)), image()),
    "same result twice": (Function(lambda x: {"a": x + 1, "b": [x + 1, x.max(1)[0]]}), image()),
    "without gradient": (Function(torch.no_grad()(lambda x: x + 1)), image()),
    "channels last": (
        Function(
            lambda x: x.to(memory_format=torch.channels_last).contiguous().view(x.shape[0], -1) + 1
        ),
        image(),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_import_computes_what_the_original_does(name: str) -> None:
    model, example = MODELS[name]
    check(exported(model, example), 3)


def test_the_batch_size_is_the_job_s(tmp_path: Path) -> None:
    export_branches(tmp_path / "m.pt2")
    program = load_program(tmp_path / "m.pt2")
    for batch_size in (1, 2, 64):
        graph = check(program, batch_size)
        assert graph.values[graph.inputs[0]].shape == (batch_size, 3, 16, 16)
        assert graph.values[graph.outputs[0]].shape == (batch_size, 10)
        assert all(operator.target in KINDS for operator in graph.operators)


def test_a_batch_outside_the_exported_range_is_refused(tmp_path: Path) -> None:
    export_branches(tmp_path / "m.pt2")
    failure = refusal(load_program(tmp_path / "m.pt2"), 65)
    assert failure.kind == "unsupported_batch"
    assert "to 64" in failure.detail
    few = export(nn.ReLU(), (image(4, 2),), dynamic_shapes=({0: Dim("batch", min=3)},))
    assert refusal(few, 2).kind == "unsupported_batch"


def test_an_input_without_a_batch_keeps_its_size() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return x * mask

    shapes = ({0: Dim("batch")}, None)
    graph = check(export(Masked(), (image(), image(6, 6)), dynamic_shapes=shapes), 4)
    assert graph.values["mask"].shape == (6, 6)


def test_inputs_are_called_as_exported() -> None:
    class Called(nn.Module):
        def forward(
            self, pair: dict[str, Tensor], scale: float, bias: Tensor | None, *, offset: Tensor
        ) -> Tensor:
            result = pair["a"] * scale - pair["b"] + 2 * offset
            return result if bias is None else result + bias

    inputs = {"b": image(2, 3), "a": image(2, 3) + 1}
    program = export(Called(), (inputs, 0.5, None), {"offset": image(2, 3) + 2})
    graph = check(program, 2)
    assert len(graph.inputs) == 3


def test_weights_are_what_the_program_holds() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parameter = nn.Parameter(image(6))
            self.register_buffer("kept", image(6) + 1)
            self.register_buffer("dropped", image(6) + 2, persistent=False)
            self.register_buffer("unread", image(6))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.parameter + self.kept - self.dropped * torch.tensor([3.0])

    program = export(Holder(), (image(),))
    check(program, 2)
    _, weights = import_program(program, 2)
    assert len(weights) == 4
    assert not any(weight.requires_grad for weight in weights.values())


def test_a_decomposed_program_is_spelt_as_any_other() -> None:
    model = nn.Sequential(
        nn.Conv2d(8, 4, 3), nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1), nn.Flatten()
    )
    graph = check(exported(model, image()).run_decompositions(), 3)
    assert [operator.target for operator in graph.operators] == [
        "aten.conv2d.default",
        "aten.conv_transpose2d.input",
        "aten.reshape.default",
    ]


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.calls


def conditional(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


@pytest.mark.parametrize(
    ("model", "operator", "words"),
    [
        (Function(torch.fft.rfft), "_fft_r2c", "aten._fft_r2c.default"),
        (Function(torch.nonzero), "nonzero", "aten.nonzero.default"),
        (Function(lambda x: x * x.sum().item()), "_local_scalar_dense", "depends on the data"),
        (Function(lambda x: x + torch.rand_like(x)), "rand_like", "aten.rand_like"),
        (Function(conditional), "true_graph_0", "control flow"),
        (Function(lambda x: x.add_(1)), None, "changes its state"),
        (Counting(), None, "changes its state"),
    ],
    ids=["fft", "nonzero", "item", "random", "cond", "input changed", "buffer changed"],
)
def test_what_is_not_supported_is_named(model: nn.Module, operator: str | None, words: str) -> None:
    failure = refusal(exported(model, image()))
    assert failure.kind == "unsupported_operator"
    assert failure.operator == operator
    assert words in failure.detail


@pytest.mark.parametrize("model", [nn.Dropout(), nn.BatchNorm2d(8)], ids=["dropout", "statistics"])
def test_a_model_in_train_mode_is_refused(model: nn.Module) -> None:
    assert refusal(exported(model, image(), train=True)).kind == "unsupported_operator"


def test_attention_that_drops_at_random_is_refused() -> None:
    attend = Function(lambda x: nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5))
    failure = refusal(exported(attend, image()))
    assert failure.operator == "scaled_dot_product_attention"
    assert "eval mode" in failure.detail


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (Function(lambda x: x), "malformed"),
        (Function(lambda x: (x + 1, 3)), "unsupported_input"),
        (Function(lambda x: torch.complex(x, x)), "unsupported_operator"),
    ],
    ids=["nothing", "a number", "complex"],
)
def test_results_that_are_no_use_are_refused(model: nn.Module, kind: str) -> None:
    assert refusal(exported(model, image())).kind == kind


def test_a_tensor_type_without_a_name_is_refused() -> None:
    program = export(Function(lambda x: x.abs()), (image().to(torch.complex64),))
    failure = refusal(program)
    assert failure.kind == "unsupported_input"
    assert "complex64" in failure.detail


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    for content in (b"", b"PK\x03\x04 and no more"):
        path.write_bytes(content)
        with pytest.raises(ImportFailure, match=r"torch\.export\.save") as caught:
            load_program(path)
        assert caught.value.kind == "malformed"
