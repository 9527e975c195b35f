"""From two tournaments to one leaderboard: that of our candidates, and that of their winner beside
what the user has."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from workers.measure.compare import TIE
from workers.measure.standings import Standing, TournamentResult


@dataclass(frozen=True, slots=True)
class Ranking:
    """Everybody by place. ``best`` of ours is delivered, ``tied_with`` could not be told apart from
    it, and ``keep`` is the alternative that is faster than it, if one is. ``rungs`` says of how
    many each one's tournament had, ``beside`` whose latencies are those of the second one."""

    standings: tuple[Standing, ...]
    best: str
    tied_with: tuple[str, ...]
    keep: str | None
    rungs: dict[str, int]
    beside: frozenset[str] = frozenset()

    def of(self, name: str) -> Standing:
        """The standing of one contender; raises KeyError for another name."""
        for standing in self.standings:
            if standing.name == name:
                return standing
        raise KeyError(name)


def rank(ours: TournamentResult, beside: TournamentResult | None, baseline: str) -> Ranking:
    """``ours`` is the tournament of our candidates, ``beside`` that of their winner, the baseline
    and the alternatives, which there may be none of.

    The second may have others of ours, too: the first one's winner is delivered unless one of them
    is faster there. Two tournaments, as an alternative that is far ahead would throw all of ours
    out of a common one before it is known which of them is the best. What is delivered must not be
    slower than the baseline in either: if the second, in its final, cannot tell them apart, or
    finds it slower, it is the baseline. Whoever is in the second's final has its latency from
    there, so that it can be held against those of the alternatives.
    """
    best, tied, keep = ours.winner, ours.tied_with, None
    if beside is not None:
        mine = {standing.name for standing in ours.standings}
        best = _best_delivered(beside, mine, ours.winner, baseline)
        if best != ours.winner:
            tied = ()
        second = beside.of(best)
        if beside.winner not in mine:
            keep = beside.winner
        if best != baseline and (beside.winner == baseline or not _still_faster(second)):
            others = (name for name in tied if name != baseline)
            tied = (best, *others) if second.tied or _level(second) else ()
            best = baseline
        if keep is None:
            tied += tuple(name for name in beside.tied_with if name not in (*tied, best))
    first = keep or best
    level = beside.tied_with if keep is not None and beside is not None else tied
    standings = {standing.name: standing for standing in ours.standings}
    from_second = set()
    rungs = dict.fromkeys(standings, len(ours.rungs))
    for standing in beside.standings if beside is not None else ():
        if standing.name not in standings:
            standings[standing.name] = standing
            rungs[standing.name] = len(beside.rungs) if beside is not None else 0
            from_second.add(standing.name)
        else:
            if _counts(standing):
                from_second.add(standing.name)
            standings[standing.name] = _both(standings[standing.name], standing)

    def merit(name: str) -> tuple[bool, bool, float]:
        compared = standings[name].comparison
        return name != first, name not in level, -compared.speedup if compared else math.inf

    def why_not(name: str) -> str | None:
        if name == first or name in level:
            return None
        if keep is not None and name in tied:
            return f"tied with {best}, and {keep} is faster than that"
        return standings[name].dropped

    placed = tuple(
        replace(
            standings[name],
            place=place,
            tied=name == first or name in level,
            dropped=why_not(name),
        )
        for place, name in enumerate(sorted(standings, key=merit), start=1)
    )
    return Ranking(placed, best, tied, keep, rungs, frozenset(from_second))


def _best_delivered(beside: TournamentResult, mine: set[str], winner: str, baseline: str) -> str:
    """The fastest of ours as it is delivered, but for the baseline: ``winner`` of the first
    tournament, unless another one won the second, or is ahead of it there by more than the band of
    ties where an alternative has won."""
    if beside.winner in mine and beside.winner != baseline:
        return beside.winner
    compared = {
        standing.name: standing.comparison.speedup
        for standing in beside.standings
        if standing.name in mine - {baseline} and standing.comparison is not None
    }
    fastest = max(compared, key=compared.__getitem__, default=winner)
    if beside.winner == baseline or winner not in compared or winner == baseline:
        return winner
    return fastest if compared[fastest] > (1 + TIE) * compared[winner] else winner


def _both(first: Standing, second: Standing) -> Standing:
    """What is told of a contender of both tournaments."""
    if not _counts(second):
        return replace(first, dropped=second.dropped or first.dropped)
    return replace(
        first,
        final=True,
        comparison=second.comparison,
        dropped=second.dropped or first.dropped,
    )


def _counts(second: Standing) -> bool:
    """Whether what the second tournament says of someone replaces what the first one said."""
    return second.final and second.comparison is not None


def _still_faster(standing: Standing) -> bool:
    """Whether the second tournament does not contradict that this one is faster than the baseline.
    In what left early, because of an alternative, there may be too few rounds to say so again."""
    if standing.comparison is None:
        return False
    verdict = standing.comparison.verdict
    return verdict == "faster" or (verdict == "no difference" and not standing.final)


def _level(standing: Standing) -> bool:
    compared = standing.comparison
    return standing.final and compared is not None and compared.verdict == "no difference"
