"""What won and why, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from workers.graph.graph import Graph
from workers.hardware.roofline import Roofline
from workers.measure.run_facts import RunFacts

FloorName = Literal["critical path", "arithmetic", "memory"]

_IN_WORDS: Mapping[FloorName, str] = {
    "critical path": "the critical path of the Units measured alone",
    "arithmetic": "all arithmetic at the device's peak",
    "memory": "all bytes at the memory's bandwidth",
}


@dataclass(frozen=True, slots=True)
class Floor:
    """A latency in ms below which a schedule of the Units is not expected. An estimate: kernels
    measured alone have a latency of their own, and values may stay in caches."""

    name: FloorName
    ms: float


def floors(
    graph: Graph,
    roofline: Roofline | None,
    alone_ms: Mapping[str, float] | None,
    fixed_ms: float | None = None,
) -> tuple[Floor, ...]:
    """The floors of a graph: its operations at the peak, its bytes at the bandwidth, and its
    critical path by the latencies of its Units, each ``alone``; of what is given and finite.

    ``fixed_ms`` is the part of a latency alone that a whole run has only once, such as launching: 0
    for durations of kernels. The path is fixed + max Σ (L(u) - fixed). If it is not known, it is
    taken for the latency of the fastest Unit, which it does not exceed. Bytes are those of
    ``Unit.bytes_moved``: each Unit reads and writes all that it needs, from memory.
    """
    found = []
    if alone_ms is not None:
        path = _critical_path_ms(graph, alone_ms, fixed_ms)
        if path is not None:
            found.append(Floor("critical path", path))
    if roofline is not None:
        moved = sum(unit.bytes_moved for unit in graph.units)
        found.append(Floor("arithmetic", graph.flops / roofline.flops_per_s * 1e3))
        found.append(Floor("memory", moved / roofline.bytes_per_s * 1e3))
    return tuple(found)


def _critical_path_ms(
    graph: Graph, alone_ms: Mapping[str, float], fixed_ms: float | None
) -> float | None:
    """None if no Unit has a latency; one that has none counts as nothing."""
    finite = [ms for ms in (alone_ms.get(u.name, math.inf) for u in graph.units) if ms < math.inf]
    if not finite:
        return None
    fixed = min(finite) if fixed_ms is None else fixed_ms
    longest: list[float] = []
    for unit, before in zip(graph.units, graph.predecessors, strict=True):
        alone = alone_ms.get(unit.name, math.inf)
        own = max(0.0, alone - fixed) if alone < math.inf else 0.0
        longest.append(own + max((longest[position] for position in before), default=0.0))
    return fixed + max(longest)


@dataclass(frozen=True, slots=True)
class Contender:
    """A name, a latency in ms, and the facts of a run where there is a timeline: none of what runs
    no Plan, such as ``torch.compile``."""

    name: str
    latency_ms: float
    facts: RunFacts | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The winner beside the baseline. ``speedup`` is that of their comparison, in pairs, and not
    always the quotient of the two latencies. Facts are of one run that was recorded for them, and
    not among those that were timed, unless all is ``simulated``. ``alternative`` is what the user
    has already and is faster than the winner, if anything is."""

    winner: Contender
    baseline: Contender
    speedup: float
    floors: tuple[Floor, ...]
    simulated: bool
    alternative: str | None = None

    @property
    def highest_floor(self) -> Floor | None:
        """The highest of the floors that the winner's latency does not contradict."""
        holding = (floor for floor in self.floors if floor.ms <= self.winner.latency_ms)
        return max(holding, key=lambda floor: floor.ms, default=None)

    @property
    def contradicted(self) -> tuple[Floor, ...]:
        """Floors above the winner's latency, which are none: their estimate is wrong here."""
        return tuple(floor for floor in self.floors if floor.ms > self.winner.latency_ms)

    @property
    def gap(self) -> float | None:
        """The part of the winner's latency that lies above the highest floor."""
        floor = self.highest_floor
        return None if floor is None else 1 - floor.ms / self.winner.latency_ms

    def quiet_ms(self, contender: Contender) -> float | None:
        """Time in which nothing of it ran: between Units, and simulated also before the first one
        reached the device, which a recorded run does not show."""
        if contender.facts is None:
            return None
        before = contender.latency_ms - contender.facts.span_ms if self.simulated else 0.0
        return contender.facts.nothing_ran_ms + max(0.0, before)

    @property
    def sentences(self) -> tuple[str, ...]:
        """At most five, with units."""
        clauses = [self._verdict(), *self._of_runs(), *self._of_floors()]
        return tuple(f"{clause}." for clause in clauses)

    def to_json(self) -> dict[str, Any]:
        """Numbers and words; ``facts`` are null where there is no timeline."""
        return {
            "winner": _contender_json(self.winner),
            "baseline": _contender_json(self.baseline),
            "speedup": self.speedup,
            "floors": [asdict(floor) for floor in self.floors],
            "highest_floor": self.highest_floor.name if self.highest_floor else None,
            "gap": self.gap,
            "quiet_ms": self.quiet_ms(self.winner),
            "baseline_quiet_ms": self.quiet_ms(self.baseline),
            "simulated": self.simulated,
            "sentences": list(self.sentences),
        }

    def _verdict(self) -> str:
        winner, baseline = self.winner, self.baseline
        simulated = " (simulated)" if self.simulated else ""
        takes = f"{winner.name} takes {in_ms(winner.latency_ms)}"
        if winner.name == baseline.name and self.alternative is not None:
            none = "no schedule was proved to be faster than this baseline"
            return f"{takes}{simulated}; {none}, and {self.alternative} is"
        if winner.name == baseline.name:
            return f"{takes}{simulated}; nothing was found to be faster than this baseline"
        than = f"{baseline.name} with {in_ms(baseline.latency_ms)}{simulated}"
        return f"{takes}, {self.speedup:.2f} times as fast as {than}"

    def _of_runs(self) -> list[str]:
        facts, other, name = self.winner.facts, self.baseline.facts, self.baseline.name
        quiet, before = self.quiet_ms(self.winner), self.quiet_ms(self.baseline)
        if facts is None or quiet is None:
            unseen = (
                f"There is no timeline of {self.winner.name}: how much it gains is known, and where"
                " is not"
            )
            if other is None or before is None:
                return [unseen]
            return [unseen, f"With {name} nothing ran for {in_ms(before)}, between Units"]
        run = "the simulated run" if self.simulated else "one recorded run"
        chain = f"In {run} of {in_ms(facts.span_ms)} the chain that ended last has {_chain(facts)}"
        busy = f"On average {facts.overlap:.2f} Units ran at once, and {_idle(facts)}"
        launches = f"For {in_ms(quiet)} nothing ran, because of launches and waits"
        if other is None or before is None or self.winner.name == name:
            return [chain, busy, launches]
        return [
            f"{chain}; with {name} it has {_chain(other)}",
            f"{busy}; with {name} it was {other.overlap:.2f} Units, and {_idle(other)}",
            f"{launches}: {_change(quiet, before)} with {name}",
        ]

    def _of_floors(self) -> list[str]:
        floor, gap, latency = self.highest_floor, self.gap, in_ms(self.winner.latency_ms)
        beyond = " and ".join(
            f"{in_ms(other.ms)} for {_IN_WORDS[other.name]}" for other in self.contradicted
        )
        if floor is None or gap is None:
            if not self.contradicted:
                return []
            return [f"No estimated floor holds: {latency} is less than {beyond}"]
        left = f"Of the {latency}, {in_percent(gap)} is left above the highest floor"
        sentence = f"{left}, {_IN_WORDS[floor.name]}: {in_ms(floor.ms)} (estimate)"
        return [f"{sentence}; it refutes the estimate of {beyond}" if beyond else sentence]


def in_ms(value: float) -> str:
    """Milliseconds with three digits that count."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(6, max(0, digits))}f} ms"


def in_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _units(count: int) -> str:
    return f"{count} Unit{'' if count == 1 else 's'}"


def _chain(facts: RunFacts) -> str:
    return (
        f"{_units(len(facts.chain))}, which run for {in_ms(facts.chain_running_ms)} and wait for"
        f" {in_ms(facts.chain_waiting_ms)}"
    )


def _idle(facts: RunFacts) -> str:
    count, kind = facts.cores or facts.streams, "core" if facts.cores else "stream"
    of = f"its {count} {kind}s" if count != 1 else f"its one {kind}"
    return f"{in_percent(facts.idle_share)} of the time of {of} was idle"


def _change(now: float, before: float) -> str:
    if now <= before:
        return f"{in_ms(before - now)} less than"
    return f"{in_ms(now - before)} more than"


def _contender_json(contender: Contender) -> dict[str, Any]:
    return {
        "name": contender.name,
        "latency_ms": contender.latency_ms,
        "facts": contender.facts.to_json() if contender.facts else None,
    }
