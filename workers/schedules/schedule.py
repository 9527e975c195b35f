"""What a scheduler decides. A Schedule is data, apart from the Graph, and names Units only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Strategy = Literal["concurrent", "merge"]


class ScheduleError(ValueError):
    """A schedule that does not fit its graph, its device or its library versions."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage (IOS, Section 3): groups run side by side, the Units of one group in order.

    ``threads`` gives each group's intra-operator threads on a CPU; empty leaves it to the device.
    """

    groups: tuple[tuple[str, ...], ...]
    strategy: Strategy = "concurrent"
    threads: tuple[int, ...] = ()

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(name for group in self.groups for name in group)


@dataclass(frozen=True, slots=True)
class ScheduleKey:
    """What a schedule was made for. Loading one under another key is an error, never a guess."""

    graph_hash: str
    device_fingerprint: str
    dtype: str
    batch_size: int
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StageSchedule:
    """Stages run one after another (sequential, greedy, IOS)."""

    scheduler: str
    stages: tuple[Stage, ...]
    kind: Literal["stages"] = "stages"

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(name for stage in self.stages for name in stage.units)


# StreamSchedule (Opara, Nimble), TaskSchedule (Rammer) and WiredSchedule (Astra) join this union.
Schedule = StageSchedule

SCHEDULE_FORMAT = "plait.schedule"
SCHEDULE_VERSION = 1


def schedule_to_json(schedule: Schedule, key: ScheduleKey) -> dict[str, Any]:
    """The versioned JSON form; ``schedule_from_json`` is its inverse."""
    return {
        "format": SCHEDULE_FORMAT,
        "version": SCHEDULE_VERSION,
        "key": {
            "graph_hash": key.graph_hash,
            "device_fingerprint": key.device_fingerprint,
            "dtype": key.dtype,
            "batch_size": key.batch_size,
            "versions": dict(key.versions),
        },
        "kind": schedule.kind,
        "scheduler": schedule.scheduler,
        "stages": [
            {
                "groups": [list(group) for group in stage.groups],
                "strategy": stage.strategy,
                "threads": list(stage.threads),
            }
            for stage in schedule.stages
        ],
    }


def schedule_from_json(data: Mapping[str, Any]) -> tuple[Schedule, ScheduleKey]:
    """Parse the JSON form; raises ScheduleError naming the field that is wrong."""
    if data.get("format") != SCHEDULE_FORMAT:
        raise ScheduleError(f"not a Plait schedule: format is {data.get('format')!r}")
    if data.get("version") != SCHEDULE_VERSION:
        raise ScheduleError(
            f"schedule version {data.get('version')!r} is not {SCHEDULE_VERSION}; schedule again"
        )
    if data.get("kind") != "stages":
        raise ScheduleError(f"unknown schedule kind {data.get('kind')!r}; known: stages")
    try:
        key = data["key"]
        schedule = StageSchedule(
            scheduler=data["scheduler"],
            stages=tuple(
                Stage(
                    groups=tuple(tuple(group) for group in stage["groups"]),
                    strategy=stage["strategy"],
                    threads=tuple(stage["threads"]),
                )
                for stage in data["stages"]
            ),
        )
        return schedule, ScheduleKey(
            graph_hash=key["graph_hash"],
            device_fingerprint=key["device_fingerprint"],
            dtype=key["dtype"],
            batch_size=key["batch_size"],
            versions=key["versions"],
        )
    except (KeyError, TypeError) as error:
        raise ScheduleError(f"malformed schedule: {error!r}") from error


def require_match(made_for: ScheduleKey, here: ScheduleKey) -> None:
    """Raises ScheduleError naming each field in which a schedule's key differs from where it is
    about to be used."""
    differences = [
        f"{name} is {theirs!r}, here it is {ours!r}"
        for name, theirs, ours in (
            ("graph_hash", made_for.graph_hash, here.graph_hash),
            ("device_fingerprint", made_for.device_fingerprint, here.device_fingerprint),
            ("dtype", made_for.dtype, here.dtype),
            ("batch_size", made_for.batch_size, here.batch_size),
            ("versions", dict(made_for.versions), dict(here.versions)),
        )
        if theirs != ours
    ]
    if differences:
        raise ScheduleError(
            f"the schedule was made for something else: {'; '.join(differences)}; schedule again"
        )
