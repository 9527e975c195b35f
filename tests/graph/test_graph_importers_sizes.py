"""Open dimensions made concrete: which gets the batch size, which the sequence length, which its
own, and what cannot be had is refused with the constraint named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sympy  # type: ignore[import-untyped]
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.utils._sympy.value_ranges import ValueRanges

from workers.graph.graph import Graph
from workers.graph.importers.declared import ENTRY, DeclaredInput, declared_inputs
from workers.graph.importers.open_sizes import OpenSizes, Wanted
from workers.graph.importers.opened import Sizes
from workers.graph.importers.pt2 import ExportedModel, open_model
from workers.graph.importers.source import ImportFailure
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

MEMORY = 1 << 30
SEED = 3


class Mix(nn.Module):
    """(batch, time, 4) to (batch, time, 4), with every time step looking at all the others."""

    def __init__(self, time_axis: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line, self.time_axis = nn.Linear(4, 4), time_axis

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.line(x).softmax(self.time_axis) * x
        return mixed


class Two(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.relu() + 1, y.relu() + 2


def example(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def model(
    program: ExportedProgram,
    batch: int,
    length: int | None = None,
    declared: Mapping[str, DeclaredInput] | None = None,
) -> ExportedModel:
    return ExportedModel(program, Sizes(batch, length), declared or {})


def imported(opened: ExportedModel) -> Graph:
    """Its Graph, which computes what the original does."""
    graph, weights = opened.graph()
    (expected,) = opened.run([SEED])
    found = run_graph(graph, weights, random_inputs(graph, SEED))
    results = [found[name] for name in graph.outputs]
    torch.testing.assert_close(results, list(expected.values()), rtol=1e-4, atol=1e-5)
    return graph


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.values[name].shape for name in graph.inputs]


def refusal(opened: ExportedModel) -> ImportFailure:
    with pytest.raises(ImportFailure) as caught:
        opened.graph()
    return caught.value


def test_the_sequence_length_goes_to_every_other_open_dimension() -> None:
    sequence = Dim("time", max=64)
    program = export(Mix(), (example(2, 5, 4),), dynamic_shapes=({0: Dim("b"), 1: sequence},))
    assert shapes(imported(model(program, 3, 7))) == [(3, 7, 4)]
    assert shapes(imported(model(program, 3))) == [(3, 5, 4)]
    assert shapes(imported(model(program, 1, 1))) == [(1, 1, 4)]
    failure = refusal(model(program, 3, 65))
    assert failure.kind == "unsupported_input"
    assert "sequence length 65" in failure.detail
    assert "up to 64" in failure.detail


def test_a_derived_dimension_is_solved_or_refused_with_its_constraint() -> None:
    batch, eight = Dim("b"), 8 * Dim("k", min=3, max=10)
    program = export(nn.ReLU(), (example(2, 32),), dynamic_shapes=({0: batch, 1: eight},))
    assert shapes(imported(model(program, 2, 40))) == [(2, 40)]
    assert "modulo 8" in refusal(model(program, 2, 42)).detail
    assert "from 24 to 80" in refusal(model(program, 2, 16)).detail
    assert "from 24 to 80" in refusal(model(program, 2, 88)).detail


def test_a_dimension_that_follows_from_another_follows() -> None:
    class Joined(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x.repeat(2, 1) + y

    batch = Dim("b")
    program = export(
        Joined(), (example(3, 4), example(6, 4)), dynamic_shapes=({0: batch}, {0: 2 * batch})
    )
    assert shapes(imported(model(program, 5))) == [(5, 4), (10, 4)]
    first = export(nn.ReLU(), (example(6, 4),), dynamic_shapes=({0: 2 * batch},))
    assert shapes(imported(model(first, 8))) == [(8, 4)]
    odd = refusal(model(first, 7))
    assert odd.kind == "unsupported_batch"
    assert "modulo 2" in odd.detail


def test_one_symbol_has_one_size_and_a_later_dimension_makes_it_a_sequence() -> None:
    class Positions(nn.Module):
        def forward(self, x: Tensor, position: Tensor) -> Tensor:
            return x * position

    batch, time = Dim("b"), Dim("t")
    program = export(
        Positions(), (example(2, 5), example(5)), dynamic_shapes=({0: batch, 1: time}, {0: time})
    )
    assert shapes(imported(model(program, 3, 9))) == [(3, 9), (9,)]


def test_inputs_of_separate_batches_all_get_the_batch_size() -> None:
    program = export(
        Two(), (example(2, 4), example(3, 4)), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")})
    )
    assert shapes(imported(model(program, 6))) == [(6, 4), (6, 4)]


def test_a_length_that_the_model_has_no_place_for_is_refused() -> None:
    program = export(Mix(), (example(2, 5, 4),), dynamic_shapes=({0: Dim("b")},))
    failure = refusal(model(program, 2, 5))
    assert failure.kind == "unsupported_input"
    assert "no such dimension open" in failure.detail


def test_a_range_that_starts_late_is_kept() -> None:
    program = export(nn.ReLU(), (example(4, 2),), dynamic_shapes=({0: Dim("b", min=3)},))
    assert shapes(imported(model(program, 3))) == [(3, 2)]
    failure = refusal(model(program, 2))
    assert failure.kind == "unsupported_batch"
    assert "from 3 on" in failure.detail


def test_a_size_that_the_model_s_operators_refuse_is_named() -> None:
    class Quads(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(x.shape[0], x.shape[1] // 4, 4) + 1

    shapes_ = ({0: Dim.AUTO, 1: Dim.AUTO},)
    program = export(Quads(), (example(2, 24),), dynamic_shapes=shapes_)
    assert shapes(imported(model(program, 2, 28))) == [(2, 28)]
    assert "view" in refusal(model(program, 2, 26)).detail


def sequence_first() -> ExportedProgram:
    both = ({0: Dim("time"), 1: Dim("batch")},)
    return export(Mix(0), (example(5, 2, 4),), dynamic_shapes=both)


def test_a_model_that_puts_its_sequence_first_declares_it() -> None:
    declared = {"x": DeclaredInput(("sequence", "batch", 4), "float32")}
    assert shapes(imported(model(sequence_first(), 3, 7, declared))) == [(7, 3, 4)]
    assert shapes(imported(model(sequence_first(), 3, None, declared))) == [(5, 3, 4)]
    assert shapes(imported(model(sequence_first(), 3))) == [(3, 2, 4)], "the first is the batch"
    inner = ({1: Dim("batch")},)
    program = export(Mix(0), (example(5, 2, 4),), dynamic_shapes=inner)
    declared = {"x": DeclaredInput((5, "batch", 4), "float32")}
    assert shapes(imported(model(program, 3, None, declared))) == [(5, 3, 4)]


def test_a_declaration_travels_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    text = '{"x": {"shape": ["sequence", "batch", 4], "dtype": "float32"}}'
    torch.export.save(sequence_first(), path, extra_files={ENTRY: text})
    assert shapes(imported(open_model(path, Sizes(3, 7), MEMORY))) == [(7, 3, 4)]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"y": DeclaredInput((), "bool")}, "declares the inputs"),
        ({"x": DeclaredInput(("batch", 4), "float32")}, "with the shape"),
        ({"x": DeclaredInput(("sequence", "batch", 5), "float32")}, "with the shape"),
        ({"x": DeclaredInput(("sequence", "batch", 4), "int64")}, "takes float32"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(
    declared: dict[str, DeclaredInput], words: str
) -> None:
    failure = refusal(
        model(sequence_first(), 2, None, declared or {"y": DeclaredInput((), "bool")})
    )
    assert failure.kind == "malformed"
    assert words in failure.detail


def test_a_declared_size_is_given_to_an_open_dimension() -> None:
    declared = {"x": DeclaredInput((6, "batch", 4), "float32")}
    assert shapes(imported(model(sequence_first(), 2, None, declared))) == [(6, 2, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"x": 1}',
        '{"x": {"shape": [1]}}',
        '{"x": {"shape": [1], "dtype": "float"}}',
        '{"x": {"shape": 1, "dtype": "float32"}}',
        '{"x": {"shape": [0], "dtype": "float32"}}',
        '{"x": {"shape": [true], "dtype": "float32"}}',
        '{"x": {"shape": ["time"], "dtype": "float32"}}',
        '{"x": {"shape": [1], "dtype": []}}',
        '{"x": {"shape": [[1]], "dtype": "float32"}}',
        "[" * 100_000,
    ],
)
def test_a_declaration_that_is_written_wrongly_is_refused(text: str) -> None:
    with pytest.raises(ImportFailure, match=ENTRY) as caught:
        declared_inputs(text)
    assert caught.value.kind == "malformed"


S, T = sympy.Symbol("s0", integer=True), sympy.Symbol("s1", integer=True)


@given(
    slope=st.integers(1, 9),
    offset=st.integers(-5, 5),
    size=st.integers(1, 60),
    lower=st.integers(3, 6),
    upper=st.integers(6, 20),
)
def test_a_line_is_solved_like_by_trying(
    slope: int, offset: int, size: int, lower: int, upper: int
) -> None:
    right = [v for v in range(lower, upper + 1) if slope * v + offset == size]
    solved = OpenSizes({S: ValueRanges(lower, upper)})
    wanted = Wanted(size, "size", "dimension 0", "unsupported_input")
    try:
        solved.settle(slope * S + offset, wanted)
    except ImportFailure:
        assert right == []
    else:
        assert [solved.values[S]] == right
        assert solved.size(slope * S + offset) == size


@pytest.mark.parametrize("expression", [S * T, S**2, S + T, sympy.floor(S / 2)])
def test_what_has_no_single_solution_is_refused(expression: Any) -> None:
    with pytest.raises(ImportFailure, match="no single solution"):
        OpenSizes({}).settle(expression, Wanted(4, "size", "dimension 0", "unsupported_input"))
