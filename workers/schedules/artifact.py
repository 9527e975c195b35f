"""The artifact: a zip with the model, its schedule, and a program that runs both."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.graph.graph import Graph
from workers.graph.serialize import save_graph
from workers.schedules.arrangement import arrange
from workers.schedules.plan import Plan, plan_to_json
from workers.schedules.schedule import Schedule, ScheduleKey, schedule_to_json

if TYPE_CHECKING:
    from torch import Tensor

README = """\
{name}, scheduled by Plait ({scheduler}, batch size {batch_size})

    pip install torch=={torch}
    python run.py --help
    python run.py --bench

run.py        runs the model with the schedule; needs PyTorch only
schedule.json the schedule, what it was made for, and how fast it was there
model/        the model: graph.json (ATen operators) and weights.safetensors

It was made for the device {device} with PyTorch {torch}. It computes the same anywhere
else; how fast it is there was not measured.
"""


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
) -> None:
    """Write the zip to ``path``. ``summary`` (JSON) says how fast the schedule was and by what it
    was verified; ``parallelism`` is that of the device that the plan is for; ``provider`` is whose
    kernels the plan was measured with.

    ``schedule.json`` is the versioned form of ``schedule_to_json`` with ``plan``, ``arrangement``
    (the plan on the cores of a CPU) and ``summary`` added.
    """
    document = schedule_to_json(schedule, key) | {
        "plan": plan_to_json(plan),
        "arrangement": arrange(plan, graph, parallelism).to_json(),
        "provider": provider,
        "summary": dict(summary),
    }
    readme = README.format(
        name=graph.name,
        scheduler=schedule.scheduler,
        batch_size=key.batch_size,
        torch=key.versions.get("torch", ""),
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
