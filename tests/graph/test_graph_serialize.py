"""graph.json and weights.safetensors: what is written is read back, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from support.graphs import DIAMOND, Dag, dags, graph_of

from workers.graph.graph import DtypeRef, GraphError, Operator, TensorSpec, ValueRef
from workers.graph.serialize import (
    GRAPH_FILE,
    WEIGHTS_FILE,
    graph_from_json,
    graph_hash,
    graph_to_json,
    load_graph,
    save_graph,
)
from workers.graph.units import operator_units

WEIGHTS = {"w": torch.eye(8)}


@given(dags())
def test_a_graph_survives_the_way_through_json(dag: Dag) -> None:
    graph = graph_of(dag)
    assert graph_from_json(json.loads(json.dumps(graph_to_json(graph)))) == graph


def test_arguments_of_every_kind_survive() -> None:
    operator = Operator(
        "c",
        "aten.clamp.default",
        (ValueRef("x"), None, True, 3, -2.5, "floor", (1, (ValueRef("x"), 2))),
        (("dtype", DtypeRef("bfloat16")), ("max", float("inf")), ("min", float("-inf"))),
        ("c",),
    )
    graph = operator_units(
        name="g",
        inputs=("x",),
        outputs=("c",),
        weights=(),
        values={name: TensorSpec((2,), "float32") for name in "xc"},
        operators=[operator],
    )
    text = json.dumps(graph_to_json(graph), allow_nan=False)
    read = graph_from_json(json.loads(text)).operators[0]
    assert read == operator
    assert [type(a) for a in read.arguments] == [type(a) for a in operator.arguments]


def test_files_hold_the_weights_too(tmp_path: Path) -> None:
    graph = graph_of(DIAMOND)
    transposed = torch.arange(64.0).reshape(8, 8).t()
    save_graph(graph, {"w": transposed, "unused": torch.zeros(1)}, tmp_path / "new")
    read, weights = load_graph(tmp_path / "new")
    assert read == graph
    assert list(weights) == ["w"]
    assert torch.equal(weights["w"], transposed)


def test_shared_weights_are_written_twice_rather_than_refused(tmp_path: Path) -> None:
    tied = torch.eye(8)
    data = graph_to_json(graph_of(((), ())))
    data["weights"].append("v")
    data["values"]["v"] = data["values"]["w"]
    data["units"][1]["weights"] = ["v"]
    data["units"][1]["operators"][0]["arguments"][1] = {"value": "v"}
    save_graph(graph_from_json(data), {"w": tied, "v": tied}, tmp_path)
    assert torch.equal(load_graph(tmp_path)[1]["v"], tied)


def test_the_hash_is_of_the_structure(tmp_path: Path) -> None:
    graph, same, other = graph_of(DIAMOND), graph_of(DIAMOND), graph_of(((), (0,)))
    assert graph_hash(graph) == graph_hash(same) != graph_hash(other)
    save_graph(graph, {"w": torch.zeros(8, 8)}, tmp_path)
    assert graph_hash(load_graph(tmp_path)[0]) == graph_hash(graph)


def _set(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = to

    return change


def _append_empty_unit(data: dict[str, Any]) -> None:
    data["units"].append({**data["units"][0], "name": "empty", "operators": []})


UNITS, OPS = "units", "operators"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("format", to="onnx"), "plait.graph"),
        (_set("version", to=2), "version 1"),
        (_set("units", to=7), "malformed"),
        (_set("inputs", to="x"), "list of names"),
        (_set("name", to="a\x1b[2Jb"), "not a name"),
        (_set(UNITS, 0, "name", to="<a href=x>"), "not a name"),
        (_set(UNITS, 0, "flops", to=-1), "count"),
        (_set(UNITS, 0, "flops", to=True), "count"),
        (_set(UNITS, 0, "bytes_moved", to=1.5), "count"),
        (_append_empty_unit, "'empty' has no operators"),
        (_set(UNITS, 0, OPS, 0, "target", to="aten.from_file.default"), "from_file"),
        (_set(UNITS, 0, OPS, 0, "target", to="os.system"), "not allowed"),
        (_set(UNITS, 0, OPS, 0, "arguments", to=[{"value": "nothing"}]), "nothing"),
        (_set(UNITS, 0, OPS, 0, "arguments", 0, to={"code": "1"}), "not an argument"),
        (_set(UNITS, 0, OPS, 0, "arguments", 0, to={"dtype": "complex64"}), "not an argument"),
        (_set(UNITS, 0, OPS, 0, "arguments", 0, to={"float": "1e400"}), "not an argument"),
        (_set(UNITS, 0, OPS, 0, "keywords", to={"a b": 1}), "not a name"),
        (_set("values", "x", "dtype", to="complex64"), "complex64"),
        (_set("values", "x", "shape", to=[-1, 2]), "count"),
        (_set("values", "x", "shape", to=[2.0]), "count"),
        (_set("values", to={}), "no shape"),
        (_set("outputs", to=["u9"]), "u9"),
        (_set(UNITS, 1, "name", to="u0"), "two units"),
        (_set(UNITS, 3, "inputs", to=["u1"]), "'u3' lists the inputs"),
        (_set(UNITS, 3, "inputs", to=["u1", "u2", "x"]), "'u3' lists the inputs"),
        (_set(UNITS, 0, "weights", to=[]), "'u0' lists the weights"),
        (_set(UNITS, 0, "outputs", to=[]), "'u0' lists the outputs"),
        (_set(UNITS, 3, "outputs", to=["u3", "u3"]), "'u3' lists the outputs"),
    ],
)
def test_what_does_not_fit_is_refused(
    change: Callable[[dict[str, Any]], None], message: str
) -> None:
    data = json.loads(json.dumps(graph_to_json(graph_of(DIAMOND))))
    change(data)
    with pytest.raises(GraphError, match=message):
        graph_from_json(data)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"9" * 10_000, b"[]", b"null", b'{"format": 1}'],
    ids=["empty", "cut off", "deep", "not text", "huge number", "list", "null", "other"],
)
def test_garbage_in_place_of_the_graph_is_refused(tmp_path: Path, content: bytes) -> None:
    save_graph(graph_of(DIAMOND), WEIGHTS, tmp_path)
    (tmp_path / GRAPH_FILE).write_bytes(content)
    with pytest.raises(GraphError):
        load_graph(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0{}"], ids=["empty", "garbage", "no weights"]
)
def test_garbage_in_place_of_the_weights_is_refused(tmp_path: Path, content: bytes) -> None:
    save_graph(graph_of(DIAMOND), WEIGHTS, tmp_path)
    (tmp_path / WEIGHTS_FILE).write_bytes(content)
    with pytest.raises(GraphError):
        load_graph(tmp_path)


def test_weights_of_another_shape_or_type_are_refused(tmp_path: Path) -> None:
    for wrong in (torch.eye(4), torch.eye(8, dtype=torch.float64)):
        save_graph(graph_of(DIAMOND), {"w": wrong}, tmp_path)
        with pytest.raises(GraphError, match="'w' is"):
            load_graph(tmp_path)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="cannot read"):
        load_graph(tmp_path)
