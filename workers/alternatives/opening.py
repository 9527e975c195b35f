"""Opening what runs in a process of its own: an alternative, or what is delivered."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from workers.alternatives.catalog import ARTIFACT, KINDS, AlternativeError, missing
from workers.alternatives.process import Process
from workers.alternatives.separate import SeparateModel, named
from workers.devices.cpu_facts import SETTINGS
from workers.graph.graph import Graph
from workers.graph.importers import model_path, model_request
from workers.graph.importers.sandbox import Place, SandboxLimits, sandbox_place
from workers.graph.importers.source import ImportFailure, ModelSource

_PASSED_ON = (*SETTINGS, "CXX")
_OF_RUN_PY = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "300000"}
"""What ``python run.py`` sets for itself before it loads PyTorch."""


@contextmanager
def open_alternative(
    name: str,
    source: ModelSource,
    graph: Graph,
    batch_size: int,
    workdir: Path,
    limits: SandboxLimits,
    cores: Sequence[int],
    sequence_length: int | None = None,
    device: str = "cpu",
    seconds: float = 120.0,
) -> Iterator[SeparateModel]:
    """The original ``source`` at these sizes, made ready within ``seconds`` and run on as many
    threads as there are ``cores``, which it keeps to; ``graph`` is what was imported from it.

    ``limits.seconds`` is how long its process may be there in all. Its files are in ``workdir``
    until the context ends, what ``torch.compile`` has made among them: code that a model's process
    wrote is for that process alone. Raises AlternativeError with the reason if it cannot be had.
    """
    if name not in KINDS:
        raise AlternativeError(f"no alternative is named {name!r}; known: {', '.join(KINDS)}")
    kind = KINDS[name]
    with named(name):
        if lacking := missing(kind):
            raise AlternativeError(lacking)
        try:
            request = model_request(source, batch_size, sequence_length)
        except ImportFailure as failure:
            raise AlternativeError(str(failure)) from failure
    with sandbox_place(workdir) as place:
        request |= {"alternative": name, "device": device, "cores": list(cores)}
        order = place.order(request, model_path(source), limits)
        with named(name):
            environment = _environment(place, len(cores), device)
            process = Process(order, place.scratch, environment, limits, seconds)
        with SeparateModel(name, process, place, graph, seconds) as alternative:
            yield alternative


@contextmanager
def open_delivered(
    name: str,
    artifact: Path,
    graph: Graph,
    workdir: Path,
    limits: SandboxLimits,
    cores: Sequence[int],
    arrays: bool = False,
    seconds: float = 120.0,
) -> Iterator[SeparateModel]:
    """What a user of the ``artifact`` runs on the CPU: the zip, which is one of ours and of
    ``graph``, unpacked, and its ``run.py`` with the settings that it has as a program; called with
    tensors, or with ``arrays`` of NumPy, as whoever uses ONNX Runtime has them.

    In no sandbox: nothing runs but what this service has written, and a sandbox would hide from it
    the threads that it puts on cores. Raises AlternativeError with the reason if it does not run.
    """
    with sandbox_place(workdir) as place:
        with zipfile.ZipFile(artifact) as archive:
            archive.extractall(place.given / ARTIFACT)
        request = {"alternative": None, "device": "cpu", "cores": list(cores)}
        order = place.order(request | {"arrays": arrays}, None, limits)
        environment = _OF_RUN_PY | _environment(place, len(cores), "cpu")
        with named(name):
            process = Process(order, place.scratch, environment, limits, seconds)
        what = "timed as run.py of its artifact runs it,"
        with SeparateModel(name, process, place, graph, seconds, what) as delivered:
            yield delivered


def _environment(place: Place, threads: int, device: str) -> dict[str, str]:
    """What changes how fast operators run here changes it there too. For a GPU, compiling on more
    than one thread would start processes that stay."""
    return {
        **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "TORCHINDUCTOR_CACHE_DIR": str(place.scratch / "inductor"),
        "TRITON_CACHE_DIR": str(place.scratch / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": str(threads) if device == "cpu" else "1",
        "TORCH_WARM_POOL": "0",
        "TORCHINDUCTOR_VEC_ISA_OK": "1",  # /proc/cpuinfo says so; compiling to see takes seconds
    }
