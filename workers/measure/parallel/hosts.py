"""The Precise Parallel Measurer over several hosts (DOPpler, Section 4.2, Algorithm 1 with the
devices of all of them).

Candidates are divided among the devices here and elsewhere in turns, and each measures ``d_p`` of
its own at once. What a remote device does not answer is measured by another one: an order has a
ticket of its own, which is not waited for any more once it was given up, so that nothing is lost
and no answer counts twice or for another candidate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from workers.measure.effort import Effort, never
from workers.measure.measurement import Failure
from workers.measure.parallel.child import STARTING_S
from workers.measure.parallel.pool import MeasuringPool, Told
from workers.measure.parallel.subject import Outcome, Reading, Subject

SHUNNED_S = 60.0
"""How long a remote device is not asked again after it lost an order."""

_LOOK_S = 1.0
"""How long answers are waited for before the budget is looked at again."""


@dataclass(frozen=True, slots=True)
class RemoteDevice:
    """A device of another host. ``name`` is its alone; ``worker`` is who serves it now: one that
    was started again has another."""

    name: str
    worker: str


@dataclass(frozen=True, slots=True)
class Order:
    """A candidate for a remote device, which measures ``degree`` of those that were placed
    together at once, each for at most ``timeout_s``."""

    subject: Subject
    device: RemoteDevice
    degree: int
    timeout_s: float
    effort: Effort


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an order: as ``Outcome``, but that times are of ``time.monotonic`` here, and
    ``worker`` counts the processes of the remote device."""

    ticket: int
    worker: int
    started_s: float
    ended_s: float
    reading: Reading | None = None
    failure: Failure | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """What is new of some orders: the ``answers``, and the tickets that are ``lost``, as whoever
    should answer is gone, refuses, or has not begun for too long."""

    answers: tuple[Answer, ...] = ()
    lost: frozenset[int] = frozenset()


class Orders(Protocol):
    """How candidates get to other hosts, and what is said of them gets back."""

    def devices(self) -> Sequence[RemoteDevice]:
        """Those that are alive and measure as the devices here do."""
        ...

    def accepts(self, subject: Subject) -> bool:
        """Whether the candidate can be sent to another host."""
        ...

    def place(self, orders: Sequence[Order]) -> Sequence[int]:
        """Send them all; the ticket of each, which no other order ever had."""
        ...

    def collect(self, tickets: Collection[int], timeout_s: float) -> Collected:
        """What is new of these orders, as soon as anything is, or after ``timeout_s``."""
        ...

    def give_up(self, tickets: Collection[int]) -> None:
        """These are not waited for any more. Nothing happens to those that were answered."""
        ...


class HostsPool:
    """Measures on the devices of ``local`` and on the remote ones of ``orders``; a
    ``MeasuringPool``. Not for several threads at once.

    ``devices`` follows what is alive after each ``measure``, so that a round is of the size that
    was asked for. One that is gone since has no part in the next ``measure``; one that loses an
    order is left alone for ``shunned_s``.
    """

    def __init__(
        self,
        local: MeasuringPool,
        orders: Orders,
        shunned_s: float = SHUNNED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._local, self._orders = local, orders
        self._shunned_s, self._clock = shunned_s, clock
        self._shunned: dict[RemoteDevice, float] = {}
        self._remote = self._reachable()

    @property
    def devices(self) -> tuple[str, ...]:
        return (*self._local.devices, *(device.name for device in self._remote))

    @property
    def made_s(self) -> float:
        return self._local.made_s

    def measure(
        self,
        subjects: Sequence[Subject],
        degree: int,
        timeout_s: float,
        effort: Effort,
        told: Told = lambda outcome: None,
        expired: Callable[[], bool] = never,
        places: Sequence[str] | None = None,
    ) -> list[Outcome | None]:
        """As ``MeasuringPool`` says; remote outcomes are told when those here have ended. What a
        remote device has not answered when ``expired`` becomes true is None too."""
        if degree < 1:
            raise ValueError(f"the degree of parallelism is {degree}, and must be at least 1")
        outcomes: list[Outcome | None] = [None] * len(subjects)

        def take(outcome: Outcome) -> None:
            outcomes[outcome.position] = outcome
            told(outcome)

        work = _Work(subjects, degree, timeout_s, effort, places, take, expired)
        left: Sequence[int] = range(len(subjects))
        while left and not expired():
            self._share(work, left)
            left = [position for position in left if outcomes[position] is None]
        self._remote = self._reachable()
        return outcomes

    def close(self) -> None:
        """Kill the processes here."""
        self._local.close()

    def _reachable(self) -> tuple[RemoteDevice, ...]:
        now = self._clock()
        self._shunned = {device: until for device, until in self._shunned.items() if until > now}
        alive = [device for device in self._orders.devices() if device not in self._shunned]
        return tuple(sorted(alive, key=lambda device: device.name))

    def _share(self, work: _Work, left: Sequence[int]) -> None:
        """Divide what is ``left`` among the devices, and see to it that each has measured its
        part, or is known to have lost some of it."""
        alive = frozenset(self._reachable())
        remote = {device.name: device for device in self._remote if device in alive}
        targets = self._divided(work, left, tuple(remote))
        sent = [position for position in left if targets[position] in remote]
        orders = [
            Order(
                work.subjects[position],
                remote[targets[position]],
                work.degree,
                work.timeout_s,
                work.effort,
            )
            for position in sent
        ]
        tickets = self._orders.place(orders) if orders else ()
        waiting = {
            ticket: _Sent(position, order.device)
            for ticket, position, order in zip(tickets, sent, orders, strict=True)
        }
        try:
            self._measure_here(work, [place for place in left if place not in set(sent)], targets)
            self._wait(work, waiting)
        finally:
            if waiting:
                self._orders.give_up(tuple(waiting))

    def _divided(
        self, work: _Work, left: Sequence[int], remote: Sequence[str]
    ) -> Mapping[int, str]:
        """Where each is measured: in its place, or on the device that has the fewest so far, which
        takes them in turns. What cannot be sent stays here."""
        everywhere = (*self._local.devices, *remote)
        shares = dict.fromkeys(everywhere, 0)
        targets = {}
        for position in left:
            sendable = not remote or self._orders.accepts(work.subjects[position])
            possible = everywhere if sendable else self._local.devices
            wanted = work.places[position] if work.places is not None else None
            chosen = wanted if wanted in possible else min(possible, key=shares.__getitem__)
            shares[chosen] += 1
            targets[position] = chosen
        return targets

    def _measure_here(self, work: _Work, mine: Sequence[int], targets: Mapping[int, str]) -> None:
        if mine:
            self._local.measure(
                [work.subjects[position] for position in mine],
                work.degree,
                work.timeout_s,
                work.effort,
                told=lambda found: work.take(replace(found, position=mine[found.position])),
                expired=work.expired,
                places=None if work.places is None else [targets[place] for place in mine],
            )

    def _wait(self, work: _Work, waiting: dict[int, _Sent]) -> None:
        """Until all are answered or lost, nothing more may be begun, or it takes longer than it
        possibly can. Those that are done with are taken out of ``waiting``."""
        deadline = self._clock() + self._longest_s(work, waiting)
        while waiting:
            expired = work.expired()
            found = self._orders.collect(tuple(waiting), 0.0 if expired else _LOOK_S)
            for answer in found.answers:
                sent = waiting.pop(answer.ticket, None)
                if sent is not None:
                    work.take(self._outcome(answer, sent))
            lost = set(waiting) if self._clock() >= deadline else found.lost & waiting.keys()
            for ticket in lost:
                self._shunned[waiting[ticket].device] = self._clock() + self._shunned_s
            if lost:
                self._orders.give_up(tuple(lost))
            for ticket in lost:
                del waiting[ticket]
            if expired:
                return

    def _longest_s(self, work: _Work, waiting: Mapping[int, _Sent]) -> float:
        """How long a device may take for its part, if it has to start its processes first."""
        devices = [sent.device for sent in waiting.values()]
        most = max((devices.count(device) for device in set(devices)), default=0)
        return STARTING_S + math.ceil(most / work.degree) * (work.timeout_s + _LOOK_S)

    def _outcome(self, answer: Answer, sent: _Sent) -> Outcome:
        zero = self._local.made_s
        return Outcome(
            position=sent.position,
            device=sent.device.name,
            worker=answer.worker,
            started_s=answer.started_s - zero,
            ended_s=answer.ended_s - zero,
            reading=answer.reading,
            failure=answer.failure,
            reason=answer.reason,
        )


@dataclass(frozen=True, slots=True)
class _Sent:
    """An order that is waited for."""

    position: int
    device: RemoteDevice


@dataclass(frozen=True, slots=True)
class _Work:
    """What ``measure`` was asked for."""

    subjects: Sequence[Subject]
    degree: int
    timeout_s: float
    effort: Effort
    places: Sequence[str] | None
    take: Told
    expired: Callable[[], bool]
