"""The schedulers by name. A scheduler's options are the fields of its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from workers.schedulers.base import Scheduler, SchedulerError
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.ios import IosScheduler
from workers.schedulers.nimble import NimbleScheduler
from workers.schedulers.opara import OparaScheduler
from workers.schedulers.sequential import SequentialScheduler

_SCHEDULERS: dict[
    str,
    type[SequentialScheduler | GreedyScheduler | IosScheduler | NimbleScheduler | OparaScheduler],
] = {
    "sequential": SequentialScheduler,
    "greedy": GreedyScheduler,
    "nimble": NimbleScheduler,
    "opara": OparaScheduler,
    "ios": IosScheduler,
}


def names() -> tuple[str, ...]:
    """Every scheduler's name, simple and quick ones first."""
    return tuple(_SCHEDULERS)


def create(name: str, options: Mapping[str, Any] | None = None) -> Scheduler:
    """The scheduler of that name. Raises SchedulerError for an unknown name, option or value."""
    if name not in _SCHEDULERS:
        raise SchedulerError(f"unknown scheduler {name!r}; known: {', '.join(names())}")
    known = [field.name for field in fields(_SCHEDULERS[name])]
    for option in options or {}:
        if option not in known:
            raise SchedulerError(
                f"scheduler {name!r} has no option {option!r}; known: {', '.join(known) or 'none'}"
            )
    return _SCHEDULERS[name](**(options or {}))
