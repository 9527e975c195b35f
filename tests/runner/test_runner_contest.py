"""Contenders made ready and measured, and what becomes of one that fails on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from support.graphs import SIDE, graph_of, wide
from support.recorders import Kept
from torch import Tensor

from backend.jobs.schemas import JobSpec
from workers.alternatives.catalog import AlternativeError
from workers.alternatives.separate import SeparateModel
from workers.devices import open_device
from workers.devices.base import DeviceError, Executable, MemoryUse, Timeline
from workers.devices.sim.device import SimDevice
from workers.graph.graph import Graph
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile
from workers.graph.serialize import graph_hash
from workers.hardware.kernel import Kernel
from workers.hardware.roofline import Roofline
from workers.measure.compare import comparison
from workers.measure.noise import NoGuard, NoisyMachineError, Quiet
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.serial import Timed
from workers.measure.standings import Standing, TournamentResult
from workers.measure.starts import Starts
from workers.measure.verify import Case, reference_cases
from workers.runner import contest as contests
from workers.runner import delivery, search
from workers.runner.auto import compiled
from workers.runner.contest import Contest
from workers.runner.delivery import Entrants, deliver
from workers.runner.memory import enough_memory
from workers.runner.problems import VerificationError
from workers.runner.quiet import NoisePolicy, Watch
from workers.runner.reporting import Reporter
from workers.runner.search import make_candidate
from workers.runner.workplace import BASELINE, Candidate, Prepared, Workplace
from workers.schedulers.base import SearchResult
from workers.schedules.plan import Plan
from workers.schedules.schedule import ScheduleError, ScheduleKey, Stage, StageSchedule

GRAPH = graph_of(wide(3))
WEIGHTS = {"w": torch.zeros(SIDE, SIDE)}
LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=120)


class Counted(Executable):
    """Another executable, which is on its device's list while it is open, and from the ``lasts``-th
    timing on fails."""

    def __init__(self, inner: Executable, open_ones: list[Counted], lasts: float) -> None:
        self._inner, self._open, self._lasts = inner, open_ones, lasts
        open_ones.append(self)

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self._inner.run(inputs)

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        self._lasts -= 1
        self._refuse()
        return self._inner.time(inputs, repeats)

    def values(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self._inner.values(inputs)

    def timeline(self, inputs: Mapping[str, Tensor]) -> Timeline:
        self._refuse()
        return self._inner.timeline(inputs)

    def profile(self, inputs: Mapping[str, Tensor]) -> tuple[Kernel, ...]:
        return self._inner.profile(inputs)

    def memory(self, inputs: Mapping[str, Tensor]) -> MemoryUse:
        return self._inner.memory(inputs)

    def cancel(self) -> None:
        self._inner.cancel()

    def close(self) -> None:
        if self in self._open:
            self._open.remove(self)
        self._inner.close()

    def _refuse(self) -> None:
        if self._lasts < 0:
            raise DeviceError("the fan stands still")


class Cramped(SimDevice):
    """A simulated GPU with room for so many executables, of which those with several streams last
    for so many timings."""

    def __init__(self, room: int = 100, lasts: float = 1e9) -> None:
        super().__init__("v100")
        self.open: list[Counted] = []
        self._room, self._lasts = room, lasts

    def prepare(
        self, graph: Graph, weights: Mapping[str, Tensor], plan: Plan, provider: str = "aten"
    ) -> Executable:
        if len(self.open) >= self._room:
            raise DeviceError("out of memory")
        lasts = self._lasts if len(plan.streams) > 1 else 1e9
        return Counted(super().prepare(graph, weights, plan, provider), self.open, lasts)


@dataclass
class Startled(NoGuard):
    """Finds the machine too busy so many times."""

    times: int

    def finish(self, started: object) -> Quiet:
        self.times -= 1
        if self.times >= 0:
            raise NoisyMachineError(Quiet(1.0, 1.0, 0.0, 1.0, complaint="somebody compiles"))
        return super().finish(None)


def place_on(device: Any, folder: Path) -> Workplace:
    return Workplace(device, MemoryIndex(), Kept(folder), folder, LIMITS, NoisePolicy())


def prepared(device: Any) -> Prepared:
    facts = device.facts
    key = ScheduleKey(graph_hash(GRAPH), facts.fingerprint, "float32", 1, facts.versions)
    return Prepared(GRAPH, WEIGHTS, key)


def candidates(model: Prepared) -> list[Candidate]:
    first, *middle, last = (unit.name for unit in GRAPH.units)
    side_by_side = (Stage(((first,),)), Stage(tuple((n,) for n in middle)), Stage(((last,),)))
    schedules = {
        BASELINE: tuple(Stage(((unit.name,),)) for unit in GRAPH.units),
        "greedy": side_by_side,
    }
    return [
        make_candidate(name, SearchResult(StageSchedule(name, stages), None), model, 1, 0.0)
        for name, stages in schedules.items()
    ]


@contextmanager
def entered(device: Any, folder: Path) -> Iterator[Contest]:
    place, model = place_on(device, folder), prepared(device)
    with ExitStack() as stack:
        contest = Contest(model, place, Reporter(place.recorder, 1), stack)
        contest.enter(candidates(model))
        yield contest


@pytest.mark.parametrize("room", [2, 3])
@pytest.mark.parametrize("disturbed", [0, 1])
def test_no_contender_is_kept_twice(tmp_path: Path, room: int, disturbed: int) -> None:
    device = Cramped(room)
    with entered(device, tmp_path) as contest:
        watch = Watch(Startled(disturbed), 1.0, contest.reporter)
        case = reference_cases(GRAPH, WEIGHTS, [0])[0]
        result, _ = contest.run(case, [0], watch, seed=0)
        assert len(device.open) == 2
        assert all(standing.final for standing in result.standings)
        assert all(contest.executables[name] in device.open for name in (BASELINE, "greedy"))
    assert not device.open


def test_what_fails_while_it_is_measured_ends_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Cramped(lasts=8)
    place, model = place_on(device, tmp_path), prepared(device)
    cases = reference_cases(GRAPH, WEIGHTS, [1, 2])
    monkeypatch.setattr(delivery, "_cases", lambda *_: cases)
    reporter = Reporter(place.recorder, 1)
    watch = Watch(NoGuard(), 1.0, reporter)
    source = ModelFile(tmp_path / "a.onnx", "onnx")
    entrants = Entrants(candidates(model))
    summary = deliver("a.onnx", source, model, entrants, place, reporter, watch)
    assert summary.winner == BASELINE
    failed = cast("Kept", place.recorder).outcomes["greedy"]
    assert failed.search["dropped"] == "it failed: the fan stands still"
    assert not failed.timeline.spans
    assert "could not be recorded: the fan stands still" in failed.search["notes"][-1]


def test_floors_that_take_too_much_memory_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(oracle: MeasuringOracle) -> Roofline:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(MeasuringOracle, "roofline", too_large)
    cases = reference_cases(GRAPH, WEIGHTS, [1, 2])
    monkeypatch.setattr(delivery, "_cases", lambda *_: cases)
    with closing(SimDevice("v100")) as device:
        place, model = place_on(device, tmp_path), prepared(device)
        reporter = Reporter(place.recorder, 1)
        watch = Watch(NoGuard(), 1.0, reporter)
        source = ModelFile(tmp_path / "a.onnx", "onnx")
        entrants = Entrants(candidates(model))
        summary = deliver("a.onnx", source, model, entrants, place, reporter, watch)
    assert [floor.name for floor in summary.floors] == ["critical path"]


def test_an_alternative_that_computes_something_else_is_closed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    class Wrong:
        def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: torch.ones(SIDE, SIDE) for name in GRAPH.outputs}

        def close(self) -> None:
            closed.append(self)

    @contextmanager
    def opened(*_: object) -> Iterator[Wrong]:
        yield Wrong()

    monkeypatch.setattr(contests, "names", lambda *_: ("eager",))
    monkeypatch.setattr(contests, "open_alternative", opened)
    case = Case({}, [torch.zeros(SIDE, SIDE) for _ in GRAPH.outputs])
    with entered(Cramped(), tmp_path) as contest:
        source = ModelFile(tmp_path / "a.onnx", "onnx")
        contest.enter_alternatives(source, case, [0], deadline=0.0)
        assert len(closed) == 1
        assert not contest.alternatives
        assert "is not the original's" in contest.skipped[0].reason


class Slow:
    """An alternative that nobody would keep."""

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        return [1e3] * repeats


@contextmanager
def beside_an_alternative(folder: Path) -> Iterator[tuple[Contest, Watch]]:
    """Our candidates on this machine's CPU; ``greedy`` looks faster than it is, and so comes to
    the second tournament."""
    with closing(open_device("cpu")) as device, entered(device, folder) as contest:
        contest.alternatives["eager"] = cast("SeparateModel", Slow())
        fastest = contest.executables["greedy"]
        hurried = SimpleNamespace(time=lambda *given: [1e-3], close=fastest.close)
        contest.executables["greedy"] = cast("Executable", hurried)
        contest._prepare_again = contest.executables.__getitem__  # type: ignore[method-assign]
        yield contest, Watch(NoGuard(), 1.0, contest.reporter)


def test_the_second_tournament_is_of_what_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []
    tournament_really = contests.tournament

    def seen(contenders: Mapping[str, Timed], *rest: Any, **named: Any) -> Any:
        held.append(dict(contenders))
        return tournament_really(contenders, *rest, **named)

    monkeypatch.setattr(contests, "tournament", seen)
    case = reference_cases(GRAPH, WEIGHTS, [0])[0]
    with beside_an_alternative(tmp_path) as (contest, watch):
        ranking, _ = contest.run(case, sorted(os.sched_getaffinity(0)), watch, seed=0)
        ours, beside = held
        assert ours.keys() == {BASELINE, "greedy"}
        assert beside == {**contest.delivered, **contest.alternatives}
        assert contest.delivered.keys() == ours.keys()
        assert ranking.beside >= {BASELINE, "eager"}
        (note,) = contest.delivered[BASELINE].notes
    assert note.startswith("timed as run.py of its artifact runs it, by its own clock")


@pytest.mark.parametrize("wrong", [BASELINE, "greedy"])
def test_an_artifact_that_computes_something_else_is_not_delivered(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = reference_cases(GRAPH, WEIGHTS, [0])[0]
    pack_really = contests.pack

    def broken(path: Path, candidate: Candidate, *rest: Any) -> None:
        if candidate.scheduler == wrong:
            weights = {"w": torch.ones(SIDE, SIDE)}
            candidate = replace(candidate, merged=replace(candidate.merged, weights=weights))
        pack_really(path, candidate, *rest)

    monkeypatch.setattr(contests, "pack", broken)
    with beside_an_alternative(tmp_path) as (contest, watch):
        if wrong == BASELINE:
            with pytest.raises(VerificationError, match="the artifact does not compute what"):
                contest.run(case, [0], watch, seed=0)
            return
        ranking, _ = contest.run(case, [0], watch, seed=0)
        assert ranking.best == BASELINE
        assert "greedy" not in contest.candidates
        assert [one.contender for one in contest.skipped] == ["greedy"]
        assert "its artifact computes something else: its output" in contest.skipped[0].reason


def test_an_artifact_that_does_not_run_leaves_its_plan_in_the_contest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(contests, "pack", full)
    case = reference_cases(GRAPH, WEIGHTS, [0])[0]
    with beside_an_alternative(tmp_path) as (contest, watch):
        ranking, _ = contest.run(case, [0], watch, seed=0)
        assert not contest.delivered
        assert {standing.name for standing in ranking.standings} == {BASELINE, "greedy", "eager"}


def placed(name: str, speedup: float, tied: bool) -> Standing:
    compared = comparison(name, [1.0] * 40, [speedup] * 40, "precise", simulated=True, seed=0)
    return Standing(1, name, 1, True, compared, tied, None if tied else "it is slower")


@pytest.mark.parametrize(
    ("speedups", "tied_with", "openers", "settled"),
    [
        ({"greedy": 1.5, "eager": 1.45}, (), ("greedy", "eager"), True),
        ({"eager": 1.5, "greedy": 1.45}, (), ("greedy", "eager"), True),
        ({"eager": 1.5, "greedy": 1.45}, ("greedy",), ("greedy", "eager"), False),
        ({"eager": 1.5, "greedy": 1.2}, (), ("greedy", "eager"), False),
        ({"eager": 1.5, "greedy": 1.45}, (), ("greedy",), False),
        ({"eager": 1.5, "greedy": 1.45}, (), ("eager",), False),
        ({BASELINE: 1.0, "greedy": 0.97, "eager": 0.96}, (), ("greedy", "eager"), False),
    ],
)
@pytest.mark.parametrize("failing", [False, True])
def test_only_close_calls_are_started_again(
    speedups: dict[str, float],
    tied_with: tuple[str, ...],
    openers: tuple[str, ...],
    settled: bool,
    failing: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where ours and the fastest alternative that can be started again are told apart by little."""
    started = []

    def over_starts(*given: object) -> Starts:
        started.append(given)
        if failing:
            raise AlternativeError("eager: no room")
        return Starts((0.99, 1.0, 1.0, 1.0, 1.01))

    monkeypatch.setattr(contests, "over_starts", over_starts)
    winner = next(iter(speedups))
    standings = tuple(placed(n, s, n in (winner, *tied_with)) for n, s in speedups.items())
    beside = TournamentResult(winner, winner, tied_with, standings, (), 40, "precise")
    case = reference_cases(GRAPH, WEIGHTS, [0])[0]
    with entered(Cramped(), tmp_path) as contest:
        contest.alternatives["eager"] = cast("SeparateModel", Slow())
        contest.openers = dict.fromkeys(openers, cast("Any", None))
        found = contest._over_starts(beside, "greedy", case, 0)
        assert bool(started) is settled
        if not settled or failing:
            assert found == beside
            assert not contest.starts
        else:
            assert (found.winner, found.tied_with) == ("greedy", ("eager",))
            words = "both started anew several times, greedy is 1.000 times as fast (0.991 to 1.009"
            assert contest.starts.keys() == {"greedy", "eager"}
            assert contest.starts["eager"].startswith(words)


def test_a_scheduler_that_fails_is_skipped_whatever_it_failed_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = {
        "greedy": DeviceError("the bus is gone"),
        "nimble": ScheduleError("a stage is empty"),
        "opara": RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        "ios": MemoryError(),
    }

    def failing(name: str, *rest: Any) -> Candidate:
        if name in errors:
            raise errors[name]
        return make_candidate(name, *rest)

    monkeypatch.setattr(search, "make_candidate", failing)
    with closing(SimDevice("v100")) as device:
        place = place_on(device, tmp_path)
        spec = JobSpec(model="zoo:a", device="sim:v100", schedulers=["auto"])
        reporter = Reporter(place.recorder, 1)
        found, skipped = search.search(spec, prepared(device), place, reporter, 1e18)
    assert [one.scheduler for one in found] == [BASELINE, "opara-strict"]
    reasons = {one.contender: one.reason for one in skipped}
    assert set(reasons) == set(errors)
    assert reasons["greedy"] == "the bus is gone"
    assert all("not enough memory" in reasons[name] for name in ("opara", "ios"))


def test_the_baseline_and_what_has_nothing_to_do_with_memory_are_not_excused() -> None:
    with pytest.raises(MemoryError), enough_memory(BASELINE):
        raise MemoryError
    with pytest.raises(RuntimeError, match="broken"), enough_memory("ios"):
        raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("provider", "expected_ms", "wanted"),
    [
        ("aten", {}, [BASELINE]),
        ("aten", {BASELINE: 2.0, "greedy": 1.0}, [BASELINE, "greedy"]),
        ("aten", {"ios": 0.5, BASELINE: 2.0, "greedy": 1.0}, [BASELINE, "greedy"]),
        ("inductor", {BASELINE: 2.0, "greedy": 1.0}, []),
    ],
)
def test_the_best_of_those_that_are_there_is_compiled(
    tmp_path: Path, provider: Any, expected_ms: Mapping[str, float], wanted: Sequence[str]
) -> None:
    with closing(open_device("cpu")) as device:
        place, model = place_on(device, tmp_path), replace(prepared(device), provider=provider)
        reporter = Reporter(place.recorder, 1)
        found, late = compiled(candidates(model), expected_ms, model, place, reporter, -1.0, -1.0)
    # The deadline has passed, which names all that would have to be compiled.
    many = device.facts.parallelism > 1
    whole = ["whole+onnxruntime", *["whole+onnxruntime on 1"] * many]
    assert [one.scheduler for one in found] == whole
    names = ["whole+inductor", *(f"{name}+inductor" for name in wanted)]
    assert [one.contender for one in late] == names


def test_alternatives_get_all_cores_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 1, 2})
    for kind, cores in (("cpu", [1, 2]), ("cuda", [1, 2, 3])):
        parallelism = 2 if kind == "cpu" else 1
        facts = SimpleNamespace(kind=kind, parallelism=parallelism)
        place = SimpleNamespace(device=SimpleNamespace(facts=facts))
        assert delivery._cores(cast("Workplace", place)) == cores
