"""A candidate as an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.devices.base import DeviceFacts
from workers.devices.providers import kernels_of
from workers.runner.workplace import Candidate
from workers.schedules.artifact import write_artifact


def pack(path: Path, candidate: Candidate, facts: DeviceFacts, summary: Mapping[str, Any]) -> None:
    """Write its artifact for the device of these ``facts``; ``summary`` says how it fared."""
    merged, plan = candidate.merged, candidate.plan
    kernels = kernels_of(merged.graph, plan.providers(candidate.provider), facts)
    write_artifact(
        path,
        merged.graph,
        merged.weights,
        candidate.found.schedule,
        candidate.key,
        plan,
        summary,
        facts.parallelism,
        candidate.provider,
        kernels,
    )
