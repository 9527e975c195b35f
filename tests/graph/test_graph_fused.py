"""Fused calls as JSON: the same again, and nothing that may not be called or does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from support.unit_graphs import UNITS, convolution, unit_graph

from workers.devices.providers import create
from workers.graph.fused import UnitKernels
from workers.graph.fused_json import kernels_from_json, kernels_to_json
from workers.graph.graph import Graph, GraphError


def described(graph: Graph) -> dict[str, UnitKernels]:
    return {unit.name: create("aten").describe(graph, unit) for unit in graph.units}


@pytest.mark.parametrize("case", [*UNITS, "bounds", "small"])
def test_what_was_written_is_read_again(case: str) -> None:
    if case == "bounds":
        graph, _ = convolution(activation="hardtanh.default", bounds=(-inf, 6))
    elif case == "small":
        graph, _ = convolution(channels=4, size=5)
    else:
        graph, _ = unit_graph(case)
    kernels = described(graph)
    text = json.dumps(kernels_to_json("cpu", kernels), allow_nan=False)
    assert kernels_from_json(json.loads(text), graph) == {n: k for n, k in kernels.items() if k}
    assert bool(next(iter(kernels.values()))) == (case != "elementwise")


def _first(data: dict[str, Any]) -> dict[str, Any]:
    (unit,) = data["units"].values()
    return unit["calls"][0]


def _weight(data: dict[str, Any]) -> dict[str, Any]:
    return _first(data)["arguments"][1]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d.update(device="tpu"), "are for cpu or cuda, not for 'tpu'"),
        (lambda d: d.pop("units"), "malformed kernels: KeyError"),
        (lambda d: d.update(units=[1]), "malformed kernels"),
        (lambda d: d["units"].update(other=next(iter(d["units"].values()))), "no unit 'other'"),
        (lambda d: _first(d).update(target="aten.relu_.default"), "'aten.relu_.default', which"),
        (lambda d: _first(d).update(target=["x"]), "malformed kernels"),
        (lambda d: _first(d).update(operators=["c", "q"]), "that it does not have: c, q"),
        (lambda d: _first(d).update(operators=[]), "that it does not have"),
        (lambda d: _first(d).update(operators=["c"]), "give 'r', which 'c' does not compute"),
        (lambda d: _first(d).update(operators=["r", "c"], output="c"), "that others read"),
        (lambda d: _first(d).update(output="c"), "give 'c', which 'r' does not compute"),
        (lambda d: _first(d)["arguments"].__setitem__(0, {"value": "c"}), "read 'c', which"),
        (lambda d: _first(d)["arguments"].__setitem__(0, {"value": "r"}), "read 'r', which"),
        (lambda d: _first(d)["arguments"].__setitem__(0, {"file": "r"}), "not an argument"),
        (lambda d: _weight(d).update(packed="os.system"), "by 'os.system', which is not allowed"),
        (lambda d: _weight(d).update(weight="x"), "pack 'x', which is none of its weights"),
        (lambda d: _weight(d).update(arguments=[{"value": "x"}]), "by what is computed"),
        (lambda d: d["units"]["c"].update(channels_last=["b"]), "lay out 'b', which is none"),
        (lambda d: d["units"]["c"].update(channels_last=[["w"]]), "malformed kernels"),
        (lambda d: d["units"]["c"]["calls"].append(_first(d)), "stand for an operator twice"),
    ],
)
def test_what_does_not_fit_is_refused(edit: Callable[[dict[str, Any]], object], words: str) -> None:
    graph, _ = convolution()
    data = json.loads(json.dumps(kernels_to_json("cpu", described(graph))))
    assert list(data["units"]) == ["c"]
    kernels_from_json(data, graph)
    edit(data)
    with pytest.raises(GraphError) as error:
        kernels_from_json(data, graph)
    assert words in str(error.value)
