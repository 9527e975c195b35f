"""The sandboxed process: ``python -m workers.graph.importers.child``, its order as JSON on stdin.

An order says what to do with which model, and within what bounds::

    {"task": "import" | "run", "batch_size": INT, "sequence_length": INT | null,
     "seeds": [INT, …], "zoo": NAME | null, "model": PATH | null, "format": FORMAT | null,
     "hidden": [PATH, …], "scratch": PATH, "given": PATH, "root": PATH, "memory_bytes": INT,
     "seconds": FLOAT, "starter": PID}

It shuts itself in, says on stdout which layers are in force, and only then opens the model. In the
scratch folder it leaves ``result.json``, ``{"failure": {kind, detail, operator}}`` or ``{}``, and
besides it a Graph's two files, or one file of outputs for each seed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.graph.importers.catalog import FORMATS
from workers.graph.importers.isolation import isolate
from workers.graph.importers.isolation.limits import Bounds, end_with_parent
from workers.graph.importers.isolation.view import View, gpu_devices, needed_paths
from workers.graph.importers.opened import OpenedModel, Opener, Sizes
from workers.graph.importers.sandbox import (
    OUT_OF_MEMORY_SIGNS,
    RESULT_FILE,
    out_of_memory,
    outputs_file,
)
from workers.graph.importers.source import ImportFailure


def main() -> int:
    """Carry out the order; 0 if there is a result, be it a failure."""
    order = json.loads(sys.stdin.buffer.read())
    layers = shut_in(order)
    sys.stdout.write(json.dumps(layers) + "\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a model may print; nobody else may report
    scratch = Path(order["scratch"])
    (scratch / RESULT_FILE).write_text(json.dumps(_carry_out(order, scratch)))
    return 0


def shut_in(order: Mapping[str, Any], programs: bool = False, gpu: bool = False) -> tuple[str, ...]:
    """Shut this process in as the order says; the layers in force. ``programs`` as for ``isolate``;
    with ``gpu`` it can use the GPUs.

    Exits if whoever started this process is gone.
    """
    end_with_parent()
    if os.getppid() != order["starter"]:
        sys.exit(1)  # it died before it could take us along
    readable = (*needed_paths(map(Path, order["hidden"])), Path(order["given"]))
    if order["model"]:
        readable = (*readable, Path(order["model"]))
    devices = gpu_devices() if gpu else ()
    return isolate(
        View(readable, Path(order["scratch"]), Path(order["root"]), devices),
        Bounds(order["memory_bytes"], order["seconds"], address_space=not gpu),
        programs,
    )


def _carry_out(order: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    try:
        if order["task"] == "import":
            _import(order, scratch)
        else:
            _run(order, scratch)
    except ImportFailure as given:
        failure = given
        if any(sign in repr(given.__cause__) for sign in OUT_OF_MEMORY_SIGNS):
            failure = out_of_memory(order["memory_bytes"])
        what = {"kind": failure.kind, "detail": failure.detail, "operator": failure.operator}
        return {"failure": what}
    return {}


def _import(order: Mapping[str, Any], scratch: Path) -> None:
    graph, weights = _open(order).graph()
    from workers.graph.serialize import save_graph  # noqa: PLC0415  # torch, when needed

    save_graph(graph, weights, scratch)


def _run(order: Mapping[str, Any], scratch: Path) -> None:
    model = _open(order)
    from safetensors.torch import save_file  # noqa: PLC0415  # torch, when needed

    for index, outputs in enumerate(model.run(order["seeds"])):
        tensors = {name: tensor.contiguous().clone() for name, tensor in outputs.items()}
        save_file(tensors, scratch / outputs_file(index))


def _open(order: Mapping[str, Any]) -> OpenedModel:
    sizes = Sizes(order["batch_size"], order["sequence_length"])
    if order["zoo"]:
        return _open_zoo(order["zoo"], sizes)
    module = importlib.import_module(FORMATS[order["format"]])  # torch, after it was shut in
    opener: Opener = module.open_model
    return opener(Path(order["model"]), sizes, order["memory_bytes"])


def _open_zoo(name: str, sizes: Sizes) -> OpenedModel:
    from workers import zoo  # noqa: PLC0415  # shut in first
    from workers.graph.importers.pt2 import ExportedModel  # noqa: PLC0415

    if not zoo.known(name):
        known = ", ".join(zoo.names())
        raise ImportFailure("malformed", f"the zoo has no model {name!r}; it has {known}")
    try:
        program = zoo.program(name, sizes.batch_size, sizes.sequence_length)
    except ValueError as error:
        raise ImportFailure("unsupported_input", str(error)) from error
    return ExportedModel(program, Sizes(sizes.batch_size))


if __name__ == "__main__":
    sys.exit(main())
