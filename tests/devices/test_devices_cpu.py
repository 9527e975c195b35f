"""What only the CPU device promises: its threads, their cores, its fingerprint and its signals."""

from __future__ import annotations

import gc
import os
import resource
import threading
import time
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import torch
from support.graphs import SIDE, chain, graph_of, wide
from support.schedules import sequential

from workers.devices import cpu_facts
from workers.devices.cpu import CpuDevice
from workers.devices.cpu_facts import read_cpu
from workers.devices.cpu_workers import Worker
from workers.devices.signals import BlockingSignal, Signal, SpinningSignal
from workers.graph.random_inputs import random_inputs
from workers.schedules.lower import lower

CORES = sorted(os.sched_getaffinity(0))


def ask(worker: Worker, *questions: object) -> list[object]:
    """Call each question on the worker's thread."""
    answers: list[object] = []
    done = BlockingSignal()

    def task() -> None:
        answers.extend(question() for question in questions)  # type: ignore[operator]
        done.send()

    worker.submit(task)
    done.wait()
    return answers


def affinity() -> set[int]:
    return os.sched_getaffinity(0)


def parallel_work() -> None:
    torch.zeros(1 << 20).add_(1)


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_each_worker_keeps_its_own_thread_count_and_core() -> None:
    here = torch.get_num_threads()
    pair, single = Worker((CORES[0], CORES[1])), Worker((CORES[1],))
    try:
        for _ in range(2):
            assert ask(pair, parallel_work, torch.get_num_threads, affinity)[1:] == [2, {CORES[0]}]
            answers = ask(single, parallel_work, torch.get_num_threads, affinity)
            assert answers[1:] == [1, {CORES[1]}]
        ask(pair, lambda: pair.take(CORES[1], 1))
        assert ask(pair, parallel_work, torch.get_num_threads, affinity)[1:] == [1, {CORES[1]}]
        assert ask(single, torch.get_num_threads) == [1]
        assert torch.get_num_threads() == here
    finally:
        pair.close()
        single.close()


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_a_team_is_pinned_core_by_core_and_ends_with_its_worker() -> None:
    before = settled()
    worker = Worker((CORES[0], CORES[1]))
    ask(worker, parallel_work)
    during = {thread: mask for thread, mask in masks().items() if thread not in before}
    worker.close()
    team = {}
    deadline = time.monotonic() + 5
    while len(team) < 2 and time.monotonic() < deadline:
        left = masks()
        team = {thread: mask for thread, mask in during.items() if thread not in left}
    assert sorted(team.values(), key=min) == [{CORES[0]}, {CORES[1]}]
    assert affinity() == set(CORES)


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_a_team_gives_way_while_its_worker_runs_alone() -> None:
    worker = Worker((CORES[0], CORES[1]))
    try:
        (member,) = worker._members
        for threads, policy in ((1, os.SCHED_IDLE), (2, os.SCHED_OTHER), (1, os.SCHED_IDLE)):
            ask(worker, partial(worker.take, CORES[0], threads), parallel_work)
            assert os.sched_getscheduler(member) == policy
    finally:
        worker.close()


def masks() -> dict[int, set[int]]:
    """The cores that each thread of this process may use."""
    found = {}
    for entry in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            found[int(entry.name)] = os.sched_getaffinity(int(entry.name))
    return found


def settled() -> dict[int, set[int]]:
    """``masks`` once no thread of an earlier test is still ending."""
    found = masks()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if masks().keys() == found.keys():
            break
        found = masks()
    return found


def test_an_open_device_leaves_no_team_but_the_workers() -> None:
    """A team of this thread would make OpenMP stop spinning for all others."""
    here = torch.get_num_threads()
    torch.set_num_threads(2)
    parallel_work()
    before = set(settled())
    device = CpuDevice()
    try:
        deadline = time.monotonic() + 5
        while before <= set(masks()) and time.monotonic() < deadline:
            parallel_work()
        assert len(before - set(masks())) == 1
    finally:
        device.close()
    assert torch.get_num_threads() == 2
    torch.set_num_threads(here)


@pytest.mark.parametrize("kind", [BlockingSignal, SpinningSignal])
def test_signals_alternate_and_carry_what_was_written(kind: type[Signal]) -> None:
    there, back = kind(), kind()
    box = [0]

    def other() -> None:
        for _ in range(50):
            there.wait()
            box[0] += 1
            back.send()

    thread = threading.Thread(target=other)
    thread.start()
    for turn in range(50):
        assert box[0] == turn
        there.send()
        back.wait()
    thread.join()
    assert box[0] == 50


def test_intermediates_and_outputs_are_not_kept() -> None:
    graph = graph_of(chain(20))
    weights = {"w": torch.eye(SIDE)}
    device = CpuDevice()
    try:
        plan = lower(sequential(graph), graph, device.facts.parallelism)
        with device.prepare(graph, weights, plan) as executable:
            inputs = random_inputs(graph, 0)
            outputs = executable.run(inputs)
            watched = [weakref.ref(tensor) for tensor in (*inputs.values(), *outputs.values())]
            del inputs, outputs
            gc.collect()
            assert [reference() for reference in watched] == [None, None]
    finally:
        device.close()


def test_freed_memory_is_kept_for_the_next_run() -> None:
    """Otherwise the kernel gives each of these tensors 9,766 fresh pages, every time. What earlier
    tests left in the heap may stand in the way at first."""
    CpuDevice().close()
    torch.zeros(10_000_000)

    def fresh_pages() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            torch.zeros(10_000_000)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert min(fresh_pages() for _ in range(3)) < 20_000


def test_an_interrupt_ends_the_run_and_the_device_still_works() -> None:
    graph = graph_of(wide(3))
    weights = {"w": torch.eye(SIDE)}
    device = CpuDevice()
    try:
        plan = lower(sequential(graph), graph, device.facts.parallelism)
        with device.prepare(graph, weights, plan) as executable:
            inputs = random_inputs(graph, 0)
            interrupt = threading.Timer(0.2, lambda: os.kill(os.getpid(), 2))
            interrupt.start()
            with pytest.raises(KeyboardInterrupt):
                executable.time(inputs, repeats=10**7)
            assert len(executable.time(inputs, repeats=3)) == 3
    finally:
        device.close()


def test_the_fingerprint_follows_what_changes_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = read_cpu()
    assert here == read_cpu()
    assert here.parallelism == len(CORES)
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert read_cpu().fingerprint != here.fingerprint
    monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setattr(cpu_facts, "torch_versions", lambda: {"torch": "9.9.9"})
    assert read_cpu().fingerprint != here.fingerprint


def test_cpuinfo_of_another_architecture() -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU part\t: 0xd40\n"
    model, flags = cpu_facts._model_and_flags(text)
    assert model == "0xd40"
    assert "sve" in flags
