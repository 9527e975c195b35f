"""When the barriers between stages are removed, and that the outcome carries it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.fake_device import ScriptedDevice, ScriptedExecutable
from support.graphs import SIDE, Dag, chain, graph_of
from torch import Tensor

from backend.jobs.schemas import JobProgress, LogEvent
from workers.devices import open_device
from workers.devices.base import Device, DeviceError, Executable
from workers.graph.graph import Graph
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.serialize import graph_hash
from workers.measure.noise import SILENCE, Guard, NoGuard, NoisyMachineError, Quiet
from workers.measure.processes import CpuSample
from workers.measure.profile_index import MemoryIndex
from workers.runner.barriers import without_needless_barriers
from workers.runner.quiet import NoisePolicy, Watch
from workers.runner.reporting import Reporter
from workers.runner.search import make_candidate
from workers.runner.workplace import Candidate, Prepared, Workplace
from workers.schedulers.base import SearchResult
from workers.schedules.artifact import read_artifact, write_artifact
from workers.schedules.plan import Plan
from workers.schedules.schedule import ScheduleKey, Stage, StageSchedule
from workers.schedules.validate import validate

LANES: Dag = ((), (), (0,), (1,), (2,), (3,))
"""Two chains of three Units side by side."""

SIDE_BY_SIDE = tuple(Stage(((f"u{left}",), (f"u{left + 1}",))) for left in (0, 2, 4))


class Logs:
    """The part of a Recorder that is heard here."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def log(self, event: LogEvent) -> None:
        self.said.append((event.level, event.message))

    def progress(self, progress: JobProgress) -> None:
        assert progress.stage == "tuning"


def prepared(graph: Graph, device: Device) -> Prepared:
    facts = device.facts
    key = ScheduleKey(graph_hash(graph), facts.fingerprint, "float32", 1, facts.versions)
    return Prepared(graph, {"w": torch.full((SIDE, SIDE), 0.1)}, key)


class Busy(NoGuard):
    """Says that the machine is busy: at once, or only of what was measured."""

    def __init__(self, at_once: bool) -> None:
        self._at_once = at_once

    def check(self) -> Quiet:
        if self._at_once:
            self.finish(None)
        return SILENCE

    def wait_until_quiet(self, seconds: float) -> Quiet:
        return self.check()

    def finish(self, started: CpuSample | None) -> Quiet:
        raise NoisyMachineError(replace(SILENCE, complaint="others take 90%"))


def chosen(
    model: Prepared, stages: tuple[Stage, ...], device: Device, guard: Guard | None = None
) -> tuple[Candidate, Candidate, Logs]:
    """The candidate of these stages before and after."""
    logs: Any = Logs()
    found = SearchResult(StageSchedule("ios", stages), 1.0, notes=("as found",))
    before = make_candidate("ios", found, model, device.facts.parallelism, 0.0)
    limits = SandboxLimits(memory_bytes=1 << 30, seconds=10)
    noise = NoisePolicy(allow=True)
    place = Workplace(device, MemoryIndex(), logs, Path(), limits, noise)
    reporter = Reporter(logs, 1)
    watch = Watch(guard or NoGuard(), 1.0, reporter)
    return before, without_needless_barriers(before, model, place, reporter, watch, 0), logs


def scripted(with_barriers: float, without: float | Exception) -> ScriptedDevice:
    def latency(graph: Graph, plan: Plan) -> float:
        if any(launch.waits for launch in plan.launches):
            return with_barriers
        if isinstance(without, Exception):
            raise without
        return without

    return ScriptedDevice(latency)


class InTurns(ScriptedDevice):
    """Without barriers each Plan that is prepared has the next of ``latencies``."""

    def __init__(self, latencies: list[float]) -> None:
        super().__init__(lambda graph, plan: 1.0)
        self._latencies = latencies

    def prepare(
        self, graph: Graph, weights: Mapping[str, Tensor], plan: Plan, provider: str = "aten"
    ) -> Executable:
        if any(launch.waits for launch in plan.launches):
            return super().prepare(graph, weights, plan, provider)
        latency = self._latencies.pop(0)
        return ScriptedExecutable(lambda _: latency)


def test_they_go_where_a_computed_latency_falls(tmp_path: Path) -> None:
    with closing(open_device("sim:v100")) as device:
        model = prepared(graph_of(LANES), device)
        before, after, logs = chosen(model, SIDE_BY_SIDE, device)
        tight, loose = (device.latency_ms(model.graph, c.plan) for c in (before, after))
    assert tight is not None
    assert loose is not None
    assert loose < tight
    words = f"{tight / loose:.3f}× as fast, simulated"
    said = f"ios without barriers between its stages: {words}, so they are removed"
    assert logs.said == [("info", said)]
    assert after.found.notes == ("as found", f"without barriers between its stages, {words}")
    assert (before.search["barriers"], after.search["barriers"]) == (True, False)
    assert after.plan.streams == before.plan.streams
    validate(after.plan, model.graph)

    path = tmp_path / "ios.zip"
    write_artifact(
        path, model.graph, model.weights, after.found.schedule, model.key, after.plan, {}, 1
    )
    artifact = read_artifact(path)
    assert (artifact.schedule, artifact.plan) == (after.found.schedule, after.plan)
    assert artifact.schedule == StageSchedule("ios", SIDE_BY_SIDE, barriers=False)


def test_a_plan_that_stays_the_same_is_not_compared() -> None:
    device = scripted(1.0, 1.0)
    model = prepared(graph_of(chain(3)), device)
    before, after, logs = chosen(model, tuple(Stage(((f"u{n}",),)) for n in range(3)), device)
    assert after is before
    assert device.prepared == []
    assert logs.said == []


def test_a_measured_latency_must_fall_twice() -> None:
    device = scripted(1.0, 0.8)
    _, after, logs = chosen(prepared(graph_of(LANES), device), SIDE_BY_SIDE, device)
    assert after.found.schedule == StageSchedule("ios", SIDE_BY_SIDE, barriers=False)
    assert after.merged.schedule == after.found.schedule
    assert "1.250× as fast (1.250 to 1.250)" in logs.said[0][1]
    assert len(device.prepared) == 4
    assert all(executable.closed for executable in device.prepared)


def test_a_gain_that_does_not_come_again_is_none() -> None:
    without = InTurns([0.8, 1.1])
    before, after, logs = chosen(prepared(graph_of(LANES), without), SIDE_BY_SIDE, without)
    assert after is before
    assert "0.909× as fast" in logs.said[0][1]


@pytest.mark.parametrize("without", [1.0, 1.2])
def test_they_stay_where_a_measured_latency_does_not_fall(without: float) -> None:
    device = scripted(1.0, without)
    before, after, logs = chosen(prepared(graph_of(LANES), device), SIDE_BY_SIDE, device)
    assert after is before
    assert logs.said[0][1].endswith("so they stay")
    assert len(device.prepared) == 2


def test_they_stay_where_nothing_runs_without_them() -> None:
    device = scripted(1.0, DeviceError("out of memory"))
    before, after, logs = chosen(prepared(graph_of(LANES), device), SIDE_BY_SIDE, device)
    assert after is before
    assert logs.said == [("warning", "ios keeps its barriers, comparing failed: out of memory")]


@pytest.mark.parametrize("at_once", [True, False])
def test_they_stay_where_the_machine_does_not_become_quiet(at_once: bool) -> None:
    """Nothing is lost by it; the job goes on and may find it quiet later."""
    device = scripted(1.0, 0.8)
    model = prepared(graph_of(LANES), device)
    before, after, logs = chosen(model, SIDE_BY_SIDE, device, Busy(at_once))
    assert after is before
    level, message = logs.said[-1]
    assert level == "warning"
    assert message.startswith("ios keeps its barriers, comparing failed: the machine is too busy")
    assert all(executable.closed for executable in device.prepared)
