"""Local search on whole schedules, guided by what a model of the device expects of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from workers.schedulers.auto.launches import Launches
from workers.schedulers.auto.moves import Neighbourhood
from workers.schedulers.base import SchedulerError

Expected = Callable[[Sequence[Launches]], Sequence[float]]
"""The expected latency of each schedule in ms, infinite for one that cannot be run."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search, counted in schedules and not in time, so that the same search gives the
    same answer: ``trials`` of them in all, asked for ``batch`` by batch. After ``patience`` batches
    without a better one, or one without a schedule that is new, the search goes back to the best
    and takes some steps at random, ``kick`` on average or a little more."""

    trials: int = 4096
    batch: int = 16
    patience: int = 24
    kick: int = 4


@dataclass(frozen=True, slots=True)
class Refined:
    """The best schedule found and what is expected of it; ``started_ms`` is what was expected of
    the best one that the search began with. ``trials`` schedules were asked for."""

    launches: Launches
    expected_ms: float
    started_ms: float
    trials: int
    cut_short: bool = False


def refine(
    starts: Sequence[Launches],
    neighbourhood: Neighbourhood,
    expected: Expected,
    effort: Effort | None = None,
    seed: int = 0,
    expired: Callable[[], bool] = lambda: False,
) -> Refined:
    """Iterated local search: of a batch of neighbours the best one that is not worse is taken.

    It begins with the best of ``starts``; the others are where it goes when it gets stuck, before
    it goes anywhere at random. No schedule is asked for twice. ``expired`` ends the search early,
    which the result says. Raises SchedulerError without a start of which anything is expected.
    """
    effort = effort or Effort()
    random = Random(seed)  # noqa: S311  # a search, not a secret
    known: dict[Launches, float] = {}

    def ask(wanted: Sequence[Launches]) -> list[tuple[float, Launches]]:
        new = [one for one in dict.fromkeys(wanted) if one not in known]
        known.update(zip(new, expected(new), strict=True))
        return [(known[one], one) for one in new]

    begun = sorted(ask(starts), key=lambda found: found[0])
    if not begun or begun[0][0] == math.inf:
        raise SchedulerError("there was no time to find out what to expect of any schedule")
    started, best = begun[0]
    best_ms = current_ms = started
    current = best
    elsewhere = [launches for latency, launches in begun[1:] if math.isfinite(latency)]
    failures = barren = 0
    cut_short = False
    # A small graph has fewer schedules than there are trials: at some time all are known.
    while len(known) < effort.trials and barren < 8 * effort.patience:
        if expired():
            cut_short = True
            break
        found = ask([neighbourhood.neighbour(current, random) for _ in range(effort.batch)])
        barren = 0 if found else barren + 1
        better = min(found, default=(math.inf, current), key=lambda one: one[0])
        failures = 0 if better[0] < current_ms else failures + 1 if found else effort.patience
        if better[0] <= current_ms:
            current_ms, current = better
        if current_ms < best_ms:
            best_ms, best = current_ms, current
        if failures >= effort.patience:
            failures = 0
            if elsewhere:
                current = elsewhere.pop(0)
            else:
                current = best
                for _ in range(random.randint(1, 2 * effort.kick)):
                    current = neighbourhood.neighbour(current, random)
            ask([current])
            current_ms = known[current]
    return Refined(best, best_ms, started, len(known), cut_short)
