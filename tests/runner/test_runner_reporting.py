"""Which reports of a search reach the Recorder, and what they say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_args

import pytest
from support.recorders import Kept
from torch import Tensor

from backend.jobs.schemas import SearchEnd, SearchEvent
from workers import zoo
from workers.devices import open_device
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.runner.reporting import LONGEST_S, SHORTEST_S, Reporter, SearchReporter
from workers.schedulers import create
from workers.schedulers.base import Ended, SearchProgress

STANDING = SearchProgress(
    block=0,
    blocks=2,
    states=9,
    transitions=20,
    stages_measured=10,
    stages_total=100,
    best_ms=3.0,
    bound_ms=2.0,
    stages_pruned=40,
)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def reporting(kept: Kept, clock: Clock, deadline: float = math.inf) -> SearchReporter:
    return SearchReporter(Reporter(kept, 1), "ios", deadline, clock)


def test_the_last_report_always_arrives(kept: Kept, clock: Clock) -> None:
    observe = reporting(kept, clock)
    observe(STANDING)
    observe(replace(STANDING, stages_measured=11))
    observe(replace(STANDING, stages_measured=12, ended="converged"))
    assert [event.stages_measured for event in kept.searches] == [10, 12]
    assert [event.ended for event in kept.searches] == [None, "converged"]


def test_reports_come_often_at_first_and_then_less(kept: Kept, clock: Clock) -> None:
    observe = reporting(kept, clock)
    for _ in range(30_000):
        observe(STANDING)
        clock.now += 0.01
    times = [event.elapsed_seconds for event in kept.searches]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses == sorted(pauses, key=lambda pause: round(pause, 1))
    assert min(pauses) == pytest.approx(SHORTEST_S, abs=0.02)
    assert max(pauses) == pytest.approx(LONGEST_S, abs=0.02)
    assert 200 < len(times) < 400


def test_the_time_left_is_known_only_of_a_search_that_measures_everything(
    kept: Kept, clock: Clock
) -> None:
    observe = reporting(kept, clock, deadline=160.0)
    observe(replace(STANDING, stages_measured=0, remaining=100))
    clock.now += 2
    observe(replace(STANDING, remaining=90))
    clock.now += 2
    observe(STANDING)
    clock.now += 50
    observe(replace(STANDING, remaining=90))
    clock.now += 20
    observe(replace(STANDING, remaining=90))
    observe(replace(STANDING, ended="budget"))
    etas = [step.eta_seconds for step in kept.steps]
    assert etas == [None, 18.0, None, 6.0, 0.0, 0.0]  # 6.0 is what the deadline leaves


def test_there_are_steps_only_where_it_is_known_what_will_be_measured(
    kept: Kept, clock: Clock
) -> None:
    observe = reporting(kept, clock)
    observe(STANDING)
    clock.now += 1
    observe(replace(STANDING, remaining=90))
    assert [(step.step, step.steps) for step in kept.steps] == [(10, 0), (10, 100)]
    assert kept.steps[0].message == "ios, batch 1: 10 of 100 stages measured"


def test_an_event_has_all_that_a_search_reports() -> None:
    known = {field.name for field in fields(SearchProgress)}
    in_progress = {"remaining", "rechecking"}  # of the job
    assert known - set(SearchEvent.model_fields) == in_progress


def test_an_event_says_how_many_stages_were_measured_again(kept: Kept, clock: Clock) -> None:
    reporting(kept, clock)(replace(STANDING, stages_rechecked=7))
    assert kept.searches[0].stages_rechecked == 7


def test_that_stages_are_measured_again_is_said_at_once(kept: Kept, clock: Clock) -> None:
    """It may take minutes, in which no report comes."""
    observe = reporting(kept, clock)
    observe(replace(STANDING, remaining=90))
    observe(replace(STANDING, remaining=90, rechecking=1_200))
    observe(replace(STANDING, remaining=90, stages_rechecked=1_200))
    step = kept.steps[-1]
    assert step.message == "ios, batch 1: measuring chosen stages again, 1,200 in turns"
    assert step.eta_seconds is None
    assert len(kept.steps) == len(kept.searches) == 2


def test_service_and_schedulers_know_the_same_endings() -> None:
    assert set(get_args(SearchEnd)) == set(get_args(Ended))


@pytest.fixture(scope="module")
def squeezenet() -> tuple[Graph, Mapping[str, Tensor]]:
    return optimise(*import_program(zoo.program("squeezenet", 1), 1, "squeezenet"))


@pytest.mark.parametrize(
    ("mode", "endings"),
    [
        ("exhaustive", {"complete"}),
        ("exact", {"optimal", "complete"}),
        ("guided", {"optimal", "complete", "converged"}),
    ],
)
def test_the_bound_never_falls_while_it_holds_and_the_best_never_rises(
    squeezenet: tuple[Graph, Mapping[str, Tensor]],
    kept: Kept,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    endings: set[str],
) -> None:
    """On a simulated GPU, where a stage has the same latency each time."""
    monkeypatch.setattr("workers.runner.reporting.SHORTEST_S", 0.0)
    graph, weights = squeezenet
    with closing(open_device("sim:v100")) as device:
        oracle = MeasuringOracle(graph, weights, device, MemoryIndex())
        observe = SearchReporter(Reporter(kept, 1), "ios")
        found = create("ios", {"mode": mode, "batch": 4}).schedule(graph, oracle, observe)
    events = kept.searches
    assert len(events) > 5
    assert [event.ended for event in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1].ended in endings
    held = itertools.takewhile(lambda event: event.bound_holds, events)
    bounds = [event.bound_ms for event in held if event.bound_ms is not None]
    bests = [event.best_ms for event in events if event.best_ms is not None]
    assert bounds == sorted(bounds)
    assert bests == sorted(bests, reverse=True)
    assert len(set(bounds)) > 2
    assert len(set(bests)) > 2
    for event in events:
        if event.best_ms is not None and event.bound_ms is not None:
            assert event.bound_ms <= event.best_ms * (1 + 1e-9)
        assert event.stages_measured + event.stages_pruned <= event.stages_total
        assert 0 < event.states_visited <= event.states
        assert event.states_pruned <= event.states
    assert (found.ended, found.predicted_ms) == (events[-1].ended, bests[-1])
    last = events[-1]
    assert (found.bound_ms, found.bound_holds) == (last.bound_ms, last.bound_holds)
    assert (found.states_visited, found.stages_pruned) == (last.states_visited, last.stages_pruned)
