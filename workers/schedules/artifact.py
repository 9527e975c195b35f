"""The artifact: a zip with the model, its schedule, and a program that runs both."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.graph.fused import UnitKernels
from workers.graph.fused_json import kernels_from_json, kernels_to_json
from workers.graph.graph import Graph, GraphError
from workers.graph.serialize import GRAPH_FILE, WEIGHTS_FILE, graph_hash, load_graph, save_graph
from workers.schedules.arrangement import arrange
from workers.schedules.plan import Plan, plan_from_json, plan_to_json
from workers.schedules.schedule import (
    Schedule,
    ScheduleError,
    ScheduleKey,
    StageSchedule,
    require_match,
    schedule_from_json,
    schedule_to_json,
)
from workers.schedules.validate import PlanError, validate

if TYPE_CHECKING:
    from torch import Tensor

README = """\
{name}, scheduled by Plait ({scheduler}, batch size {batch_size})

    pip install torch=={torch}{more}
    python run.py --help
    python run.py --bench

run.py        runs the model with the schedule; needs PyTorch{and_more} only
schedule.json the schedule, what it was made for, and how fast it was there
model/        the model: graph.json (ATen operators) and weights.safetensors

It was made for the device {device} with PyTorch {torch}. It computes the same anywhere
else; how fast it is there was not measured.
"""

_MODEL_FILES = (f"model/{GRAPH_FILE}", f"model/{WEIGHTS_FILE}")
_FILES = (*_MODEL_FILES, "run.py", "schedule.json", "README.txt")
_LARGEST_TEXT = 256 << 20
"""Bytes of ``schedule.json``: more is none."""


class ArtifactError(ScheduleError):
    """A file that is no artifact, or one that contradicts itself; says where."""


@dataclass(frozen=True)
class Artifact:
    """What an artifact holds, checked. ``plan`` is for ``graph``, which is stored beside it and
    whose hash is ``graph_hash``. ``key`` is what the schedule was made for: where the schedule
    merges Units, ``graph`` is the rewritten graph, and the key's hash that of the original."""

    graph: Graph
    weights: Mapping[str, Tensor]
    schedule: Schedule
    key: ScheduleKey
    plan: Plan
    provider: str
    summary: Mapping[str, Any]
    graph_hash: str
    parallelism: int
    kernels: Mapping[str, UnitKernels]


def write_artifact(
    path: Path,
    graph: Graph,
    weights: Mapping[str, Tensor],
    schedule: Schedule,
    key: ScheduleKey,
    plan: Plan,
    summary: Mapping[str, Any],
    parallelism: int,
    provider: str = "aten",
    kernels: Mapping[str, Any] | None = None,
) -> None:
    """Write the zip to ``path``. ``graph`` is the one that the plan is for, rewritten where the
    schedule merges Units. ``summary`` (JSON) says how fast the schedule was and by what it was
    verified; ``parallelism`` is that of the device that the plan is for; ``provider`` is whose
    kernels the plan was measured with where it names no other, and ``kernels`` what they call in
    place of the Units' operators (``kernels_to_json``), where they do.

    ``schedule.json`` is the versioned form of ``schedule_to_json`` with ``graph_hash`` (of the
    stored graph), ``plan``, ``parallelism``, ``arrangement`` (the plan on the cores of a CPU),
    ``provider``, ``kernels`` and ``summary`` added.
    """
    document = schedule_to_json(schedule, key) | {
        "graph_hash": graph_hash(graph),
        "plan": plan_to_json(plan),
        "parallelism": parallelism,
        "arrangement": arrange(plan, graph, parallelism).to_json(),
        "provider": provider,
        "kernels": kernels or kernels_to_json("cpu", {}),
        "summary": dict(summary),
    }
    with_onnx = "onnxruntime" in plan.providers(provider).values()
    readme = README.format(
        name=graph.name,
        scheduler=schedule.scheduler,
        batch_size=key.batch_size,
        torch=key.versions.get("torch", ""),
        more=" onnxruntime" if with_onnx else "",
        and_more=" and ONNX Runtime" if with_onnx else "",
        device=key.device_fingerprint,
    )
    with (
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".artifact-") as scratch,
        zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive,
    ):
        save_graph(graph, weights, Path(scratch))
        for file in sorted(Path(scratch).iterdir()):
            archive.write(file, f"model/{file.name}")
        archive.write(Path(__file__).with_name("run.py"), "run.py")
        archive.writestr("schedule.json", json.dumps(document, indent=1))
        archive.writestr("README.txt", readme)


def read_artifact(path: Path) -> Artifact:
    """Read an artifact and prove that it fits together. Raises ArtifactError saying what is wrong.

    Nothing in it is run, and nothing but its five files is read. Proved are: the layout of the zip
    and its checksums; the formats and their versions; that every operator is allowed and every
    weight has its shape and type; that the stored graph is the one that the schedule was written
    for; that the plan is valid for it; that ``run.py`` will run this plan and no other; and that
    the calls that stand for operators are allowed and fit the Units. Not proved is that these calls
    compute what the operators do.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_layout(archive, path)
            document = json.loads(archive.read("schedule.json"))
            with tempfile.TemporaryDirectory(prefix="plait-artifact-") as scratch:
                for name in _MODEL_FILES:
                    archive.extract(name, scratch)
                graph, weights = load_graph(Path(scratch) / "model")
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise ArtifactError(f"{path} cannot be read as a zip: {error}") from error
    except GraphError as error:
        raise ArtifactError(f"{path}: the model is broken: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: schedule.json is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ArtifactError(f"{path}: schedule.json is not an object")
    try:
        return _checked(document, graph, weights)
    except (ScheduleError, PlanError) as error:
        raise ArtifactError(f"{path}: {error}") from error


def require_made_for(
    artifact: Artifact,
    device: str,
    fingerprint: str,
    versions: Mapping[str, str],
    original_hash: str | None = None,
) -> None:
    """Raises ScheduleError if the artifact was made for another device than that of ``fingerprint``
    and ``versions``, or for another graph than that of ``original_hash``: it names what differs
    and the command that makes one for ``device``. Its figures then say nothing about this one."""
    here = replace(
        artifact.key,
        device_fingerprint=fingerprint,
        versions=versions,
        graph_hash=artifact.key.graph_hash if original_hash is None else original_hash,
    )
    try:
        require_match(artifact.key, here)
    except ScheduleError as error:
        raise ScheduleError(
            f"{error}: plait schedule MODEL --device {device} --batch {artifact.key.batch_size}"
        ) from error


def _check_layout(archive: zipfile.ZipFile, path: Path) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if missing := [name for name in _FILES if name not in names]:
        raise ArtifactError(f"{path} is no artifact: it has no {missing[0]}")
    if len(names) > len(_FILES):
        extra = next(n for n in names if n not in _FILES or names.count(n) > 1)
        raise ArtifactError(f"{path} is no artifact of ours: it has {extra!r} besides or twice")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise ArtifactError(f"{path}: {entry.filename} is compressed or encrypted")
    if archive.getinfo("schedule.json").file_size > _LARGEST_TEXT:
        raise ArtifactError(f"{path}: schedule.json is larger than {_LARGEST_TEXT >> 20} MiB")


def _checked(document: Mapping[str, Any], graph: Graph, weights: Mapping[str, Tensor]) -> Artifact:
    schedule, key = schedule_from_json(document)
    try:
        plan = plan_from_json(document["plan"])
        stored, parallelism = document["graph_hash"], document["parallelism"]
        provider, summary = document["provider"], document["summary"]
        arrangement = document["arrangement"]
        kernels = kernels_from_json(document["kernels"], graph)
        if not isinstance(parallelism, int) or parallelism < 1 or not isinstance(summary, dict):
            raise TypeError("'parallelism' is no count, or 'summary' no object")
        actual = graph_hash(graph)
        if stored != actual:
            raise ArtifactError(
                f"the schedule is for a graph of hash {stored}, but the stored one has {actual};"
                " a file was changed: download the artifact again"
            )
        validate(plan, graph)
        _check_units(schedule, graph)
        if arrangement != json.loads(json.dumps(arrange(plan, graph, parallelism).to_json())):
            raise ArtifactError(
                "'arrangement', which run.py follows, is not what this version of Plait makes of"
                " 'plan'; schedule again"
            )
    except GraphError as error:
        raise ArtifactError(str(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(
            f"schedule.json is malformed, or of another version of Plait: {error!r}; schedule again"
        ) from error
    return Artifact(
        graph, weights, schedule, key, plan, provider, summary, stored, parallelism, kernels
    )


def _check_units(schedule: Schedule, graph: Graph) -> None:
    """A schedule that merges nothing is of the Units of the stored graph, each once."""
    if isinstance(schedule, StageSchedule) and any(s.strategy == "merge" for s in schedule.stages):
        return
    if sorted(schedule.units) != sorted(unit.name for unit in graph.units):
        raise ArtifactError("the schedule and the stored graph are not of the same units")
