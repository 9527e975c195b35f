"""How a search goes, in lines for a terminal. What is not proven never reads as if it were."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from backend.jobs.schemas import SearchEnd, SearchEvent

FIRST_S, SLOWDOWN = 5.0, 1.25
"""A search says where it stands after these seconds, and again each time that they have grown by
this factor, but no sooner than the first."""

ENDINGS: dict[SearchEnd, str] = {
    "complete": "every stage was measured, so nothing in the search space is faster",
    "optimal": "proven optimal: nothing in the search space is faster",
    "gap": "within the gap that was asked for",
    "converged": "nothing better is expected, which is not proven",
    "budget": "the budget was used up",
}
UNPROVEN = "as near to its bound as was asked for, but the bound did not hold: not proven"


@dataclass
class SearchLines:
    """Picks the events that are worth a line: few of a long search, and always its last."""

    simulated: bool
    seen: dict[tuple[str, int], float] = field(default_factory=dict)
    due: dict[tuple[str, int], float] = field(default_factory=dict)

    def line(self, event: SearchEvent) -> str | None:
        """The line for an event; None if it is too soon for another."""
        search, elapsed = (event.scheduler, event.batch_size), event.elapsed_seconds
        if elapsed < self.seen.get(search, 0.0):  # another attempt of the job began anew
            del self.due[search]
        self.seen[search] = elapsed
        if event.ended is None and elapsed < self.due.setdefault(search, FIRST_S):
            return None
        self.due[search] = max(elapsed + FIRST_S, elapsed * SLOWDOWN)
        parts = [f"{elapsed:.0f} s", *_standing(event, self.simulated), self._measured(event)]
        ended = f"; {_ending(event.ended, event.bound_holds)}" if event.ended else ""
        return f"{event.scheduler}, batch {event.batch_size}: {', '.join(parts)}{ended}"

    def _measured(self, event: SearchEvent) -> str:
        said = f"{event.stages_measured:,} of {event.stages_total:,} stages measured"
        # What is computed is the same each time.
        again = event.stages_rechecked and not self.simulated
        return f"{said}, {event.stages_rechecked:,} of them again" if again else said


def _standing(event: SearchEvent, simulated: bool) -> list[str]:
    """The best, what it is within, and what a model expects, as far as that is known."""
    if event.best_ms is None:
        return []
    said = [f"best {_milliseconds(event.best_ms)}{' (simulated)' if simulated else ''}"]
    if event.bound_ms is not None:
        bound = _milliseconds(event.bound_ms)
        gap = max(0.0, 1 - event.bound_ms / event.best_ms) if event.best_ms > 0 else 0.0
        if event.bound_holds:
            said += [f"proven bound {bound}", f"gap {_percent(gap)}"]
        else:
            said += [f"bound {bound} (not proven)", f"gap to it {_percent(gap)}"]
    if event.expected_ms is not None:
        said.append(f"expected {_milliseconds(event.expected_ms)} (not proven)")
    return said


def _milliseconds(value: float) -> str:
    """To four significant digits, as the dashboard has it."""
    decimals = 3 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(max(decimals, 0), 6)}f} ms"


def _percent(share: float) -> str:
    """What is there but rounds to nothing is ``< 0.1 %``, as the dashboard has it."""
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.{0 if share >= 0.1 or share == 0 else 1}f} %"


def _ending(ended: SearchEnd, bound_holds: bool) -> str:
    return UNPROVEN if ended in ("optimal", "gap") and not bound_holds else ENDINGS[ended]
