"""A Graph as two files: ``graph.json`` and ``weights.safetensors``.

``graph.json`` (version 1)::

    {"format": "plait.graph", "version": 1, "name": NAME,
     "inputs": [VALUE, …], "outputs": [VALUE, …], "weights": [VALUE, …],
     "values": {VALUE: {"shape": [INT, …], "dtype": "float32"}, …},
     "units": [{"name": UNIT, "kind": KIND, "inputs": [VALUE, …], "weights": [VALUE, …],
                "outputs": [VALUE, …], "flops": INT, "bytes_moved": INT,
                "operators": [{"name": NAME, "target": "aten.conv2d.default",
                               "arguments": [ARGUMENT, …], "keywords": {NAME: ARGUMENT, …},
                               "outputs": [VALUE, …]}, …]}, …]}

Units and operators stand in execution order. An ARGUMENT is null, a boolean, a number, a string, a
list of arguments, ``{"value": VALUE}`` for a tensor, or ``{"dtype": "float32"}``. Infinite numbers
are written as ``{"float": "inf"}``. The keys of ``weights.safetensors`` are the names in
``weights``. Names are of ASCII letters, digits and ``_ . : + -``.

Reading validates everything, because the files come out of a sandbox that held hostile input:
operators are on the allowed list, Units name what their operators really read and compute, so that
no dependency can be hidden, and names can be shown and logged as they are.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.graph.graph import (
    ITEM_SIZES,
    Argument,
    DtypeRef,
    Graph,
    GraphError,
    Operator,
    TensorSpec,
    Unit,
    ValueRef,
)
from workers.graph.operators import KINDS

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "plait.graph"
VERSION = 1
GRAPH_FILE = "graph.json"
WEIGHTS_FILE = "weights.safetensors"
_NAME = re.compile(r"[A-Za-z0-9_.:+-]{1,512}")


def save_graph(graph: Graph, weights: Mapping[str, Tensor], directory: Path) -> None:
    """Write both files into ``directory``, which is made if it is missing."""
    from safetensors.torch import save_file  # noqa: PLC0415  # torch loads only where tensors are

    directory.mkdir(parents=True, exist_ok=True)
    (directory / GRAPH_FILE).write_text(json.dumps(graph_to_json(graph), separators=(",", ":")))
    save_file(_apart({n: weights[n] for n in graph.weights}), directory / WEIGHTS_FILE)


def _apart(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors each with memory of its own, copied only where they are not: a model's
    weights may take most of the memory that there is."""
    seen: set[int] = set()
    tensors = {}
    for name, weight in weights.items():
        tensor = weight.detach().contiguous()
        memory = tensor.untyped_storage()
        if memory.data_ptr() in seen or memory.nbytes() != tensor.nbytes:
            tensor = tensor.clone()
        seen.add(tensor.untyped_storage().data_ptr())
        tensors[name] = tensor
    return tensors


def load_graph(directory: Path) -> tuple[Graph, dict[str, Tensor]]:
    """Read both files. Raises GraphError naming what does not fit."""
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415

    try:
        data = json.loads((directory / GRAPH_FILE).read_text())
        weights = load_file(directory / WEIGHTS_FILE)
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        raise GraphError(f"cannot read the graph: {error}") from error
    graph = graph_from_json(data)
    for name in graph.weights:
        if name not in weights:
            raise GraphError(f"{WEIGHTS_FILE} has no weight {name!r}")
        spec, tensor = graph.values[name], weights[name]
        found = TensorSpec(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        if found != spec:
            raise GraphError(f"weight {name!r} is {found}, but the graph says {spec}")
    return graph, {name: weights[name] for name in graph.weights}


def graph_hash(graph: Graph) -> str:
    """What a schedule is keyed by: the graph without its weights' values, in 32 hex digits."""
    text = json.dumps(graph_to_json(graph), separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """The JSON form described above."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "weights": list(graph.weights),
        "values": {
            name: {"shape": list(spec.shape), "dtype": spec.dtype}
            for name, spec in graph.values.items()
        },
        "units": [
            {
                "name": unit.name,
                "kind": unit.kind,
                "inputs": list(unit.inputs),
                "weights": list(unit.weights),
                "outputs": list(unit.outputs),
                "flops": unit.flops,
                "bytes_moved": unit.bytes_moved,
                "operators": [_operator_to_json(operator) for operator in unit.operators],
            }
            for unit in graph.units
        ],
    }


def graph_from_json(data: Any) -> Graph:
    """The inverse of ``graph_to_json``. Raises GraphError naming what is wrong."""
    try:
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise GraphError(f"not a {FORMAT} of version {VERSION}")
        graph = Graph(
            name=_text(data["name"]),
            inputs=_names(data["inputs"]),
            outputs=_names(data["outputs"]),
            weights=_names(data["weights"]),
            values={_text(name): _spec(name, spec) for name, spec in data["values"].items()},
            units=tuple(_unit(unit) for unit in data["units"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise GraphError(f"malformed graph: {type(error).__name__} {error}") from error
    _check_units(graph)
    return graph


def _check_units(graph: Graph) -> None:
    """A Unit's inputs, weights and outputs follow from its operators and their readers."""
    weights, outputs = set(graph.weights), set(graph.outputs)
    reads = [{name for o in unit.operators for name in o.inputs} for unit in graph.units]
    readers = Counter(name for names in reads for name in names)
    for unit, read in zip(graph.units, reads, strict=True):
        if not unit.operators:
            raise GraphError(f"unit {unit.name!r} has no operators")
        computed = {name for operator in unit.operators for name in operator.outputs}
        wanted = {name for name in computed if name in outputs or readers[name] > (name in read)}
        for what, listed, found in (
            ("inputs", unit.inputs, read - computed - weights),
            ("weights", unit.weights, read & weights),
            ("outputs", unit.outputs, wanted),
        ):
            if len(listed) != len(found) or set(listed) != found:
                raise GraphError(
                    f"unit {unit.name!r} lists the {what} {sorted(listed)}, but its operators "
                    f"have {sorted(found)}"
                )


def _operator_to_json(operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "target": operator.target,
        "arguments": [argument_to_json(argument) for argument in operator.arguments],
        "keywords": {name: argument_to_json(value) for name, value in operator.keywords},
        "outputs": list(operator.outputs),
    }


def argument_to_json(argument: Argument) -> Any:
    """An operator's argument: references, element types and infinite numbers are objects."""
    if isinstance(argument, ValueRef):
        return {"value": argument.name}
    if isinstance(argument, DtypeRef):
        return {"dtype": argument.name}
    if isinstance(argument, tuple):
        return [argument_to_json(item) for item in argument]
    if isinstance(argument, float) and not math.isfinite(argument):
        return {"float": str(argument)}
    return argument


def argument_from_json(data: Any) -> Argument:
    """The inverse of ``argument_to_json``. Raises GraphError."""
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, list):
        return tuple(argument_from_json(item) for item in data)
    if isinstance(data, dict) and len(data) == 1:
        ((kind, content),) = data.items()
        if kind == "value":
            return ValueRef(_text(content))
        if kind == "dtype" and content in ITEM_SIZES:
            return DtypeRef(content)
        if kind == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
    raise GraphError(f"not an argument: {data!r:.100}")


def _unit(data: Any) -> Unit:
    return Unit(
        name=_text(data["name"]),
        kind=_text(data["kind"]),
        operators=tuple(_operator(operator) for operator in data["operators"]),
        inputs=_names(data["inputs"]),
        weights=_names(data["weights"]),
        outputs=_names(data["outputs"]),
        flops=_count(data["flops"]),
        bytes_moved=_count(data["bytes_moved"]),
    )


def _operator(data: Any) -> Operator:
    target = _text(data["target"])
    if target not in KINDS:
        raise GraphError(f"operator {data['name']!r} calls {target!r}, which is not allowed")
    return Operator(
        name=_text(data["name"]),
        target=target,
        arguments=tuple(argument_from_json(argument) for argument in data["arguments"]),
        keywords=tuple(
            (_text(name), argument_from_json(v)) for name, v in data["keywords"].items()
        ),
        outputs=_names(data["outputs"]),
    )


def _spec(name: str, data: Any) -> TensorSpec:
    if data["dtype"] not in ITEM_SIZES:
        raise GraphError(f"value {name!r} has the unknown dtype {data['dtype']!r}")
    return TensorSpec(tuple(_count(size) for size in data["shape"]), data["dtype"])


def _names(data: Any) -> tuple[str, ...]:
    if not isinstance(data, list):
        raise GraphError(f"not a list of names: {data!r:.100}")
    return tuple(_text(name) for name in data)


def _text(data: Any) -> str:
    if not isinstance(data, str) or not _NAME.fullmatch(data):
        raise GraphError(f"not a name: {data!r:.100}")
    return data


def _count(data: Any) -> int:
    if not isinstance(data, int) or isinstance(data, bool) or data < 0:
        raise GraphError(f"not a count: {data!r:.100}")
    return data
