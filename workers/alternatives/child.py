"""The process of an alternative, or of what is delivered: ``python -m workers.alternatives.child``.

The first line on stdin is its order, as for ``workers.graph.importers.child``, with::

    {"alternative": NAME | null, "device": "cpu" | "cuda:N", "cores": [INT, …], …}

It keeps to the cores, an alternative shuts itself in, and it writes on stdout a line with the
layers in force and, once the model is ready, an answer. Then each line is a command that is
answered by a line::

    {"do": "give", "file": NAME}     inputs for what follows, from the folder of what is given
    {"do": "run", "file": NAME}      call the model, and write its outputs into the scratch folder
    {"do": "time", "repeats": INT}   {"latencies": [MS, …]}

Every answer is an object, of a ``failure`` in words if it has one. The end of stdin is its end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from workers.alternatives.catalog import ARTIFACT, KINDS, Kind, out_of_memory
from workers.devices.allocator import keep_freed_memory
from workers.graph.importers.child import shut_in
from workers.graph.importers.isolation.limits import end_with_parent, volunteer_for_oom
from workers.graph.importers.sandbox import OUT_OF_MEMORY_SIGNS
from workers.graph.importers.source import ImportFailure

if TYPE_CHECKING:
    from workers.alternatives.runners import Runner

_MAX_FAILURE = 2000


def main() -> int:
    order = json.loads(sys.stdin.buffer.readline())
    kind = KINDS[order["alternative"]] if order["alternative"] else None
    os.sched_setaffinity(0, order["cores"])
    layers = _shut_in(order, kind)
    commands, answers = _own_pipes()
    _say(answers, list(layers))
    if kind and kind.compiles and order["model"] and "processes" not in layers:
        # Without namespaces there is no limit on how many processes it starts.
        why = (
            "the kernel grants no namespaces, without which no uploaded model may start a compiler"
        )
        _say(answers, {"failure": why})
        return 0
    runner = None
    try:
        runner = _prepare(order)
        _say(answers, {})
    except Exception as error:
        _say(answers, {"failure": _words(error, order)})
        return 0
    for line in commands:
        try:
            found = _carry_out(json.loads(line), runner, order)
        except Exception as error:
            found = {"failure": _words(error, order)}
        _say(answers, found)
    return 0


def _shut_in(order: Mapping[str, Any], kind: Kind | None) -> tuple[str, ...]:
    """The layers in force; none for what is delivered, which is no alternative."""
    if kind is not None:
        return shut_in(order, programs=kind.compiles, gpu=order["device"] != "cpu")
    end_with_parent()
    if os.getppid() != order["starter"]:
        sys.exit(1)  # it died before it could take us along
    volunteer_for_oom()
    return ()


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Stdin and stdout for this module alone: a model may read and print, but nobody listens."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    commands = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123  # a device
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    return commands, answers


def _say(answers: BinaryIO, what: Any) -> None:
    answers.write(json.dumps(what).encode() + b"\n")


def _prepare(order: Mapping[str, Any]) -> Runner:
    import torch  # noqa: PLC0415  # shut in first

    from workers.alternatives.originals import open_original  # noqa: PLC0415
    from workers.alternatives.runners import make_runner, run_delivered  # noqa: PLC0415

    if order["alternative"] is None:
        return run_delivered(Path(order["given"], ARTIFACT), order["arrays"])
    keep_freed_memory()  # as the CPU device does: how it fares without is a matter of luck
    torch.set_num_threads(len(order["cores"]))
    kind = KINDS[order["alternative"]]
    return make_runner(kind, open_original(order), len(order["cores"]), order["device"])


def _carry_out(
    command: Mapping[str, Any], runner: Runner, order: Mapping[str, Any]
) -> dict[str, Any]:
    from safetensors.torch import load_file, save_file  # noqa: PLC0415  # torch, when needed

    if command["do"] == "time":
        return {"latencies": runner.time(command["repeats"])}
    if command["do"] == "give":
        given = load_file(Path(order["given"], command["file"]))
        runner.give([given[f"input_{number}"] for number in range(len(given))])
        return {}
    outputs = {
        f"output_{number}": tensor.contiguous().clone()
        for number, tensor in enumerate(runner.run())
    }
    save_file(outputs, Path(order["scratch"], command["file"]))
    return {}


def _words(error: Exception, order: Mapping[str, Any]) -> str:
    """Why it failed: the first line of what the error says, which is where libraries put it."""
    if any(sign in repr((error, error.__cause__)) for sign in OUT_OF_MEMORY_SIGNS):
        return out_of_memory(order["memory_bytes"])
    if isinstance(error, ImportFailure):
        return error.detail
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_MAX_FAILURE]


if __name__ == "__main__":
    os._exit(main())  # nothing is left to be done, and a model could have put something there
