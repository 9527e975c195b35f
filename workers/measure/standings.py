"""How a tournament ends: who won, who is tied, and what became of everybody else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workers.measure.compare import Comparison, Ended, Verdict, comparison, tie_band
from workers.measure.statistics import CONFIDENCE, enough, median_ratio, ratio_interval

Samples = Mapping[str, Sequence[float]]
"""Latencies in ms by contender; the ``i``-th of all were taken in the same round."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung, counted from 1: who took part in how many rounds, and who left in it."""

    number: int
    rounds: int
    contenders: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """What became of one contender.

    ``rung`` is the last one that it took part in, ``final`` whether it took part in the final too.
    ``comparison`` is with the baseline, by the final for those that it is of, and None if the two
    were never measured together. ``tied`` is a finalist that was not told apart from the fastest,
    the winner included; ``dropped`` says in words why another one left, or lost.
    """

    place: int
    name: str
    rung: int
    final: bool
    comparison: Comparison | None
    tied: bool
    dropped: str | None


@dataclass(frozen=True, slots=True)
class TournamentResult:
    """``standings`` by place: the winner, those tied with it, and all others by their speed-up,
    failures last. ``fastest`` had the highest speed-up in the final; it is the winner unless one
    that is preferred to it is tied with it. ``ended`` says what ended the final's rounds."""

    winner: str
    fastest: str
    tied_with: tuple[str, ...]
    standings: tuple[Standing, ...]
    rungs: tuple[Rung, ...]
    final_rounds: int
    ended: Ended

    def of(self, name: str) -> Standing:
        """The standing of one contender; raises KeyError for another name."""
        for standing in self.standings:
            if standing.name == name:
                return standing
        raise KeyError(name)


def judge(
    early: Samples,
    final: Samples,
    finalists: Sequence[str],
    baseline: str,
    preference: Mapping[str, int],
    reasons: Mapping[str, str],
    rungs: Sequence[Rung],
    ended: Ended,
    error: float,
    simulated: bool,
    seed: int,
) -> TournamentResult:
    """The result, which rests on the ``final`` samples of the ``finalists`` alone; the ``early``
    ones of the rungs only describe the others. ``preference`` has a number for each contender, and
    ``reasons`` why some of them left; ``error`` is that of TournamentCare."""
    found: dict[str, Comparison | None] = {}
    for name in preference:
        rounds, how = (final, ended) if name in finalists else (early, "dropped")
        found[name] = _compared(name, rounds, baseline, how, simulated, seed)
    leader = fastest(final, finalists, baseline)
    lost = _losers(final, finalists, leader, baseline, found, error, simulated, seed)
    tied = [name for name in finalists if name not in lost]
    winner = min(tied, key=preference.__getitem__)

    def merit(name: str) -> tuple[bool, bool, float, int]:
        compared = found[name]
        slowness = -compared.speedup if compared else math.inf
        return name != winner, name not in tied, slowness, preference[name]

    by_merit = sorted(preference, key=merit)
    standings = tuple(
        Standing(
            place=place,
            name=name,
            rung=max((rung.number for rung in rungs if name in rung.contenders), default=0),
            final=name in finalists,
            comparison=found[name],
            tied=name in tied,
            dropped=lost.get(name, reasons.get(name)),
        )
        for place, name in enumerate(by_merit, start=1)
    )
    return TournamentResult(
        winner=winner,
        fastest=leader,
        tied_with=tuple(name for name in by_merit if name in tied and name != winner),
        standings=standings,
        rungs=tuple(rungs),
        final_rounds=len(final[baseline]),
        ended=ended,
    )


def settled_by_starts(
    result: TournamentResult, own: str, other: str, verdict: Verdict, words: str
) -> TournamentResult:
    """The result, with what became of ``own`` and ``other`` put right by how they compare over
    several starts; ``verdict`` is that on ``own``, which is preferred to ``other``. One of them is
    the winner."""
    tied = [name for name in (result.winner, *result.tied_with) if name not in (own, other)]
    first, lost = (other, own) if verdict == "slower" else (own, other)
    if verdict == "no difference":
        tied.insert(0, other)
    reason = f"surely slower than {first} over several starts: {words}"

    def put_right(standing: Standing) -> Standing:
        if standing.name not in (own, other):
            return standing
        out = verdict != "no difference" and standing.name == lost
        return replace(standing, final=True, tied=not out, dropped=reason if out else None)

    def merit(standing: Standing) -> tuple[bool, bool, int]:
        return standing.name != first, not standing.tied, standing.place

    placed = sorted(map(put_right, result.standings), key=merit)
    standings = tuple(replace(one, place=place) for place, one in enumerate(placed, start=1))
    return replace(result, winner=first, tied_with=tuple(tied), standings=standings)


def fastest(samples: Samples, names: Sequence[str], baseline: str) -> str:
    """Who of ``names`` has the highest speed-up over the baseline; of equals the first."""
    return max(names, key=lambda name: median_ratio(samples[baseline], samples[name]))


def surely_slower(
    own: Sequence[float], other: Sequence[float], confidence: float, simulated: bool, seed: int
) -> bool:
    """Whether the interval of the ratio of two lies beyond the band of ties. Never, where there are
    too few samples for an interval of that confidence."""
    if len(own) < enough(confidence):
        return False
    return ratio_interval(own, other, seed, confidence)[0] > 1 + tie_band(simulated)


def confidence_among(contenders: int, error: float, looks: int = 1) -> float:
    """The confidence of each single interval, if one contender is compared with all others
    ``looks`` times and all intervals are to hold together but for ``error`` (Bonferroni)."""
    return 1 - error / (max(1, contenders - 1) * looks)


def in_words(own: Sequence[float], other: Sequence[float], confidence: float, seed: int) -> str:
    """The ratio of two, with its interval."""
    low, high = ratio_interval(own, other, seed, confidence)
    return f"{median_ratio(own, other):.3f} times its latency ({low:.3f} to {high:.3f})"


def _losers(
    final: Samples,
    finalists: Sequence[str],
    leader: str,
    baseline: str,
    found: Mapping[str, Comparison | None],
    error: float,
    simulated: bool,
    seed: int,
) -> dict[str, str]:
    """Finalists that cannot win, each with the reason. The fastest is never among them: the median
    of its ratios to the baseline is at least 1, and so is the end of their interval."""
    confidence = confidence_among(len(finalists), error)
    lost = {}
    for name in finalists:
        compared = found[name]
        if surely_slower(final[name], final[leader], confidence, simulated, seed):
            words = in_words(final[name], final[leader], confidence, seed)
            lost[name] = f"surely slower than {leader} in the final: {words}"
        elif compared is not None and compared.verdict == "slower":
            words = in_words(final[name], final[baseline], CONFIDENCE, seed)
            lost[name] = f"surely slower than {baseline} in the final: {words}"
    return lost


def _compared(
    name: str, samples: Samples, baseline: str, ended: Ended, simulated: bool, seed: int
) -> Comparison | None:
    own = samples.get(name, ())
    if not own:
        return None
    beside = samples[baseline][: len(own)]  # all begin with the first round
    own = own[: len(beside)]
    return comparison(name, own, beside, ended, simulated, seed) if own else None
