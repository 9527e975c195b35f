"""What a model expects of a part's schedules, and which of its options are worth measuring.

For every unmeasured option the dynamic program says how fast the best schedule with it would be,
with measured latencies where there are any and expected ones elsewhere. What is uncertain is given
the chance to be good: some standard deviations are taken off, more of them for the option itself
than for the others of its schedule, which are not all lucky at once. No expectation is below the
floor of its option. Expectations are corrected by ``resemblance`` where that has not proven poor
(``track_record``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.schedulers.ios.facts import LEAST_MS, PartFacts
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.paths import Latencies, around_stages, costs, costs_to_go
from workers.schedulers.ios.resemblance import Resemblance
from workers.schedulers.ios.space import Space
from workers.schedulers.ios.track_record import Forecast

TOLERANCE = 0.002
"""A schedule that may be faster by this part is not looked for: measurements scatter by more."""

OPTIMISM, OPTIMISM_AROUND = 2.0, 0.5
"""By how many standard deviations an unmeasured option is taken to be faster than expected, and the
others of its schedule. With 1.0 in place of 2.0, five blocks of NASNet-A-Large (four seeds each, on
a simulated V100) were searched to 0.7 % of the optimum on average, not 0.4 %, and to 3 % at worst,
not 1.6 %, with 79 measurements in place of 130."""

_LEAST_DEVIATION = 0.01
"""Of what is expected: no model is better than that."""

_RESEMBLED, _RESEMBLING = 250, 6_000
"""Measured options that errors are carried over from, and unmeasured ones to: those on the best
paths. More would make a look at RandWire's largest block take longer than 0.3 s."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Of one part: what the model expects of its best schedule, in ms, what to measure, and what is
    expected of that with corrections and without, as far as there are any."""

    expected: float
    wanted: tuple[int, ...]
    forecast: Forecast | None = None


def look(
    known: Knowledge,
    facts: PartFacts,
    expected: Latencies,
    deviation: float,
    count: int,
    hopeful: bool,
    corrected: bool = True,
) -> Outlook:
    """Where a part stands, given what a model expects of its options and how far it is off by root
    mean square. At most ``count`` options are wanted. If ``hopeful``, all of a schedule may be as
    lucky as the option itself once nothing else is left to hope for. If ``corrected``, they are
    chosen by what resemblance makes of the expectations; if not, that is only forecast."""
    space, stage, unmeasured = known.part.space, known.options.stage, known.unmeasured()
    best = known.standing.best.latency_ms
    if not unmeasured.any():
        return Outlook(best, ())
    floor = known.floors.of_options()
    mean = np.where(unmeasured, np.maximum(expected, floor), known.latencies)
    scatter = np.where(unmeasured, max(deviation, _LEAST_DEVIATION), 0.0)
    least = np.where(unmeasured, floor, 0.0)

    def hoped(deviations: float) -> Latencies:
        latencies: Latencies = np.maximum(mean * np.exp(-deviations * scatter), least)
        return latencies

    failed = np.isinf(known.latencies)
    through = _around(space, stage, hoped(OPTIMISM)) + np.where(failed, expected, hoped(OPTIMISM))
    near = _first(through, unmeasured & (through < best), _RESEMBLING)
    like = _first(through, ~unmeasured & facts.of_several, _RESEMBLED)
    plain, resembling = (mean, scatter), (mean, scatter)
    if len(near) and len(like):
        off, deviations = _resemblance(known, facts, expected, like, near)
        resembling = mean.copy(), scatter.copy()
        resembling[0][near] = np.maximum(expected[near] * np.exp(off), floor[near])
        resembling[1][near] = np.maximum(deviations, _LEAST_DEVIATION)
        if corrected:
            mean, scatter = resembling
    likely = min(best, float(costs(space, _of_stages(space, stage, mean))[-1]))
    for around in (OPTIMISM_AROUND, OPTIMISM) if hopeful else (OPTIMISM_AROUND,):
        through = _around(space, stage, hoped(around)) + hoped(OPTIMISM)
        wanted = _first(through, unmeasured & (through < best * (1 - TOLERANCE)), count)
        if len(wanted):
            break
    told = np.intersect1d(wanted, near) if len(like) else near[:0]
    forecast = Forecast(
        told,
        (np.log(plain[0][told]), plain[1][told]),
        (np.log(resembling[0][told]), resembling[1][told]),
    )
    return Outlook(likely, tuple(wanted.tolist()), forecast)


def _resemblance(
    known: Knowledge,
    facts: PartFacts,
    expected: Latencies,
    like: NDArray[np.intp],
    near: NDArray[np.intp],
) -> tuple[Latencies, Latencies]:
    """Mean and standard deviation of the relative errors of options ``near``, by the errors of the
    measured options ``like``."""
    stage, weights = known.options.stage, facts.alone[0][:, None]
    # What failed has to be run one by one instead; what resembles it may have to, too.
    one_by_one = (facts.groups.units[:, stage[like]] * weights).sum(axis=0)
    took = np.where(np.isinf(known.latencies[like]), one_by_one, known.latencies[like])
    errors = np.log(np.maximum(took, LEAST_MS) / expected[like])
    return Resemblance(
        (facts.groups.units[:, stage[like]] * weights).T, facts.kind[like], errors
    ).expected((facts.groups.units[:, stage[near]] * weights).T, facts.kind[near])


def _around(space: Space, stage: NDArray[np.int32], latencies: Latencies) -> Latencies:
    """For every option the length of the best path with it, without itself."""
    fastest = _of_stages(space, stage, latencies)
    around = around_stages(space, costs(space, fastest), costs_to_go(space, fastest))
    return around[stage]


def _of_stages(space: Space, stage: NDArray[np.int32], latencies: Latencies) -> Latencies:
    """For every stage the least latency of its options."""
    fastest = np.full(len(space.stages), math.inf)
    np.minimum.at(fastest, stage, latencies)
    return fastest


def _first(order: Latencies, chosen: NDArray[np.bool_], count: int) -> NDArray[np.intp]:
    """At most ``count`` of the chosen, the least by ``order`` first, equal ones as they come."""
    found = np.flatnonzero(chosen)
    return found[np.argsort(order[found], kind="stable")[:count]]
