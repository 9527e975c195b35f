"""DOPpler on a simulated machine with known latencies and interference: REACT finds the degree of
parallelism that is right for a program's size (Figure 12), and time is saved by it."""

from __future__ import annotations

import pytest
from support.synthetic_machine import PROGRAMS, Host, SyntheticPool, program, right_degree

from workers.measure.effort import USUAL
from workers.measure.measurement import Failure
from workers.measure.parallel.doppler import DopplerMeasurer
from workers.measure.parallel.fixed import FixedMeasurer
from workers.measure.parallel.rounds import ParallelRound


def doppler(pool: SyntheticPool) -> DopplerMeasurer:
    return DopplerMeasurer(pool)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_right_degree_is_found_within_ten_rounds_and_kept(name: str) -> None:
    right = right_degree(PROGRAMS[name])
    rounds: list[ParallelRound] = []
    measurer = doppler(SyntheticPool())
    candidates = program(PROGRAMS[name], 3000, seed=3)
    measurer.measure(candidates, rounds.append, lambda: len(rounds) == 40)  # type: ignore[arg-type]
    degrees = [one.degree_of_parallelism for one in rounds]
    least, most = 0.8 * right, 1.25 * right + 2
    found = next(at for at, degree in enumerate(degrees) if least <= degree <= most)
    assert found < 10
    settled = degrees[10:]
    assert least <= sum(settled) / len(settled) <= most
    assert max(settled) <= right + measurer.policy.gamma_max


def test_larger_programs_get_lower_degrees() -> None:
    assert 64 == right_degree(PROGRAMS["small"]) > right_degree(PROGRAMS["medium"])
    assert right_degree(PROGRAMS["medium"]) > right_degree(PROGRAMS["large"]) > 1


@pytest.mark.parametrize(("name", "least"), [("small", 0.4), ("medium", 0.3), ("large", -0.1)])
def test_time_is_saved_where_the_host_was_what_took_it(name: str, least: float) -> None:
    candidates = program(PROGRAMS[name], 256, seed=5)
    serial, ours = SyntheticPool(), SyntheticPool()
    FixedMeasurer(serial).measure(candidates)  # type: ignore[arg-type]
    measurer = doppler(ours)
    taken = []
    for start in range(0, len(candidates), 64):
        taken += measurer.measure(candidates[start : start + 64])  # type: ignore[arg-type]
    assert 1 - ours.now_s / serial.now_s > least
    off = [
        abs(one.latency_ms / candidate.latency_ms - 1)
        for one, candidate in zip(taken, candidates, strict=True)
        if one is not None and one.failure is None
    ]
    assert len(off) == len(candidates)
    assert sorted(off)[len(off) // 2] < 0.05


def test_the_machine_does_what_it_says() -> None:
    """One after the other by hand, and beside each other: the host in parallel, the driver and the
    GPU one at a time."""
    host = Host(cores=2, preparing_s=1.0, driver_s=0.25, runs=10, crowding=0.5)
    candidates = program(PROGRAMS["large"], 2, seed=1)
    gpu_s = sum(one.latency_ms for one in candidates) * 10 / 1e3
    pool = SyntheticPool(host)
    pool.measure(candidates, 1, 99.0, USUAL)
    assert pool.now_s == pytest.approx(2 * 1.25 + gpu_s)
    pool = SyntheticPool(host)
    outcomes = pool.measure(candidates, 2, 99.0, USUAL)
    assert 1.5 < pool.now_s < 1.5 + gpu_s
    for outcome, candidate in zip(outcomes, candidates, strict=True):
        assert outcome is not None
        assert outcome.reading is not None
        (device_ms,) = {run.device_ms for run in outcome.reading.runs}
        assert candidate.latency_ms <= device_ms <= candidate.latency_ms * 1.1
    (first,) = pool.measure(candidates[:1], 1, 1.1, USUAL)
    assert first is not None
    assert first.failure is Failure.TIMEOUT
