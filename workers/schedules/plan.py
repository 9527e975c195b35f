"""The Plan: what every Schedule lowers to and every Device runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Stream:
    """A queue that runs its launches in order. ``threads`` is its intra-operator thread count on
    a CPU and ignored elsewhere."""

    threads: int = 1


@dataclass(frozen=True, slots=True)
class Launch:
    """Run one Unit on one stream, after its earlier launches and after every event in ``waits``.

    ``records`` is the event that completes with this launch, or None if nobody waits for it.
    ``provider`` names whose kernels compute the Unit; None leaves it to whoever runs the Plan.
    """

    unit: str
    stream: int
    waits: tuple[int, ...] = ()
    records: int | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Launches in issue order over streams; event numbers are dense from 0, each recorded once."""

    streams: tuple[Stream, ...]
    launches: tuple[Launch, ...]

    def providers(self, default: str) -> dict[str, str]:
        """Whose kernels compute each Unit: those of ``default`` where the Plan leaves it open."""
        return {launch.unit: launch.provider or default for launch in self.launches}


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The JSON form; ``plan_from_json`` is its inverse."""
    return {
        "streams": [{"threads": stream.threads} for stream in plan.streams],
        "launches": [
            {
                "unit": launch.unit,
                "stream": launch.stream,
                "waits": list(launch.waits),
                "records": launch.records,
                **({"provider": launch.provider} if launch.provider else {}),
            }
            for launch in plan.launches
        ],
    }


def plan_from_json(data: Mapping[str, Any]) -> Plan:
    """Parse the JSON form. What it says is proved by ``workers.schedules.validate``, not here."""
    return Plan(
        streams=tuple(Stream(stream["threads"]) for stream in data["streams"]),
        launches=tuple(
            Launch(
                launch["unit"],
                launch["stream"],
                tuple(launch["waits"]),
                launch["records"],
                launch.get("provider"),
            )
            for launch in data["launches"]
        ),
    )
