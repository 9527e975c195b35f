"""Which operators alias, against torch; which values do, on hand-made graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.graphs import DIAMOND, graph_of
from support.models import Branches
from support.pass_graphs import call, graph_of_calls
from torch import Tensor

from workers.graph.bindings import binding, overload
from workers.graph.graph import DtypeRef, Graph, Operator, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.operators import KINDS
from workers.graph.units import regroup
from workers.schedules.aliases import aliases, dependencies, may_alias, may_copy, writes_operand


def test_what_torch_declares_a_view_is_one() -> None:
    declared = {
        target
        for target in KINDS
        if any(result.alias_info is not None for result in overload(target)._schema.returns)
    }
    assert len(declared) > 20
    assert {target for target in declared if not may_alias(target)} == set()


def shares(result: Tensor | list[Tensor], operand: Tensor) -> bool:
    results = [result] if isinstance(result, Tensor) else result
    memory = operand.untyped_storage().data_ptr()
    return any(tensor.untyped_storage().data_ptr() == memory for tensor in results)


# Operators that do nothing with these arguments, or that might do it without a copy.
IDLE: list[tuple[str, tuple[Any, ...]]] = [
    ("reshape.default", ((4, 4),)), ("reshape.default", ((16,),)), ("flatten.using_ints", (0, 0)),
    ("flatten.using_ints", ()), ("contiguous.default", ()), ("expand.default", ((4, 4),)),
    ("dropout.default", (0.5, False)), ("view.default", ((4, 4),)), ("slice.Tensor", (0, 0, 4)),
    ("squeeze.default", ()), ("broadcast_to.default", ((4, 4),)), ("alias.default", ()),
    ("detach.default", ()), ("clone.default", ()), ("pad.default", ((0, 0),)),
    ("constant_pad_nd.default", ((0, 0),)), ("roll.default", ((0,), (0,))), ("flip.default", ((),)),
    ("repeat.default", ((1, 1),)), ("_to_copy.default", ()), ("nan_to_num.default", ()),
    ("add.Scalar", (0,)), ("mul.Scalar", (1,)), ("relu.default", ()), ("clamp.default", (-99, 99)),
    ("tril.default", (4,)), ("round.default", ()), ("cumsum.default", (0,)),
    ("split.Tensor", (4,)), ("chunk.default", (1,)), ("unbind.int", ()),
    ("lift_fresh_copy.default", ()), ("index_select.default", (0, torch.arange(4))),
    ("masked_fill.Scalar", (torch.tensor(False), 0)), ("softmax.int", (0,)),
    ("sum.dim_IntList", ((0,),)), ("unfold.default", (0, 4, 1)),
]  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", range(len(IDLE)), ids=lambda number: IDLE[number][0])
def test_what_returns_its_operand_is_known_to(name: int, transposed: bool) -> None:
    target, arguments = IDLE[name]
    operand = torch.randn(4, 4).t() if transposed else torch.randn(4, 4)
    try:
        result = overload(f"aten.{target}")(operand, *arguments)
    except RuntimeError:
        assert (target, transposed) == ("view.default", True)
        return
    if shares(result, operand):
        assert may_alias(f"aten.{target}")
    else:
        assert may_copy(f"aten.{target}")


def test_one_operator_may_do_either() -> None:
    assert may_alias("aten.reshape.default")
    assert may_copy("aten.reshape.default")
    assert may_alias("aten.transpose.int")
    assert not may_copy("aten.transpose.int")
    assert may_copy("aten.clone.default")
    assert not may_alias("aten.clone.default")
    assert writes_operand("aten.relu_.default")
    assert not writes_operand("aten.relu.default")


def test_real_memory_is_shared_only_where_it_is_said_to_be() -> None:
    """A model run operator by operator."""
    program = torch.export.export(Branches().eval(), (torch.randn(1, 3, 16, 16),))
    graph, weights = import_program(program, 1, "branches")
    found = aliases(graph)
    values: dict[str, Any] = {
        **weights,
        **{name: torch.randn(1, 3, 16, 16) for name in graph.inputs},
    }
    for operator in graph.operators:
        result = _run(operator, values)
        values.update(zip(operator.outputs, [result] if isinstance(result, Tensor) else result))  # noqa: B905  # some results have no name
    tensors = [(name, values[name]) for name in found.root]
    for number, (name, tensor) in enumerate(tensors):
        for other, another in tensors[:number]:
            if tensor.numel() and shares(tensor, another):
                assert found.root[name] == found.root[other], (name, other)


def _run(operator: Operator, values: dict[str, Any]) -> Any:
    def real(argument: Any) -> Any:
        if isinstance(argument, ValueRef):
            return values[argument.name]
        if isinstance(argument, DtypeRef):
            return getattr(torch, argument.name)
        if isinstance(argument, tuple):
            return [real(item) for item in argument]
        return argument

    keywords = {key: real(argument) for key, argument in operator.keywords}
    return binding(operator.target)(*map(real, operator.arguments), **keywords)


def values_of(*names: str) -> list[ValueRef]:
    return [ValueRef(name) for name in names]


def chained() -> Graph:
    """``c`` computes and returns a view; ``v`` views that, ``r`` may copy it, ``s`` sums up."""
    c, d, v, r = values_of("c", "d", "v", "r")
    graph, _ = graph_of_calls(
        [
            call("c", "relu.default", ValueRef("x")),
            call("d", "t.default", c),
            call("v", "t.default", d),
            call("r", "reshape.default", v, (4, 4)),
            call("s", "add.Tensor", r, d),
            call("given", "t.default", ValueRef("x")),
        ],
        outputs=["s", "given"],
    )
    operators = {operator.name: operator for operator in graph.operators}
    groups = [["c", "d"], ["v"], ["r"], ["s"], ["given"]]
    return regroup(graph, [[operators[name] for name in group] for group in groups])


def test_views_of_views_have_one_root() -> None:
    found = aliases(chained())
    assert [found.root[name] for name in ("c", "d", "v", "r")] == ["c"] * 4
    assert (found.root["s"], found.root["given"]) == ("s", "x")
    assert found.storages == ("c", "s")
    assert found.copies == {"r"}
    by_unit = dict(zip([unit.name for unit in chained().units], found.made, strict=True))
    assert by_unit == {"c": ("c",), "v": (), "r": (), "s": ("s",), "given": ()}
    assert not any(found.written)


def test_what_a_unit_keeps_to_itself_has_no_storage() -> None:
    assert aliases(graph_of(DIAMOND)).storages == ("u0", "u1", "u2", "u3")


def test_dependencies_are_what_is_read() -> None:
    graph = chained()
    assert dependencies(graph) == graph.predecessors


def test_writing_in_place_depends_on_earlier_readers_and_later_readers_on_it() -> None:
    """``w`` overwrites ``c`` through a view of it, between two readers."""
    c, v = values_of("c", "v")
    graph, _ = graph_of_calls(
        [
            call("c", "relu.default", ValueRef("x")),
            call("v", "detach.default", c),
            call("before", "tanh.default", c),
            call("after", "add.Tensor", c, c),
        ],
        outputs=["before", "after"],
    )
    units = {unit.name: unit for unit in graph.units}
    writer = Operator("w", "aten.tanh_.default", (v,), (), ("w",))
    changing = replace(units["v"], name="w", operators=(writer,), inputs=("v",), outputs=("w",))
    order = [units["c"], units["v"], units["before"], changing, units["after"]]
    graph = replace(
        graph,
        values={**graph.values, "w": graph.values["v"]},
        units=tuple(order),
        outputs=(*graph.outputs, "w"),
    )
    needed = dict(zip([unit.name for unit in graph.units], dependencies(graph), strict=True))
    assert needed["w"] == (1, 2)  # reads v; before must have read c
    assert needed["after"] == (0, 3)  # reads c; w must have written it
    assert aliases(graph).written[3] == ("c",)
