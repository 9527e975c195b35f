"""Compiling in a process that can be ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import torch
from support.graphs import SIDE, graph_of, wide

from workers.devices import open_device
from workers.devices.providers.inductor import InductorProvider
from workers.devices.providers.kernel_cache import KernelCache
from workers.graph.serialize import graph_hash
from workers.runner.compiling import Compiling
from workers.runner.workplace import Candidate
from workers.schedulers.base import SearchResult
from workers.schedules.lower import lower
from workers.schedules.merge import Merged
from workers.schedules.schedule import ScheduleKey, Stage, StageSchedule

GRAPH = graph_of(wide(2))
WEIGHTS = {"w": torch.ones(SIDE, SIDE)}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAIT_KERNEL_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def compiling(cache: Path, tmp_path: Path) -> Iterator[Compiling]:
    with Compiling("cpu", tmp_path / "compiling") as made:
        yield made


def candidate(provider: str = "inductor") -> Candidate:
    schedule = StageSchedule("it", tuple(Stage(((unit.name,),)) for unit in GRAPH.units))
    key = ScheduleKey(
        graph_hash=graph_hash(GRAPH),
        device_fingerprint="",
        dtype="float32",
        batch_size=1,
        versions={},
    )
    return Candidate(
        scheduler="it",
        found=SearchResult(schedule, None),
        merged=Merged(schedule, GRAPH, WEIGHTS),
        plan=lower(schedule, GRAPH, 2),
        seconds=0.0,
        key=key,
        provider=provider,
    )


def test_what_was_compiled_is_there_for_this_process(compiling: Compiling, cache: Path) -> None:
    one = candidate()
    assert compiling.missing(one, 120.0) is None
    inductor = InductorProvider("cpu", KernelCache(cache))
    for unit in GRAPH.units:
        inductor.compile(GRAPH, unit, WEIGHTS, threads=2)
    assert inductor.compiled == 0
    with closing(open_device("cpu")) as device:
        device.prepare(GRAPH, WEIGHTS, one.plan, "inductor").close()


def test_what_takes_too_long_is_ended_and_said(compiling: Compiling) -> None:
    before = set(psutil.Process().children(recursive=True))
    reason = compiling.missing(candidate(), 0.05)
    assert reason is not None
    assert "more than the 0 s of the budget" in reason
    assert set(psutil.Process().children(recursive=True)) <= before
    assert compiling.missing(candidate(), 120.0) is None


def test_what_cannot_be_compiled_says_why(
    compiling: Compiling, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")  # the process finds none when it starts
    reason = compiling.missing(candidate(), 120.0)
    assert reason is not None
    assert "no kernels of provider 'inductor'" in reason
