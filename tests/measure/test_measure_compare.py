"""Interleaved comparison with known latencies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from itertools import count

import numpy as np
import pytest
from support.fake_device import ScriptedExecutable
from torch import Tensor

from workers.devices.base import Executable
from workers.measure.compare import Care, Comparison, Rounds, compare

QUICK = Care(min_rounds=40, max_rounds=60)


def noisy(latency: float, seed: int, sigma: float = 0.05) -> ScriptedExecutable:
    noise = np.random.default_rng(seed).normal(1.0, sigma, 10_000)
    return ScriptedExecutable(lambda run: latency * float(noise[run]))


def test_verdicts() -> None:
    contenders = {
        "base": noisy(2.0, 1),
        "quick": noisy(1.0, 2),
        "slow": noisy(3.0, 3),
        "same": noisy(2.0, 4),
    }
    found = compare(contenders, {}, baseline="base", care=QUICK)
    assert {name: entry.verdict for name, entry in found.items()} == {
        "base": "no difference",
        "quick": "faster",
        "slow": "slower",
        "same": "no difference",
    }
    assert found["quick"].low < found["quick"].speedup < found["quick"].high
    assert found["quick"].speedup == pytest.approx(2.0, rel=0.1)
    assert found["base"].speedup == found["base"].low == found["base"].high == 1.0
    assert found["quick"].measurement.samples == found["quick"].report.samples == 60
    assert found["quick"].ended == "rounds"


def test_contenders_take_turns() -> None:
    turns: list[str] = []

    def told(name: str) -> ScriptedExecutable:
        def latency(run: int) -> float:
            turns.append(name)
            return 3.0

        return ScriptedExecutable(latency)

    compare({name: told(name) for name in "abc"}, {}, "a", QUICK)
    rounds = turns[-6 * 40 :]
    for start in range(0, len(rounds), 6):
        pairs = rounds[start : start + 6]
        assert pairs[0::2] == pairs[1::2]
        assert sorted(pairs[0::2]) == ["a", "b", "c"]
    orders = {tuple(rounds[start : start + 6 : 2]) for start in range(0, len(rounds), 6)}
    assert len(orders) > 3


def test_the_second_run_of_a_turn_counts_unless_it_is_long() -> None:
    """The first of two runs finds cold caches, here twice as slow."""

    def cold_first(latency: float) -> ScriptedExecutable:
        # The six runs of warming up are even in number, so that turns begin with even runs.
        return ScriptedExecutable(lambda run: latency * (2 if run % 2 == 0 and run >= 6 else 1))

    quick = compare({"a": cold_first(3.0)}, {}, "a", QUICK)["a"]
    assert quick.measurement.latency_ms == 3.0
    long = ScriptedExecutable(lambda run: 150.0)
    compare({"a": long}, {}, "a", Care(min_rounds=10, warm_up_ms=100))
    assert long.runs == 1 + 10


@pytest.mark.parametrize(("latency", "runs"), [(0.5, 6), (0.001, 50), (2.0, 3), (2.1, 2)])
def test_short_runs_are_made_until_threads_are_awake(latency: float, runs: int) -> None:
    asked: list[int] = []

    class Asked(ScriptedExecutable):
        def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
            asked.append(repeats)
            return super().time(inputs, repeats)

    compare({"a": Asked(lambda run: latency)}, {}, "a", QUICK)
    assert set(asked[-40:]) == {runs}
    asked.clear()
    compare({"a": Asked(lambda run: latency)}, {}, "a", QUICK, simulated=True)
    assert set(asked[-6:]) == {2}


def test_a_turn_begins_when_the_threads_of_the_one_before_rest() -> None:
    """A thread that goes on for 10 ms after each run, as those of OpenMP do, is over by then."""
    worked: list[float] = []

    class Lingering(ScriptedExecutable):
        def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
            began = time.perf_counter()
            assert not worked or began >= worked[-1]
            worked.append(began + 0.01)
            threading.Thread(target=linger, args=(worked[-1],)).start()
            return super().time(inputs, repeats)

    def linger(until: float) -> None:
        while time.perf_counter() < until:
            pass

    contenders = {name: Lingering(lambda run: 3.0) for name in "ab"}
    rounds = Rounds(contenders, {}, {"a": 2, "b": 2}, seed=0)
    for name in "abab":
        rounds.turn(name)
    assert [len(samples) for samples in rounds.samples.values()] == [2, 2]
    assert len(worked) == 4


def test_a_drift_hits_all_alike() -> None:
    """All get slower all the time, by half in the end; measured one after the other, the last would
    lose. A tenth between two of them is seen all the same."""
    clock = count()

    def drifting(latency: float) -> ScriptedExecutable:
        return ScriptedExecutable(lambda run: latency * (1.0 + 0.002 * next(clock)))

    contenders = {"a": drifting(1.0), "b": drifting(1.0), "c": drifting(1 / 1.1)}
    found = compare(contenders, {}, "a", QUICK)
    assert found["b"].verdict == "no difference"
    assert found["c"].verdict == "faster"
    assert found["c"].high / found["c"].low < 1.01
    assert {entry.report.shape for entry in found.values()} == {"drifting"}


def test_rounds_end_when_the_intervals_are_narrow() -> None:
    found = compare({"a": noisy(1, 1, 0.001), "b": noisy(1.005, 2, 0.001)}, {}, "a", QUICK)
    assert found["b"].measurement.samples == 40
    assert found["b"].ended == "precise"
    far = compare({"a": noisy(1, 1), "b": noisy(3, 2)}, {}, "a", QUICK)
    assert far["b"].ended == "precise", "a factor of three needs no half per cent"


@pytest.mark.parametrize(("seconds", "rounds"), [(0.1, 26), (60.0, 6)])
def test_rounds_end_when_time_is_up_but_never_before_they_can_prove_anything(
    seconds: float, rounds: int
) -> None:
    """The clock, which goes on by ``seconds`` when it is asked, is asked after six rounds and more.
    Two contenders have a second each."""
    asked = count()
    found = compare(
        {"a": noisy(1, 1), "b": noisy(1, 2)},
        {},
        "a",
        Care(min_rounds=30, limit_s=1.0),
        clock=lambda: next(asked) * seconds,
    )
    assert found["b"].ended == "time"
    assert found["b"].measurement.samples == pytest.approx(rounds, abs=1)


def test_a_tie_is_no_difference_however_sure_it_is() -> None:
    found = compare({"a": noisy(1, 1, 0.0001), "b": noisy(1.005, 2, 0.0001)}, {}, "a", QUICK)["b"]
    assert found.high < 1
    assert found.verdict == "no difference"


def test_simulated_latencies_need_few_rounds_and_know_no_ties() -> None:
    contenders = {name: noisy(latency, 1, 0) for name, latency in (("a", 1.0), ("b", 0.999))}
    found = compare(contenders, {}, "a", simulated=True)
    assert found["b"].verdict == "faster"
    assert found["a"].verdict == "no difference"
    assert found["b"].measurement.samples == 6


def test_the_baseline_must_take_part() -> None:
    with pytest.raises(ValueError, match="no executable is named 'eager'; there are \\['a'\\]"):
        compare({"a": noisy(1, 1)}, {}, baseline="eager")


Noise = Callable[[np.random.Generator, int], np.ndarray]


def heavy_tailed(random: np.random.Generator, runs: int) -> np.ndarray:
    """Even but for one run in ten, which may take many times as long."""
    spikes = (random.random(runs) < 0.1) * random.pareto(1.5, runs)
    return random.lognormal(0, 0.02, runs) * (1 + spikes)


def autocorrelated(random: np.random.Generator, runs: int) -> np.ndarray:
    """Each run is like the one before it: a first-order autoregression of the logarithm."""
    steps, level = random.normal(0, 0.03, runs), 0.0
    series = np.empty(runs)
    for run, step in enumerate(steps):
        level = 0.6 * level + step
        series[run] = level
    return np.exp(series)


def bursts(random: np.random.Generator, runs: int) -> np.ndarray:
    """Heavy-tailed, and a third slower from some moment to another one."""
    start, end = sorted(random.integers(0, runs, 2))
    slowed = np.ones(runs)
    slowed[start:end] = 1.33
    return heavy_tailed(random, runs) * slowed


def contest(noise: Noise, seed: int, ratio: float, together: bool) -> Comparison:
    """Two contenders under ``noise``: common to both, as the machine's is, or each its own."""
    random = np.random.default_rng(seed)
    common = noise(random, 5000) if together else np.ones(5000)
    clock = count()

    def contender(latency: float) -> Executable:
        own = heavy_tailed(random, 5000) if together else noise(random, 5000)
        return ScriptedExecutable(lambda run: latency * float(own[run] * common[next(clock)]))

    care = Care(min_rounds=30, max_rounds=100)
    contenders = {"base": contender(ratio), "other": contender(1.0)}
    return compare(contenders, {}, "base", care, seed)["other"]


@pytest.mark.parametrize(
    ("noise", "together", "least_covered"),
    [
        (heavy_tailed, False, 0.90),
        (bursts, True, 0.90),
        (autocorrelated, True, 0.90),
        (autocorrelated, False, 0.80),
    ],
)
def test_the_interval_holds_the_truth_under_noise_like_ours(
    noise: Noise, together: bool, least_covered: float
) -> None:
    """Nominally 95 %; over 300 seeds 97, 98, 96 and 90 % were seen. Some is lost where each
    contender has a slow noise of its own, which some dozens of rounds hardly sample: resampling
    single rounds would hold the truth in some 80 % there. Identical contenders are called faster in
    none to one of 300."""
    found = [contest(noise, seed, 1.0, together) for seed in range(80)]
    assert sum(entry.low <= 1 <= entry.high for entry in found) / len(found) >= least_covered
    verdicts = [entry.verdict for entry in found]
    assert verdicts.count("faster") <= 2
    assert verdicts.count("slower") <= 2


@pytest.mark.parametrize("noise", [bursts, autocorrelated])
def test_a_real_difference_is_seen_through_the_noise(noise: Noise) -> None:
    found = [contest(noise, seed, 1.1, together=True) for seed in range(20)]
    assert [entry.verdict for entry in found].count("faster") >= 19
    assert sum(entry.low <= 1.1 <= entry.high for entry in found) >= 17
