"""Candidates over several hosts: whatever becomes of a host, each candidate has one outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.measure.effort import USUAL, Effort, never
from workers.measure.measurement import Failure
from workers.measure.parallel.doppler import DopplerMeasurer
from workers.measure.parallel.hosts import Answer, Collected, HostsPool, Order, RemoteDevice
from workers.measure.parallel.pool import MeasuringPool, Told
from workers.measure.parallel.rounds import ParallelRound
from workers.measure.parallel.subject import Bench, Outcome, Reading, Run, Subject

HERE = "cpu"


@dataclass(frozen=True)
class Numbered:
    """Its latency tells which candidate was measured."""

    number: int
    portable: bool = True

    @contextmanager
    def open(self, device: str) -> Iterator[Bench]:
        raise AssertionError("it is never opened")
        yield

    def reading(self) -> Reading:
        latency = 1.0 + self.number
        return Reading((Run(latency, latency),), 0.1)


def numbered(subject: Subject) -> Numbered:
    assert isinstance(subject, Numbered)
    return subject


@dataclass
class Here:
    """Measures at once, and keeps what it was asked for."""

    names: tuple[str, ...] = (HERE,)
    taken: list[int] = field(default_factory=list)
    made_s: float = 0.0
    closed: bool = False

    @property
    def devices(self) -> tuple[str, ...]:
        return self.names

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
        outcomes: list[Outcome | None] = []
        for position, subject in enumerate(subjects):
            if expired():
                outcomes.append(None)
                continue
            place = self.names[position % len(self.names)] if places is None else places[position]
            assert place in self.names
            reading = numbered(subject).reading()
            outcome = Outcome(position, place, 0, 0.0, 1.0, reading)
            self.taken.append(numbered(subject).number)
            outcomes.append(outcome)
            told(outcome)
        return outcomes

    def close(self) -> None:
        self.closed = True


FATES = ("answers", "fails", "answers late", "answers twice", "never answers", "refuses", "dies")


@dataclass
class Elsewhere:
    """Other hosts in memory. What becomes of each order is told in advance; a ``collect`` brings
    news of at most ``at_once`` of them, and a late answer arrives after its order was lost."""

    hosts: list[RemoteDevice]
    fates: Iterator[str]
    at_once: int = 1
    placed: dict[int, Order] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)
    late: list[Answer] = field(default_factory=list)
    _open: dict[int, str] = field(default_factory=dict)
    _tickets: Iterator[int] = field(default_factory=lambda: count(100))

    def devices(self) -> list[RemoteDevice]:
        return list(self.hosts)

    def accepts(self, subject: Subject) -> bool:
        return numbered(subject).portable

    def place(self, orders: Sequence[Order]) -> list[int]:
        tickets = [next(self._tickets) for _ in orders]
        for ticket, order in zip(tickets, orders, strict=True):
            assert order.device in self.hosts
            assert numbered(order.subject).portable
            self.placed[ticket] = order
            self._open[ticket] = next(self.fates, "answers")
        return tickets

    def collect(self, tickets: Collection[int], timeout_s: float) -> Collected:
        answers, lost = self.late, set()
        self.late = []
        for ticket in list(tickets)[: self.at_once]:
            fate = self._open[ticket]
            device = self.placed[ticket].device
            if device not in self.hosts:
                lost.add(ticket)
            elif fate in ("answers", "answers twice"):
                answers += [self._answer(ticket)] * (2 if fate == "answers twice" else 1)
            elif fate == "fails":
                answers.append(Answer(ticket, 7, 1.0, 2.0, None, Failure.CRASH, "ended"))
            elif fate == "dies":
                self.hosts.remove(device)
                lost.add(ticket)
            else:
                lost.add(ticket)
                if fate == "answers late":
                    self.late.append(self._answer(ticket))
        return Collected(tuple(answers), frozenset(lost))

    def give_up(self, tickets: Collection[int]) -> None:
        self.given_up |= set(tickets)

    def _answer(self, ticket: int) -> Answer:
        subject = numbered(self.placed[ticket].subject)
        return Answer(ticket, 7, 1.0, 2.0, subject.reading())


def remote(number: int) -> list[RemoteDevice]:
    return [RemoteDevice(f"cpu@host{place}", f"worker {place}") for place in range(number)]


def pool_of(elsewhere: Elsewhere, here: MeasuringPool | None = None) -> HostsPool:
    return HostsPool(here or Here(), elsewhere)


@settings(max_examples=200, deadline=None)
@given(
    candidates=st.lists(st.booleans(), max_size=12),
    hosts=st.integers(0, 3),
    fates=st.lists(st.sampled_from(FATES), max_size=30),
    data=st.data(),
)
def test_each_candidate_has_one_outcome_of_its_own_whatever_becomes_of_hosts(
    candidates: list[bool], hosts: int, fates: list[str], data: st.DataObject
) -> None:
    elsewhere = Elsewhere(remote(hosts), iter(fates))
    here = Here()
    pool = pool_of(elsewhere, here)
    for first in (0, 100):  # what is late of the first arrives in the second
        subjects = [Numbered(first + place, portable) for place, portable in enumerate(candidates)]
        names = st.sampled_from([*pool.devices, "cpu@gone"])
        wanted = [data.draw(names) for _ in subjects] if data.draw(st.booleans()) else None
        told: list[Outcome] = []
        outcomes = pool.measure(subjects, 2, 3.0, USUAL, told=told.append, places=wanted)
        assert [outcome and outcome.position for outcome in outcomes] == [*range(len(subjects))]
        assert sorted(outcome.position for outcome in told) == [*range(len(subjects))]
        for outcome, subject in zip(outcomes, subjects, strict=True):
            assert outcome is not None
            assert outcome in told
            if outcome.failure is None:
                assert outcome.reading == subject.reading()
            if not subject.portable:
                assert outcome.device == HERE
    answered = {
        ticket for ticket, order in elsewhere.placed.items() if ticket not in elsewhere.given_up
    }
    measured = [numbered(elsewhere.placed[ticket].subject).number for ticket in answered]
    assert sorted(measured + here.taken) == sorted(
        [*range(len(candidates)), *range(100, 100 + len(candidates))]
    )


@given(candidates=st.integers(0, 40), hosts=st.integers(0, 4), degree=st.integers(1, 5))
def test_devices_take_candidates_in_turns(candidates: int, hosts: int, degree: int) -> None:
    elsewhere = Elsewhere(remote(hosts), iter(()))
    pool = pool_of(elsewhere)
    outcomes = pool.measure([Numbered(n) for n in range(candidates)], degree, 3.0, USUAL)
    devices = [outcome.device for outcome in outcomes if outcome is not None]
    everywhere = [HERE, *(device.name for device in remote(hosts))]
    assert devices == [everywhere[place % len(everywhere)] for place in range(candidates)]
    assert all(order.degree == degree for order in elsewhere.placed.values())


def test_a_candidate_is_measured_in_its_place_or_elsewhere_if_that_is_gone() -> None:
    elsewhere = Elsewhere(remote(1), iter(()))
    pool = pool_of(elsewhere, Here(("cuda:0", "cuda:1")))
    places = ["cpu@host0", "cpu@host0", "cuda:1", "cpu@gone"]
    outcomes = pool.measure([Numbered(n) for n in range(4)], 1, 3.0, USUAL, places=places)
    assert [outcome and outcome.device for outcome in outcomes] == [*places[:3], "cuda:0"]
    stay = [Numbered(n, portable=False) for n in range(2)]
    outcomes = pool.measure(stay, 1, 3.0, USUAL, places=["cpu@host0"] * 2)
    assert [outcome and outcome.device for outcome in outcomes] == ["cuda:0", "cuda:1"]


def test_devices_stay_the_same_until_something_is_measured() -> None:
    elsewhere = Elsewhere(remote(1), iter(()))
    pool = pool_of(elsewhere)
    elsewhere.hosts = remote(3)[1:]
    assert pool.devices == (HERE, "cpu@host0")
    pool.measure([Numbered(0), Numbered(1)], 1, 3.0, USUAL)
    assert not elsewhere.placed  # the one is gone, the others were not counted on
    assert pool.devices == (HERE, "cpu@host1", "cpu@host2")


def test_who_loses_an_order_is_left_alone_for_a_while_unless_it_was_started_again() -> None:
    now = 0.0
    elsewhere = Elsewhere(remote(1), iter(["never answers"]))
    pool = HostsPool(Here(), elsewhere, shunned_s=60.0, clock=lambda: now)
    two = [Numbered(0), Numbered(1)]
    pool.measure(two, 1, 3.0, USUAL)
    assert pool.devices == (HERE,)
    elsewhere.hosts = [RemoteDevice("cpu@host0", "started again")]
    pool.measure(two, 1, 3.0, USUAL)
    assert pool.devices == (HERE, "cpu@host0")
    elsewhere.hosts = remote(1)
    now = 61.0
    pool.measure([], 1, 3.0, USUAL)
    assert pool.devices == (HERE, "cpu@host0")


def test_a_host_that_neither_answers_nor_loses_its_orders_is_given_up_at_last() -> None:
    ticks = count()

    class Silent(Elsewhere):
        def collect(self, tickets: Collection[int], timeout_s: float) -> Collected:
            return Collected()

    elsewhere = Silent(remote(1), iter(()))
    pool = HostsPool(Here(), elsewhere, clock=lambda: float(next(ticks)))
    outcomes = pool.measure([Numbered(n) for n in range(6)], 2, 3.0, USUAL)
    assert [outcome and outcome.device for outcome in outcomes] == [HERE] * 6
    assert elsewhere.given_up == set(elsewhere.placed)
    assert next(ticks) > 120


def test_nothing_is_waited_for_when_the_budget_is_used_up() -> None:
    elsewhere = Elsewhere(remote(1), iter(["answers", "never answers"]), at_once=3)
    told: list[Outcome] = []
    pool = pool_of(elsewhere)
    outcomes = pool.measure(
        [Numbered(n) for n in range(6)],
        1,
        3.0,
        USUAL,
        told=told.append,
        expired=lambda: len(told) >= 2,
    )
    assert [outcome and outcome.device for outcome in outcomes] == [
        HERE, "cpu@host0", HERE, None, None, "cpu@host0"
    ]  # fmt: skip
    assert len(told) == 4
    unanswered = [t for t, order in elsewhere.placed.items() if numbered(order.subject).number == 3]
    assert elsewhere.given_up == set(unanswered)


def test_an_error_here_gives_up_what_is_elsewhere() -> None:
    class Broken(Here):
        def measure(self, *_: object, **__: object) -> list[Outcome | None]:
            raise RuntimeError("no process starts")

    elsewhere = Elsewhere(remote(1), iter(()))
    pool = pool_of(elsewhere, Broken())
    with pytest.raises(RuntimeError, match="no process starts"):
        pool.measure([Numbered(0), Numbered(1)], 1, 3.0, USUAL)
    assert elsewhere.given_up == set(elsewhere.placed) != set()
    with pytest.raises(ValueError, match="at least 1"):
        pool.measure([Numbered(0)], 0, 3.0, USUAL)


@settings(deadline=None)
@given(fates=st.lists(st.sampled_from(FATES), max_size=20), seed=st.integers(0, 5))
def test_doppler_measures_a_batch_on_hosts_that_come_and_go(fates: list[str], seed: int) -> None:
    elsewhere = Elsewhere(remote(2), iter(fates))
    measurer = DopplerMeasurer(pool_of(elsewhere), seed=seed)
    rounds: list[ParallelRound] = []
    subjects = [Numbered(n) for n in range(20)]
    done = 0
    while done < len(subjects):
        size = measurer.round_size(len(subjects) - done)
        taken = measurer.measure(subjects[done : done + size], rounds.append)
        assert len(rounds) == measurer.done  # what was asked for was one round
        assert all(one is not None for one in taken)
        done += size
    assert sum(len(found.taken) for found in rounds) == len(subjects)


def test_outcomes_are_in_the_time_of_the_pool_here() -> None:
    here = Here(made_s=time.monotonic())

    class Timed(Elsewhere):
        def _answer(self, ticket: int) -> Answer:
            subject = numbered(self.placed[ticket].subject)
            return Answer(ticket, 7, here.made_s + 3.0, here.made_s + 4.5, subject.reading())

    outcomes = pool_of(Timed(remote(1), iter(())), here).measure(
        [Numbered(0), Numbered(1)], 1, 3.0, USUAL
    )
    assert outcomes[1] is not None
    assert outcomes[1].worker == 7
    assert outcomes[1].started_s == pytest.approx(3.0)
    assert outcomes[1].ended_s == pytest.approx(4.5)
