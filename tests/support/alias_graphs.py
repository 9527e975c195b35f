"""Graphs with views between Units, for tests of what shares memory."""

from __future__ import annotations

from hypothesis import strategies as st
from support.graphs import SIDE, dags

from workers.graph.graph import Graph, Operator, TensorSpec, Unit, ValueRef

_VIEWS = ("aten.t.default", "aten.reshape.default", "aten.detach.default")
_SPEC = TensorSpec((SIDE, SIDE), "float32")
_HALF = TensorSpec((SIDE // 2, SIDE), "float32")


@st.composite
def aliased_graphs(draw: st.DrawFn, max_units: int = 6) -> Graph:
    """Random Units ``u<i>``. Most add up what they read; some are only a view of it, some compute
    and return the two halves of their result, some copy, and some have a view besides."""
    dag = draw(dags(max_units))
    values = {"x": _SPEC}
    units: list[Unit] = []
    for position, before in enumerate(dag):
        inputs = [draw(st.sampled_from(units[unit].outputs)) for unit in before] or ["x"]
        inputs = list(dict.fromkeys(inputs))
        kinds = ["compute", "both", "halves"] + ["view", "copy"] * (len(inputs) == 1)
        operators = _operators(f"u{position}", inputs, draw(st.sampled_from(kinds)), draw)
        made = [name for operator in operators for name in operator.outputs]
        values |= {name: _HALF if name.endswith("half") else _SPEC for name in made}
        outputs = made[-2:] if operators[-1].target == "aten.split.Tensor" else made[-1:]
        if len(operators) > 1 and draw(st.booleans()):
            outputs = made
        units.append(_unit(f"u{position}", operators, inputs, outputs))
    read = {name for unit in units for name in unit.inputs}
    returned = [
        n for u in units for n in u.outputs if n not in read or draw(st.integers(0, 9)) == 0
    ]
    return Graph("aliased", ("x",), tuple(returned), (), values, tuple(units))


def _operators(name: str, inputs: list[str], kind: str, draw: st.DrawFn) -> list[Operator]:
    view = draw(st.sampled_from(_VIEWS))
    if kind == "view":
        return [_call(name, view, inputs[0])]
    if kind == "copy":
        return [_call(name, "aten.clone.default", inputs[0])]
    compute = Operator(
        f"{name}_sum", "aten.stack.default", (tuple(map(ValueRef, inputs)),), (), (f"{name}_sum",)
    )
    if kind == "compute":
        return [compute]
    if kind == "both":
        return [compute, _call(name, view, f"{name}_sum")]
    halves = (f"{name}_half", f"{name}_other_half")
    split = Operator(name, "aten.split.Tensor", (ValueRef(f"{name}_sum"), SIDE // 2), (), halves)
    return [compute, split]


def _call(name: str, target: str, operand: str) -> Operator:
    return Operator(name, target, (ValueRef(operand),), (), (name,))


def _unit(name: str, operators: list[Operator], inputs: list[str], outputs: list[str]) -> Unit:
    return Unit(
        name, "elementwise", tuple(operators), tuple(inputs), (), tuple(outputs), flops=0,
        bytes_moved=0,
    )  # fmt: skip
