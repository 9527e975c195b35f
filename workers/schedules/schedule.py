"""What a scheduler decides. A Schedule is data, apart from the Graph, and names Units only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Stages run one after another (sequential, greedy, IOS). Without ``barriers`` a Unit of the
    next stage may begin as soon as what it depends on is done."""

    scheduler: str
    stages: tuple[Stage, ...]
    barriers: bool = True
    kind: Literal["stages"] = "stages"

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(name for stage in self.stages for name in stage.units)


@dataclass(frozen=True, slots=True)
class Placement:
    """A Unit and the stream that it runs on, counted from 0. ``provider`` names whose kernels
    compute it; None leaves that to the job."""

    unit: str
    stream: int
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class StreamSchedule:
    """Units on streams, in the order in which they are launched (Opara, Nimble).

    What must wait for what follows from the graph. ``threads`` gives each stream's intra-operator
    threads on a CPU; empty leaves it to the device.
    """

    scheduler: str
    placements: tuple[Placement, ...]
    threads: tuple[int, ...] = ()
    kind: Literal["streams"] = "streams"

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(placement.unit for placement in self.placements)


# TaskSchedule (Rammer) and WiredSchedule (Astra) join this union.
Schedule = StageSchedule | StreamSchedule

SCHEDULE_FORMAT = "plait.schedule"
SCHEDULE_VERSION = 1


def schedule_to_json(schedule: Schedule, key: ScheduleKey) -> dict[str, Any]:
    """The versioned JSON form; ``schedule_from_json`` is its inverse."""
    decision: dict[str, Any]
    if isinstance(schedule, StageSchedule):
        decision = {
            "stages": [
                {
                    "groups": [list(group) for group in stage.groups],
                    "strategy": stage.strategy,
                    "threads": list(stage.threads),
                }
                for stage in schedule.stages
            ],
            "barriers": schedule.barriers,
        }
    else:
        decision = {
            "placements": [
                [placement.unit, placement.stream, *filter(None, [placement.provider])]
                for placement in schedule.placements
            ],
            "threads": list(schedule.threads),
        }
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
        **decision,
    }


def schedule_from_json(data: Mapping[str, Any]) -> tuple[Schedule, ScheduleKey]:
    """Parse the JSON form; raises ScheduleError naming the field that is wrong."""
    if data.get("format") != SCHEDULE_FORMAT:
        raise ScheduleError(f"not a Plait schedule: format is {data.get('format')!r}")
    if data.get("version") != SCHEDULE_VERSION:
        raise ScheduleError(
            f"schedule version {data.get('version')!r} is not {SCHEDULE_VERSION}; schedule again"
        )
    if data.get("kind") not in _FROM_JSON:
        known = ", ".join(_FROM_JSON)
        raise ScheduleError(f"unknown schedule kind {data.get('kind')!r}; known: {known}")
    try:
        key = data["key"]
        return _FROM_JSON[data["kind"]](data), ScheduleKey(
            graph_hash=key["graph_hash"],
            device_fingerprint=key["device_fingerprint"],
            dtype=key["dtype"],
            batch_size=key["batch_size"],
            versions=key["versions"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ScheduleError(f"malformed schedule: {error!r}") from error


def _stages(data: Mapping[str, Any]) -> Schedule:
    barriers = data.get("barriers", True)
    if not isinstance(barriers, bool):
        raise TypeError(f"'barriers' is {barriers!r}, neither true nor false")
    return StageSchedule(
        scheduler=data["scheduler"],
        stages=tuple(
            Stage(
                groups=tuple(tuple(group) for group in stage["groups"]),
                strategy=stage["strategy"],
                threads=tuple(stage["threads"]),
            )
            for stage in data["stages"]
        ),
        barriers=barriers,
    )


def _streams(data: Mapping[str, Any]) -> Schedule:
    return StreamSchedule(
        scheduler=data["scheduler"],
        placements=tuple(Placement(*placement) for placement in data["placements"]),
        threads=tuple(data["threads"]),
    )


_FROM_JSON: dict[str, Callable[[Mapping[str, Any]], Schedule]] = {
    "stages": _stages,
    "streams": _streams,
}


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
