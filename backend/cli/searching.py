"""How a search goes, in lines for a terminal. What is not proven never reads as if it were."""

from __future__ import annotations

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
    due: dict[tuple[str, int], float] = field(default_factory=dict)

    def line(self, event: SearchEvent) -> str | None:
        """The line for an event; None if it is too soon for another."""
        search = event.scheduler, event.batch_size
        if event.ended is None and event.elapsed_seconds < self.due.get(search, FIRST_S):
            return None
        elapsed = event.elapsed_seconds
        self.due[search] = max(elapsed + FIRST_S, elapsed * SLOWDOWN)
        measured = f"{event.stages_measured:,} of {event.stages_total:,} stages measured"
        parts = [f"{elapsed:.0f} s", *_standing(event, self.simulated), measured]
        ended = f"; {_ending(event.ended, event.bound_holds)}" if event.ended else ""
        return f"{event.scheduler}, batch {event.batch_size}: {', '.join(parts)}{ended}"


def _standing(event: SearchEvent, simulated: bool) -> list[str]:
    """The best, what it is within, and what a model expects, as far as that is known."""
    if event.best_ms is None:
        return []
    said = [f"best {event.best_ms:.3f} ms{' (simulated)' if simulated else ''}"]
    if event.bound_ms is not None and event.bound_holds:
        gap = max(0.0, 1 - event.bound_ms / event.best_ms) if event.best_ms > 0 else 0.0
        said += [f"proven bound {event.bound_ms:.3f} ms", f"gap {gap:.1%}"]
    elif event.bound_ms is not None:
        said.append(f"bound {event.bound_ms:.3f} ms (not proven)")
    if event.expected_ms is not None:
        said.append(f"expected {event.expected_ms:.3f} ms (not proven)")
    return said


def _ending(ended: SearchEnd, bound_holds: bool) -> str:
    return UNPROVEN if ended in ("optimal", "gap") and not bound_holds else ENDINGS[ended]
