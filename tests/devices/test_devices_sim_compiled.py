"""The compiled engine gives the reference's latencies, to the last bit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.devices.sim import latencies
from workers.devices.sim.arithmetic import memory_of
from workers.devices.sim.engine import Job, latency_s
from workers.devices.sim.kernel import BlockWork, SimKernel, sim_kernel
from workers.devices.sim.latencies import Latencies
from workers.devices.sim.launch_path import PATHS, Issue
from workers.devices.sim.sharing import Memory
from workers.devices.sim.specs import SPECS
from workers.hardware.occupancy import Block

pytest.importorskip("numba")

GPUS = {name: SPECS[name].gpu for name in ("k80", "v100", "h100")}
GPUS["tiny"] = replace(GPUS["v100"], sm_count=3, l2_bytes=1000)

ISSUES: list[Issue] = ["graph", "streams"]


@st.composite
def kernels(draw: st.DrawFn, gpu: str) -> SimKernel:
    microseconds = draw(st.floats(0.2, 40))
    share = draw(st.sampled_from([0.03, 0.2, 0.6, 1.0]))
    moved = draw(st.sampled_from([0.0, 3e2, 1e4, 2e5]))
    work = BlockWork(
        compute_s=draw(st.sampled_from([0.0, share])) * microseconds * 1e-6,
        compute_share=share,
        dram_bytes=moved * draw(st.sampled_from([0.0, 1.0])),
        reused_bytes=moved * draw(st.floats(0, 1)),
        l2_bytes=moved * draw(st.floats(1, 5)),
        bytes_per_s=1e10,
        latency_s=draw(st.sampled_from([0.0, 1e-6])),
    )
    block = Block(
        draw(st.sampled_from([32, 96, 128, 256, 512])),
        draw(st.sampled_from([16, 40, 72, 128])),
        draw(st.sampled_from([0, 3000, 16384, 40000])),
    )
    grid = draw(st.one_of(st.integers(1, 90), st.integers(100, 20_000)))
    return sim_kernel(GPUS[gpu], "k", grid, block, work, draw(st.floats(0, 4e7)))


@st.composite
def programs(draw: st.DrawFn, gpu: str) -> list[Job]:
    """Some kernels are run by several jobs."""
    made = draw(st.lists(kernels(gpu), min_size=1, max_size=6))
    jobs: list[Job] = []
    for number in range(draw(st.integers(0, 9))):
        after = tuple(other for other in range(number) if draw(st.integers(0, 4)) == 0)
        found = tuple(draw(st.lists(st.sampled_from(made), max_size=2)))
        jobs.append(Job(f"u{number}", draw(st.integers(0, 4)), found, after, draw(st.booleans())))
    return jobs


def always_compiled(gpu: str, memory: Memory, issue: Issue) -> Latencies:
    return Latencies(GPUS[gpu], memory, PATHS[issue], few_kernels=0)


@settings(deadline=None, max_examples=150)
@given(st.data(), st.sampled_from(list(GPUS)), st.sampled_from(ISSUES), st.booleans())
def test_latencies_are_the_reference_s(
    data: st.DataObject, gpu: str, issue: Issue, narrow: bool
) -> None:
    memory = memory_of(GPUS[gpu])
    if narrow:
        memory = replace(memory, dram_bytes_per_s=memory.dram_bytes_per_s / 7)
    plans = data.draw(st.lists(programs(gpu), min_size=1, max_size=3))
    found = always_compiled(gpu, memory, issue).of(plans)
    assert found == [latency_s(GPUS[gpu], memory, PATHS[issue], jobs) for jobs in plans]


def test_the_compiled_engine_is_the_one_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = always_compiled("tiny", memory_of(GPUS["tiny"]), "graph")
    monkeypatch.setattr(latencies, "latency_s", None)
    assert made.of([[], [Job("view", 0, ())]]) == [0.0, PATHS["graph"].first]


def test_without_numba_python_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latencies, "compiled_engine", lambda: None)
    made = always_compiled("tiny", memory_of(GPUS["tiny"]), "graph")
    assert made.of([[Job("view", 0, ())]]) == [PATHS["graph"].first]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.floats(-1e30, 1e30), max_size=12))
def test_sums_are_exact(values: list[float]) -> None:
    from workers.devices.sim.compiled import _exact_sum
    from workers.devices.sim.tables import LAUNCH

    launches = np.zeros(len(values), LAUNCH)
    launches["value"] = values
    found = _exact_sum.py_func(_Sum(launches), len(values))
    assert found == math.fsum(values)


class _Sum:
    """The table of launches as numba sees it: rows with attributes."""

    def __init__(self, launches: np.ndarray[tuple[int], np.dtype[np.void]]) -> None:
        self.launches = launches.view(np.recarray)
