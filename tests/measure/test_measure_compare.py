"""Interleaved comparison with known latencies."""

from __future__ import annotations

import numpy as np
import pytest
from support.fake_device import ScriptedExecutable

from workers.measure.compare import LEADERS, compare
from workers.measure.serial import Effort

QUICK = Effort(target_ms=100, limit_ms=1000, min_repeats=40, max_repeats=60)


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
    found = compare(contenders, {}, baseline="base", effort=QUICK)
    assert {name: entry.verdict for name, entry in found.items()} == {
        "base": "no difference",
        "quick": "faster",
        "slow": "slower",
        "same": "no difference",
    }
    assert found["quick"].low < found["quick"].speedup < found["quick"].high
    assert found["quick"].speedup == pytest.approx(2.0, rel=0.1)
    assert found["base"].speedup == found["base"].low == found["base"].high == 1.0
    assert found["quick"].measurement.samples == 40


def test_contenders_take_turns() -> None:
    turns: list[str] = []

    def told(name: str) -> ScriptedExecutable:
        def latency(run: int) -> float:
            turns.append(name)
            return 1.0

        return ScriptedExecutable(latency)

    compare({name: told(name) for name in "abc"}, {}, "a", QUICK)
    rounds = turns[-6 * 40 :]
    for start in range(0, len(rounds), 6):
        pairs = rounds[start : start + 6]
        assert pairs[0::2] == pairs[1::2]
        assert sorted(pairs[0::2]) == ["a", "b", "c"]
    orders = {tuple(rounds[start : start + 6 : 2]) for start in range(0, len(rounds), 6)}
    assert len(orders) > 3


def test_a_drift_hits_all_alike() -> None:
    """Both get slower all the time; measured one after the other, the second would lose."""
    clock = iter(range(10**6))

    def drifting(run: int) -> float:
        return 1.0 + 0.001 * next(clock)

    found = compare(
        {"a": ScriptedExecutable(drifting), "b": ScriptedExecutable(drifting)}, {}, "a", QUICK
    )
    assert found["b"].verdict == "no difference"


def test_the_baseline_must_take_part() -> None:
    with pytest.raises(ValueError, match="no executable is named 'eager'; there are \\['a'\\]"):
        compare({"a": noisy(1, 1)}, {}, baseline="eager")


def test_leaders_of_any_latency_get_enough_rounds() -> None:
    assert [LEADERS.repeats(latency) for latency in (0.05, 20.0, 400.0)] == [300, 75, 15]
