"""Tournaments between contenders whose latencies are made up: who wins, who leaves, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.fake_device import ScriptedExecutable

from workers.devices.base import CancelledError, DeviceError
from workers.measure.standings import Rung, TournamentResult, confidence_among
from workers.measure.statistics import enough
from workers.measure.tournament import TournamentCare, tournament

RUNS = 1 << 14
QUICK = TournamentCare(max_rounds=60)

Noise = Callable[[np.random.Generator], NDArray[np.float64]]


def even(random: np.random.Generator) -> NDArray[np.float64]:
    return np.ones(RUNS)


def drift(random: np.random.Generator) -> NDArray[np.float64]:
    """Half as slow again in the end."""
    return 1 + 0.5 * np.arange(RUNS) / RUNS


def bursts(random: np.random.Generator) -> NDArray[np.float64]:
    """A third slower from some moment to another one."""
    start, end = sorted(random.integers(0, RUNS, 2))
    slowed = np.ones(RUNS)
    slowed[start:end] = 1.33
    return slowed


@dataclass
class Machine:
    """Contenders with the given latencies in ms. ``common`` is what slows all of them down at a
    time; each has a heavy-tailed noise of its own, and ``luck`` that it keeps until it is prepared
    again. Time passes only while they run and while they are prepared."""

    latencies: Mapping[str, float]
    seed: int = 0
    common: Noise = even
    sigma: float = 0.02
    luck: float = 0.0
    prepare_s: float = 0.0
    now: float = 0.0
    prepared: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.shared = self.common(self.random)

    def prepare(self, name: str) -> ScriptedExecutable:
        self.prepared.append(name)
        self.now += self.prepare_s
        mean = self.latencies[name] * float(np.exp(self.random.normal(0, self.luck)))
        spikes = (self.random.random(2000) < 0.1) * self.random.pareto(1.5, 2000)
        own = self.random.lognormal(0, self.sigma, 2000) * (1 + (spikes if self.sigma else 0))

        def latency(run: int) -> float:
            self.turns.append(name)
            slowed = self.shared[len(self.turns) % RUNS]
            taken = mean * float(own[run % 2000] * slowed)
            self.now += taken / 1e3
            return taken

        return ScriptedExecutable(latency)

    def play(self, care: TournamentCare = QUICK, **options: object) -> TournamentResult:
        """The first contender is the baseline, and the order that of preference."""
        contenders = {name: self.prepare(name) for name in self.latencies}
        arguments: dict[str, object] = {"baseline": next(iter(self.latencies)), **options}
        return tournament(
            contenders,
            {},
            prepare_again=self.prepare,
            care=care,
            seed=self.seed,
            clock=lambda: self.now,
            **arguments,  # type: ignore[arg-type]  # of several types, as tests choose them
        )


FIELD = {"base": 5.0, "same": 5.0, "near": 5.2, "far": 9.0, "fast": 4.75}


@pytest.mark.parametrize("common", [even, drift, bursts])
def test_one_that_is_five_per_cent_faster_wins(common: Noise) -> None:
    """In each of 40 tournaments that were run for every kind of noise."""
    results = [Machine(FIELD, seed, common, luck=0.003).play() for seed in range(8)]
    assert [found.winner for found in results].count("fast") == 8
    for found in results:
        best = found.of("fast")
        assert best.place == 1
        assert best.final
        assert best.comparison is not None
        assert best.comparison.verdict == "faster"
        assert best.comparison.speedup == pytest.approx(5 / 4.75, rel=0.025)
        assert found.tied_with == ()
        assert [standing.place for standing in found.standings] == [1, 2, 3, 4, 5]
        far = found.of("far")
        assert (far.place, far.final, far.tied) == (5, False, False)
        assert far.rung <= 2
        assert far.dropped is not None
        assert far.dropped.startswith("surely slower than ")
        assert far.comparison is not None
        assert far.comparison.ended == "dropped"


@pytest.mark.parametrize("common", [even, bursts])
def test_of_equals_the_preferred_wins_and_the_others_are_tied(common: Noise) -> None:
    equal = dict.fromkeys(["base", "a", "b", "c"], 5.0)
    for seed in range(4):
        found = Machine(equal, seed, common, luck=0.001).play(preference=["c", "nobody", "a"])
        assert found.winner == "c"
        assert set(found.tied_with) == {"a", "b", "base"}
        assert all(standing.tied for standing in found.standings)
        assert all(standing.dropped is None for standing in found.standings)


def test_many_equals_stay_when_there_is_time() -> None:
    many = {"base": 7.0} | {f"equal{number}": 5.0 for number in range(15)}
    for seed in range(2):
        found = Machine(many, seed).play(preference=["equal9"])
        assert found.winner == "equal9"
        assert len(found.tied_with) == 14


def test_one_that_is_three_per_cent_faster_is_not_lost_on_the_way() -> None:
    """It may end in a tie, as 1 % is none, but the rungs do not drop it."""
    field = {"base": 5.0} | dict.fromkeys("abcdef", 5.0) | {"fast": 4.85}
    results = [Machine(field, seed, bursts).play() for seed in range(6)]
    assert all(found.of("fast").final for found in results)
    assert all(found.of("fast").tied for found in results)


@settings(max_examples=15, deadline=None)
@given(
    latencies=st.lists(st.sampled_from([4.9, 5.0, 5.1, 6.0]), min_size=1, max_size=4),
    seed=st.integers(0, 1 << 16),
    sigma=st.sampled_from([0.001, 0.05]),
    limit=st.sampled_from([0.5, 60.0]),
)
def test_the_winner_is_never_slower_than_the_baseline(
    latencies: list[float], seed: int, sigma: float, limit: float
) -> None:
    """By its own verdict, whatever is preferred; and nothing tied has lost."""
    names = [f"c{number}" for number in range(len(latencies))]
    machine = Machine(dict(zip(names, latencies, strict=True)), seed, sigma=sigma, luck=0.005)
    care = TournamentCare(limit_s=limit, max_rounds=30)
    found = machine.play(care, baseline=names[-1])
    winner = found.standings[0]
    assert winner.name == found.winner
    assert winner.comparison is not None
    assert winner.comparison.verdict != "slower"
    assert winner.final
    assert {found.winner, *found.tied_with} == {s.name for s in found.standings if s.tied}
    assert found.of(found.fastest).tied
    assert found.of(names[-1]).final
    for standing in found.standings:
        assert (standing.dropped is None) == standing.tied


def test_the_same_seed_gives_the_same_result() -> None:
    first, again = (Machine(FIELD, 3, bursts).play() for _ in range(2))
    assert first == again
    assert first != Machine(FIELD, 4, bursts).play()


def test_the_last_measurement_alone_decides() -> None:
    """One was lucky as it was prepared first, and another one is afterwards."""
    machine = Machine({"base": 5.0, "lucky": 4.0, "other": 4.2})
    contenders = {name: machine.prepare(name) for name in machine.latencies}
    machine.latencies = {"base": 5.0, "lucky": 5.5, "other": 4.2}
    found = tournament(contenders, {}, "base", machine.prepare, care=QUICK)
    assert found.rungs[-1].dropped == ("other",)
    assert found.winner == "base", "what was dropped stays so"
    lucky = found.of("lucky")
    assert lucky.comparison is not None
    assert lucky.comparison.speedup == pytest.approx(5 / 5.5, rel=0.03)
    assert lucky.dropped is not None
    assert lucky.dropped.startswith("surely slower than base in the final: 1.")
    assert machine.prepared == ["base", "lucky", "other", "base", "lucky"]


def test_rungs_double_and_all_take_turns() -> None:
    equal = dict.fromkeys(["base", "a", "b"], 5.0)
    machine = Machine(equal, sigma=0.1)
    told: list[Rung] = []
    found = machine.play(told=told.append)
    first = enough(confidence_among(3, 0.05, 4))
    assert [rung.rounds for rung in found.rungs] == [first, 2 * first, 4 * first, 8 * first]
    assert tuple(told) == found.rungs
    assert found.final_rounds == 60
    assert found.ended == "rounds"
    last = machine.turns[-6 * 60 :]
    for start in range(0, len(last), 6):
        pairs = last[start : start + 6]
        assert pairs[0::2] == pairs[1::2]
        assert sorted(pairs[0::2]) == ["a", "b", "base"]
    orders = {tuple(last[start : start + 6 : 2]) for start in range(0, len(last), 6)}
    assert len(orders) > 3


@pytest.mark.parametrize(("slow", "limit"), [(1, 20.0), (100, 20.0), (100, 60.0), (100, 3.0)])
def test_the_limit_holds_whatever_the_latencies(slow: int, limit: float) -> None:
    """Beyond it are only the warm-ups, one round of all, and the least of a final."""
    field = {f"c{number}": slow * (3.0 + 0.05 * number) for number in range(12)}
    machine = Machine(field, sigma=0, common=bursts, prepare_s=0.2)
    found = machine.play(TournamentCare(limit_s=limit, max_rounds=1000))
    each = 1.33 * 2 * max(field.values()) / 1e3
    warm_up = max(0.1, 3 * each)
    finalists = sum(standing.final for standing in found.standings)
    in_any_case = 12 * (0.2 + warm_up + each) + finalists * (0.2 + warm_up + each * 20)
    assert machine.now < max(limit, in_any_case) + finalists * each
    if limit == 3.0:
        assert [rung.rounds for rung in found.rungs] == [1]
        assert finalists <= 2
        assert any("not proved" in (entry.dropped or "") for entry in found.standings)
        assert found.ended == "time"


def test_nobody_leaves_unproved_where_only_proof_counts() -> None:
    """Two are as fast as each other, and there is no time for more than one round: both are in the
    final, which says so. One of twice the latency is."""
    field = {"base": 300.0, "ours": 200.0, "theirs": 199.0, "slow": 600.0}
    for proof in (False, True):
        machine = Machine(field)
        found = machine.play(TournamentCare(limit_s=3.0, proof=proof))
        unproved = {one.name for one in found.standings if "not proved" in (one.dropped or "")}
        assert bool(unproved) is not proof
        assert (found.of("ours").final and found.of("theirs").final) is proof
        if proof:
            assert found.of("slow").dropped is not None
            assert {found.winner, *found.tied_with} == {"ours", "theirs"}


def test_simulated_latencies_are_had_at_once_and_know_no_ties() -> None:
    field = {"base": 2.0, "a": 1.0, "b": 1.0, "c": 1.0005}
    machine = Machine(field, sigma=0)
    found = machine.play(
        TournamentCare(limit_s=0.0), simulated=True, preference=["base", "c", "b", "a"]
    )
    assert found.winner == "b"
    assert found.tied_with == ("a",)
    assert found.of("c").dropped is not None
    assert found.ended == "precise"
    assert len(found.rungs) == 1
    compared = found.of("b").comparison
    assert compared is not None
    assert (compared.speedup, compared.measurement.simulated) == (2.0, True)


class Failing(ScriptedExecutable):
    """Fails from the run with that number on."""

    def __init__(self, latency: float, number: int, error: type[DeviceError] = DeviceError) -> None:
        def take(run: int) -> float:
            if run >= number:
                raise error("no such kernel")
            return latency

        super().__init__(take)


@pytest.mark.parametrize(("number", "rung"), [(0, 0), (8, 1), (40, 2)])
def test_one_that_fails_leaves_with_the_reason(number: int, rung: int) -> None:
    machine = Machine({"base": 5.0, "other": 5.0, "fails": 5.0})
    contenders = {name: machine.prepare(name) for name in ("base", "other")}
    found = tournament(
        {**contenders, "fails": Failing(5.0, number)}, {}, "base", machine.prepare, care=QUICK
    )
    assert found.winner == "base"
    failed = found.of("fails")
    assert failed.dropped == "it failed: no such kernel"
    assert failed.rung == rung
    assert (failed.comparison is None) == (rung == 0)
    assert not failed.final


def test_one_that_cannot_be_prepared_again_leaves() -> None:
    machine = Machine({"base": 5.0, "fast": 4.0})

    def again(name: str) -> ScriptedExecutable:
        if name == "fast":
            raise DeviceError("out of memory")
        return machine.prepare(name)

    contenders = {name: machine.prepare(name) for name in machine.latencies}
    found = tournament(contenders, {}, "base", again, care=QUICK)
    assert found.winner == "base"
    assert found.of("fast").dropped == "it failed: out of memory"
    assert not found.of("fast").final


def test_a_baseline_that_fails_and_a_cancellation_end_it() -> None:
    machine = Machine({"base": 5.0, "other": 5.0})
    sound = machine.prepare("other")
    with pytest.raises(DeviceError, match="no such kernel"):
        tournament({"base": Failing(5.0, 9), "other": sound}, {}, "base", machine.prepare)
    with pytest.raises(CancelledError):
        tournament(
            {"base": sound, "other": Failing(5.0, 9, CancelledError)}, {}, "base", machine.prepare
        )
    with pytest.raises(ValueError, match="no contender is named 'eager'; there are \\['other'\\]"):
        tournament({"other": sound}, {}, "eager", machine.prepare)


def test_alone_the_baseline_wins() -> None:
    found = Machine({"base": 5.0}).play()
    assert (found.winner, found.tied_with, found.fastest) == ("base", (), "base")
