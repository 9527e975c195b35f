"""Two tournaments make one leaderboard, and the best of ours is delivered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workers.measure.compare import comparison
from workers.measure.standings import Rung, Standing, TournamentResult
from workers.runner.ranking import rank
from workers.runner.workplace import BASELINE


def result(
    winner: str, speedups: dict[str, float | None], tied_with: tuple[str, ...] = (), rungs: int = 1
) -> TournamentResult:
    """A tournament with these speed-ups over the baseline; None is one that never ran."""
    standings = tuple(
        Standing(
            place=place,
            name=name,
            rung=1,
            final=True,
            comparison=None
            if speedup is None
            else comparison(name, [1.0] * 40, [speedup] * 40, "precise", simulated=True, seed=0),
            tied=name in (winner, *tied_with),
            dropped=None if name in (winner, *tied_with) else f"{name} is slower",
        )
        for place, (name, speedup) in enumerate(speedups.items(), start=1)
    )
    made = tuple(Rung(number, 9, tuple(speedups), ()) for number in range(1, rungs + 1))
    return TournamentResult(winner, winner, tied_with, standings, made, 40, "precise")


IOS = result("ios", {"ios": 1.5, "greedy": 1.2, "sequential": 1.0}, rungs=3)


def test_without_alternatives_the_tournament_is_the_leaderboard() -> None:
    found = rank(IOS, None, BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("ios", (), None)
    assert found.standings == IOS.standings
    assert found.rungs == dict.fromkeys(("ios", "greedy", "sequential"), 3)


def test_an_alternative_that_is_far_ahead_takes_nothing_from_the_best_of_ours() -> None:
    beside = result("eager", {"eager": 14.0, "ios": 1.5, "sequential": 1.0})
    found = rank(IOS, beside, BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("ios", (), "eager")
    assert [one.name for one in found.standings] == ["eager", "ios", "greedy", "sequential"]
    assert [one.place for one in found.standings] == [1, 2, 3, 4]
    assert [one.tied for one in found.standings] == [True, False, False, False]
    assert found.of("ios").dropped == "ios is slower"
    assert found.of("eager").dropped is None
    assert found.rungs["eager"] == 1


def test_a_slower_alternative_stands_among_ours_by_its_speed() -> None:
    beside = result("ios", {"ios": 1.5, "eager": 1.3, "sequential": 1.0, "onnxruntime": None})
    found = rank(IOS, beside, BASELINE)
    assert (found.best, found.keep) == ("ios", None)
    names = [one.name for one in found.standings]
    assert names == ["ios", "eager", "greedy", "sequential", "onnxruntime"]


def test_an_alternative_may_be_tied_with_ours() -> None:
    beside = result("ios", {"ios": 1.5, "eager": 1.5, "sequential": 1.0}, tied_with=("eager",))
    found = rank(IOS, beside, BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("ios", ("eager",), None)
    assert found.of("eager").tied


def test_candidates_may_be_tied_with_each_other_below_a_faster_alternative() -> None:
    ours = result("greedy", {"greedy": 1.5, "ios": 1.5, "sequential": 1.0}, tied_with=("ios",))
    beside = result("eager", {"eager": 2.0, "greedy": 1.5, "sequential": 1.0})
    found = rank(ours, beside, BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("greedy", ("ios",), "eager")
    assert [one.name for one in found.standings if one.tied] == ["eager"]


def test_what_is_not_faster_than_the_baseline_both_times_is_not_delivered() -> None:
    beside = result("sequential", {"sequential": 1.0, "ios": 1.0, "eager": 0.9}, ("ios",))
    found = rank(IOS, beside, BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("sequential", ("ios",), None)
    assert found.standings[0].name == "sequential"


@pytest.mark.parametrize(
    ("again", "tied_with"),
    [(1.0, ("ios",)), (0.8, ()), (None, ())],
    ids=["level", "slower", "failed"],
)
def test_nor_beside_an_alternative_that_is_faster(
    again: float | None, tied_with: tuple[str, ...]
) -> None:
    beside = result("eager", {"eager": 2.0, "sequential": 1.0, "ios": again})
    found = rank(IOS, beside, BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("sequential", tied_with, "eager")


def test_what_is_slower_than_the_baseline_the_second_time_is_not_tied_with_it() -> None:
    beside = result("sequential", {"sequential": 1.0, "ios": 0.8, "eager": 0.5})
    found = rank(IOS, beside, BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("sequential", (), None)
    assert found.of("ios").dropped == "ios is slower"


def test_what_left_early_for_an_alternative_is_delivered_for_what_it_showed_before() -> None:
    beside = result("eager", {"eager": 9.0, "sequential": 1.0, "ios": 1.0})
    early = tuple(replace(standing, final=standing.name != "ios") for standing in beside.standings)
    found = rank(IOS, replace(beside, standings=early), BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("ios", (), "eager")


@pytest.mark.parametrize("beside", [None, result("sequential", {"sequential": 1.0, "eager": 0.5})])
def test_the_baseline_may_be_the_best(beside: TournamentResult | None) -> None:
    ours = result("sequential", {"sequential": 1.0, "ios": 0.8})
    found = rank(ours, beside, BASELINE)
    assert (found.best, found.tied_with, found.keep) == ("sequential", (), None)
    assert sorted(one.place for one in found.standings) == list(range(1, len(found.standings) + 1))


def test_who_was_in_the_second_final_has_its_latency_from_there() -> None:
    """So that it can be held against the alternatives': the machine may have become slower."""
    beside = result("ios", {"ios": 1.4, "eager": 1.3, "sequential": 1.0})
    compared = rank(IOS, beside, BASELINE).of("ios").comparison
    assert compared is not None
    assert compared.speedup == pytest.approx(1.4)
    early = tuple(replace(one, final=one.name != "ios") for one in beside.standings)
    compared = rank(IOS, replace(beside, standings=early), BASELINE).of("ios").comparison
    assert compared is not None
    assert compared.speedup == pytest.approx(1.5)


def test_who_is_tied_with_ours_below_a_faster_alternative_is_told_so() -> None:
    level = result("ios", {"ios": 1.5, "greedy": 1.49, "sequential": 1.0}, tied_with=("greedy",))
    beside = result("eager", {"eager": 3.0, "ios": 1.5, "sequential": 1.0})
    found = rank(level, beside, BASELINE)
    assert (found.keep, found.tied_with) == ("eager", ("greedy",))
    assert not found.of("greedy").tied
    assert found.of("greedy").dropped == "tied with ios, and eager is faster than that"


@pytest.mark.parametrize(
    ("winner", "speedups", "best", "keep"),
    [
        ("greedy", {"greedy": 1.6, "ios": 1.2, "eager": 1.1}, "greedy", None),
        ("ios", {"ios": 1.6, "greedy": 1.2, "eager": 1.1}, "ios", None),
        ("eager", {"eager": 2.0, "greedy": 1.6, "ios": 1.2}, "greedy", "eager"),
        ("eager", {"eager": 2.0, "greedy": 1.205, "ios": 1.2}, "ios", "eager"),
        ("eager", {"eager": 2.0, "greedy": 1.1, "ios": 1.2}, "ios", "eager"),
    ],
)
def test_of_ours_the_one_is_delivered_that_is_fastest_as_delivered(
    winner: str, speedups: dict[str, float | None], best: str, keep: str | None
) -> None:
    beside = result(winner, {**speedups, BASELINE: 1.0})
    found = rank(IOS, beside, BASELINE)
    assert (found.best, found.keep) == (best, keep)
    assert found.standings[0].name == winner
    assert found.beside == {"ios", "greedy", "eager", BASELINE}
    for name, speedup in speedups.items():
        compared = found.of(name).comparison
        assert compared is not None
        assert compared.speedup == pytest.approx(speedup)
