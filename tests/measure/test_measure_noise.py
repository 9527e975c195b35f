"""The noise guard: what is too much, by numbers and beside processes that burn the CPU."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from workers.devices.cpu_facts import read_cpu
from workers.measure.noise import (
    SILENCE,
    NoGuard,
    NoiseGuard,
    NoiseLimits,
    NoisyMachineError,
    Other,
    Quiet,
    compare_samples,
    decide,
    guard_for,
    measure_unevenness,
)
from workers.measure.processes import (
    CpuSample,
    Process,
    busy_ticks,
    family,
    parse_process,
    sample_cpu,
)

LIMITS = NoiseLimits(busy_share=0.10, busy_cores=0.50, unevenness=0.25)


@pytest.mark.parametrize(
    ("share", "cores", "unevenness", "words"),
    [
        (0.0, 0.0, 0.0, None),
        (0.03, 0.06, 0.08, None),  # an idle PostgreSQL, broker and worker on two cores
        (0.10, 0.50, 0.25, None),
        (0.11, 0.22, 0.0, "other processes take 11% of its CPU time (0.22 cores;"),
        (0.02, 1.0, 0.0, "other processes take 2% of its CPU time (1.00 cores;"),
        (0.0, 0.0, 0.9, "a loop of fixed work takes 90% longer than it can"),
    ],
)
def test_what_is_too_much(share: float, cores: float, unevenness: float, words: str | None) -> None:
    said = decide(Quiet(share, cores, unevenness, 0.3), LIMITS)
    assert (said is None) == (words is None)
    assert words is None or words in (said or "")


def test_a_refusal_says_who_and_what_to_do() -> None:
    others = (
        Other(7, "cc1plus", 0.75),
        Other(9, "sh", 0.4),
        Other(8, "a", 0.2),
        Other(6, "b", 0.1),
    )
    found = Quiet(0.6, 1.2, 0.5, 0.3, others)
    error = NoisyMachineError(replace(found, complaint=decide(found, LIMITS)))
    text = str(error)
    assert "cc1plus (pid 7) 0.75, sh (pid 9) 0.40, a (pid 8) 0.20 and a loop" in text
    assert "and a loop of fixed work takes 50% longer" in text
    assert text.endswith("or allow noise (allow_noise) and take the figures for what they are")
    assert error.found.others == found.others
    again = pickle.loads(pickle.dumps(error))  # as it comes from a process of its own
    assert (str(again), again.found) == (text, error.found)


def sampled(taken: float, busy: float, own: float, *processes: Process) -> CpuSample:
    return CpuSample(taken, busy, own, frozenset({1}), {p.pid: p for p in processes})


def test_the_others_time_is_all_that_is_not_the_familys() -> None:
    before = sampled(10.0, 100.0, 40.0, Process(1, 0, "us", 40, 0), Process(2, 0, "make", 5, 0))
    after = sampled(
        12.0,
        103.0,
        42.0,
        Process(1, 0, "us", 42.0, 0),
        Process(2, 0, "make", 5.1, 0),  # less than a tenth of a core is not worth a name
        Process(3, 2, "cc1", 0.8, 0),
    )
    found = compare_samples(before, after, cores=4)
    assert found == Quiet(0.125, 0.5, 0.0, 2.0, (Other(3, "cc1", 0.4),))
    assert compare_samples(after, after, 4).busy_cores == 0
    assert compare_samples(None, after, 4, unevenness=0.4) == Quiet(0.0, 0.0, 0.4, 0.0)


def test_ticks_rounded_against_us_are_no_negative_time() -> None:
    assert compare_samples(sampled(0, 0, 0), sampled(1, 0.9, 1.0), 2).busy_share == 0.0


def test_the_kernels_tables_are_read_as_they_are_written() -> None:
    stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 10 20 5000 300 1 2 7 90 8\ncpu1 5 0 0 1\ncpu10 1\n"
    assert busy_ticks(stat, [0]) == 100 + 10 + 20 + 1 + 2 + 7
    assert busy_ticks(stat, [1]) == 5
    assert busy_ticks(stat, [0, 10]) == 141
    line = "42 (a) (b c) R 7 1 1 0 -1 0 9 9 9 9 250 50 30 20 20 0 1 0 99"
    assert parse_process(line, 0.01) == Process(42, 7, "a) (b c", 3.0, 0.5)


def test_a_family_is_a_process_with_all_its_descendants() -> None:
    parents = {1: 0, 2: 1, 3: 2, 4: 1, 5: 0, 6: 5, 7: 3}
    processes = {pid: Process(pid, parent, "", 0, 0) for pid, parent in parents.items()}
    assert family(processes, 2) == {2, 3, 7}
    assert family(processes, 99) == set()


def test_a_child_counts_as_this_process_while_it_runs_and_when_it_has_ended() -> None:
    cores = os.sched_getaffinity(0)
    before = sample_cpu(cores)
    code = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    running = sample_cpu(cores)
    child.communicate(b"\n")
    ended = sample_cpu(cores)
    assert child.pid in running.own
    assert child.pid not in ended.own
    for after in (running, ended):
        assert after.own_s - before.own_s >= 0.4
        assert child.pid not in {o.pid for o in compare_samples(before, after, 1).others}


@pytest.fixture
def burners() -> Iterator[list[int]]:
    """Orphans, so that they are not of our family, which keep every core busy for a while."""
    code = "import time; end = time.time() + 60\nwhile time.time() < end: pass"
    pids = []
    for _ in os.sched_getaffinity(0):
        shell = f"{sys.executable} -c '{code}' >/dev/null 2>&1 & echo $!"
        started = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
        pids.append(int(started.stdout))
    time.sleep(0.2)
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_busy_machine_is_refused_and_the_guilty_are_named(burners: list[int]) -> None:
    guard = NoiseGuard()
    named: set[int] = set()
    for _ in range(20):
        with pytest.raises(NoisyMachineError, match="too busy") as error:
            guard.check()
        found = error.value.found
        assert found.busy_share > 0.3  # we take a part of the time ourselves, in the loop
        assert found.seconds >= 0.3
        named |= {other.pid for other in found.others} & set(burners)
        if named:  # other tests may run beside and be busier for a moment
            break
    assert named

    started = guard.start()
    time.sleep(0.5)
    with pytest.raises(NoisyMachineError):
        guard.finish(started)


def test_noise_may_be_allowed(burners: list[int]) -> None:
    found = NoiseGuard(allow_noise=True).check()
    assert found.complaint is not None
    assert found.to_json()["others"][0]["cores"] > 0


def test_the_loop_alone_tells_where_the_kernel_does_not(
    burners: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(cores: object) -> CpuSample:
        raise PermissionError("/proc is hidden")

    monkeypatch.setattr("workers.measure.noise.sample_cpu", hidden)
    found = NoiseGuard(allow_noise=True, seconds=1.0).check()
    assert (found.busy_share, found.others) == (0.0, ())
    assert found.unevenness > 0.1


@dataclass(frozen=True)
class Scripted(NoiseGuard):
    """Finds the machine busy until the clock says otherwise."""

    quiet_at: float = 0.0

    def check(self) -> Quiet:
        if time.monotonic() < self.quiet_at:
            raise NoisyMachineError(replace(SILENCE, complaint="busy"))
        return SILENCE


def test_quiet_is_waited_for_but_not_for_ever() -> None:
    now = time.monotonic()
    assert Scripted(quiet_at=now + 0.7).wait_until_quiet(10) is SILENCE
    assert 0.7 <= time.monotonic() - now < 5
    with pytest.raises(NoisyMachineError):
        Scripted(quiet_at=now + 1000).wait_until_quiet(0.6)


def test_a_simulated_device_needs_no_guard() -> None:
    real, simulated = read_cpu(), replace(read_cpu(), simulated=True)
    assert isinstance(guard_for(simulated), NoGuard)
    guard = guard_for(real, allow_noise=True)
    assert isinstance(guard, NoiseGuard)
    assert guard.allow_noise
    none = NoGuard()
    assert none.check() == none.wait_until_quiet(9) == none.finish(none.start()) == SILENCE


def test_the_loop_runs_as_long_as_it_is_asked_to() -> None:
    start = time.perf_counter()
    assert measure_unevenness(0.2) >= 0
    assert 0.2 <= time.perf_counter() - start < 2
