"""What differs from start to start is told apart from what is faster."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.fake_device import ScriptedExecutable

from workers.devices.base import DeviceError
from workers.measure.compare import Care, comparison
from workers.measure.standings import Standing, TournamentResult, settled_by_starts
from workers.measure.starts import STARTS, Starts, over_starts

QUICK = Care(min_rounds=6, max_rounds=6, warm_up_ms=1.0)


class Program:
    """Starts take ``latency_ms``, each with a luck of its own, and runs scatter a little."""

    def __init__(self, latency_ms: float, luck: float, random: np.random.Generator) -> None:
        self._latency_ms, self._luck, self._random = latency_ms, luck, random
        self.started = self.running = 0

    @contextmanager
    def start(self) -> Iterator[ScriptedExecutable]:
        self.started += 1
        self.running += 1
        mean = self._latency_ms * math.exp(self._random.normal(0, self._luck))
        yield ScriptedExecutable(lambda run: mean * math.exp(self._random.normal(0, 0.001)))
        self.running -= 1


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8))
def test_the_interval_is_students(speedups: list[float]) -> None:
    logs = np.log(speedups)
    if np.ptp(logs) < 1e-6:
        logs += np.linspace(0, 1e-3, len(logs))
    found = Starts(tuple(np.exp(logs).tolist()))
    expected = stats.t.interval(0.95, len(logs) - 1, loc=np.mean(logs), scale=stats.sem(logs))
    assert found.interval == pytest.approx(tuple(np.exp(expected)), rel=2e-3)
    assert found.speedup == pytest.approx(math.exp(np.mean(logs)))
    low, high = found.interval
    assert (found.verdict == "faster") is (low > 1.01)
    assert (found.verdict == "slower") is (high < 1 / 1.01)


def test_luck_alone_is_seldom_taken_for_a_difference() -> None:
    """Of equally fast programs whose starts differ by 3 %: at most 5 %, and the band of ties."""
    random = np.random.default_rng(0)
    ratios = np.exp(random.normal(0, 0.03 * math.sqrt(2), (2000, STARTS)))
    verdicts = [Starts(tuple(row)).verdict for row in ratios.tolist()]
    assert 1 - verdicts.count("no difference") / len(verdicts) < 0.05


@pytest.mark.parametrize(
    ("factor", "luck", "verdict"),
    [
        (1.2, 0.02, "faster"),
        (0.8, 0.02, "slower"),
        (1.03, 0.0005, "faster"),
        (1.005, 0.0005, "no difference"),
    ],
)
def test_what_is_faster_is_seen_over_several_starts(
    factor: float, luck: float, verdict: str
) -> None:
    random = np.random.default_rng(1)
    own, other = Program(2.0, luck, random), Program(2.0 * factor, luck, random)
    found = over_starts(own.start, other.start, {}, care=QUICK)
    assert found.verdict == verdict
    assert len(found.speedups) == own.started == other.started == STARTS
    assert own.running == other.running == 0
    assert f", {STARTS} starts)" in str(found)


def test_one_that_cannot_be_started_again_says_so() -> None:
    @contextmanager
    def failing() -> Iterator[ScriptedExecutable]:
        raise DeviceError("no room")
        yield

    program = Program(1.0, 0.0, np.random.default_rng(0))
    with pytest.raises(DeviceError, match="no room"):
        over_starts(program.start, failing, {}, care=QUICK)


def standing(place: int, name: str, speedup: float, tied: bool, final: bool = True) -> Standing:
    compared = comparison(name, [1.0] * 40, [speedup] * 40, "precise", simulated=True, seed=0)
    dropped = None if tied else "surely slower than the winner in the final"
    return Standing(place, name, 1, final, compared, tied, dropped)


@pytest.mark.parametrize("before", ["ours", "theirs"])
@pytest.mark.parametrize(
    ("verdict", "winner", "tied", "lost"),
    [
        ("faster", "ours", ("base",), "theirs"),
        ("slower", "theirs", ("base",), "ours"),
        ("no difference", "ours", ("theirs", "base"), None),
    ],
)
def test_several_starts_have_the_last_word(
    before: str, verdict: str, winner: str, tied: tuple[str, ...], lost: str | None
) -> None:
    after = "theirs" if before == "ours" else "ours"
    standings = (
        standing(1, before, 1.5, tied=True),
        standing(2, "base", 1.0, tied=True),
        standing(3, after, 1.45, tied=False, final=False),
        standing(4, "slow", 0.5, tied=False),
    )
    result = TournamentResult(before, before, ("base",), standings, (), 40, "precise")
    found = settled_by_starts(result, "ours", "theirs", verdict, "the words")  # type: ignore[arg-type]
    assert (found.winner, found.tied_with) == (winner, tied)
    assert [one.place for one in found.standings] == [1, 2, 3, 4]
    assert found.standings[0].name == winner
    assert found.standings[-1] == standings[-1]
    assert {one.name for one in found.standings if one.tied} == {winner, *tied}
    for one in found.standings:
        if one.name == lost:
            words = f"surely slower than {winner} over several starts: the words"
            assert one.dropped == words
        elif one.name != "slow":
            assert one.dropped is None
