"""How a search went: the best schedule against the bound, and how much of the space is settled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plotly.graph_objects import Figure, Scatter

from backend.figures.schemas import FigureKind, Theme
from backend.figures.theme import colour, empty, layout, milliseconds, tinted, translucent
from backend.jobs.schemas import SearchEvent

MAX_POINTS = 400
END = 7
"""The size of the dot in which a line ends, in pixels."""

FOCUS = 1.3
"""Latencies up to this multiple of the best are in view, unless somebody zooms out."""

MARGIN = 1.05
"""So much more than what each search has at last is always in view."""


@dataclass(frozen=True, slots=True)
class Line:
    """A class of lines: its name, in the legend and in the hover, its dash, and its values."""

    name: str
    hover: str
    dash: str
    of: Callable[[SearchEvent], float | None]


BEST = Line("best", "best %{y:.4~r} ms", "solid", lambda event: event.best_ms)
BOUND = Line("proven bound", "proven bound %{y:.4~r} ms", "dash", lambda event: event.bound_ms)
DOUBTFUL_BOUND = replace(BOUND, name="bound, not proven", hover="bound, not proven %{y:.4~r} ms")
LATE_BOUND = replace(
    BOUND, name="bound, proven at the end", hover="bound, proven at the end %{y:.4~r} ms"
)
EXPECTED = Line("expected", "expected %{y:.4~r} ms", "dot", lambda event: event.expected_ms)

# A logarithmic scale has no zero.
COUNTS = {
    "stages": (
        Line("measured", "%{y:,} stages measured", "solid", lambda e: e.stages_measured or None),
        Line("pruned", "%{y:,} stages pruned", "dash", lambda e: e.stages_pruned or None),
        Line("all", "%{y:,} stages in all", "dot", lambda e: e.stages_total or None),
    ),
    "states": (
        Line("visited", "%{y:,} states visited", "solid", lambda e: e.states_visited or None),
        Line("pruned", "%{y:,} states pruned", "dash", lambda e: e.states_pruned or None),
        Line("all", "%{y:,} states in all", "dot", lambda e: e.states or None),
    ),
}


def search(events: Sequence[SearchEvent], simulated: bool, theme: Theme) -> Figure:
    """Above, the best predicted latency over the proven bound, the gap between them shaded, and
    what a model expects; below, stages and states that are settled, of all, on logarithmic scales.

    A colour is a scheduler's, in the order in which they began, and a dash a class of lines, which
    the legends name once. Older events have neither bounds nor states: what they lack is left out.
    """
    if not events:
        return Figure(layout=empty(theme, FigureKind.SEARCH, "no search has begun"))
    names = list(dict.fromkeys(event.scheduler for event in events))
    panels = ["stages", "states"] if any(event.states_visited for event in events) else ["stages"]
    traces = []
    for position, name in enumerate(names):
        own = _thin([event for event in events if event.scheduler == name])
        shade = colour(position, theme)
        traces += _latencies(own, shade, alone=len(names) == 1)
        for number, what in enumerate(panels, start=2):
            traces += [
                _trace(own, line, shade, number, f"{what}, {line.name}") for line in COUNTS[what]
            ]
    drawn = [trace for trace in traces if any(value is not None for value in trace.y)]
    _name_classes_once(drawn)
    return Figure(drawn, _layout(events, panels, simulated, theme))


def _latencies(events: Sequence[SearchEvent], shade: str, alone: bool) -> list[Scatter]:
    """Since a schedule is known. The filling reaches to the trace before, which is the best's."""
    known = [event for event in events if event.best_ms is not None]
    scheduler = events[0].scheduler
    best = _trace(known, BEST, shade, 1, scheduler, name=BEST.name if alone else scheduler)
    bound = _trace(known, _kind_of_bound(events), shade, 1, "bound")
    bound.update(fill="tonexty", fillcolor=tinted(shade))
    expected = _trace(known, EXPECTED, shade, 1, "expected")
    for trace in (best, bound, expected):
        _dot_the_end(trace)
    return [best, bound, expected]


def _dot_the_end(trace: Scatter) -> None:
    """A search that ends by measuring again learns most in its last moment, where a line has no
    length to be seen."""
    if trace.y:
        trace.mode = "lines+markers"
        trace.marker = {
            "size": [0] * (len(trace.y) - 1) + [END],
            "color": trace.line.color,
            "opacity": 1,
            "line": {"width": 0},
        }


def _kind_of_bound(events: Sequence[SearchEvent]) -> Line:
    """What contradicts a bound casts doubt on those before it too. The last one may yet be proven:
    by what was not contradicted, or because everything was measured."""
    if all(event.bound_holds for event in events):
        return BOUND
    return LATE_BOUND if events[-1].bound_holds else DOUBTFUL_BOUND


def _trace(
    events: Sequence[SearchEvent],
    line: Line,
    shade: str,
    number: int,
    group: str,
    name: str | None = None,
) -> Scatter:
    """A line of one scheduler in the panel that has the ``number``-th axis and legend."""
    scheduler = events[0].scheduler if events else ""
    return Scatter(
        name=name or line.name,
        # What is hidden stays hidden in the next figure, although that may have more lines.
        uid=f"{scheduler}, {group}",
        x=[round(event.elapsed_seconds, 3) for event in events],
        y=[_short(line.of(event)) for event in events],
        mode="lines",
        # What an event says holds until the next one, which may be long after.
        line={"color": shade, "dash": line.dash, "shape": "hv"},
        yaxis="y" if number == 1 else f"y{number}",
        legend="legend" if number == 1 else f"legend{number}",
        legendgroup=group,
        hovertemplate=f"{scheduler}: {line.hover}<extra></extra>",
    )


def _name_classes_once(traces: Sequence[Scatter]) -> None:
    """In the legends. A click on a class hides its lines of all schedulers."""
    named: set[str] = set()
    for trace in traces:
        trace.showlegend = trace.legendgroup not in named
        named.add(trace.legendgroup)


def _layout(
    events: Sequence[SearchEvent], panels: Sequence[str], simulated: bool, theme: Theme
) -> dict[str, Any]:
    """The latencies take the upper half; the panels share the rest, each with room for its legend
    above it."""
    known = [event for event in events if event.best_ms is not None]
    made = layout(
        theme,
        FigureKind.SEARCH,
        height=200 + 180 * len(panels),
        hovermode="x unified",
        hoversubplots="axis",
        hoverdistance=-1,  # however far the next event is: a search may think for seconds
        xaxis={
            "title": {"text": "search time (s)"},
            "range": [0, 1.02 * max(event.elapsed_seconds for event in events)],
            "anchor": f"y{len(panels) + 1}",
            "unifiedhovertitle": {"text": "%{x:.1f} s"},
            "spikecolor": translucent(theme)[1],
            "spikethickness": 1,
            "spikedash": "solid",
        },
        yaxis={
            "title": {"text": milliseconds("predicted", simulated)},
            "domain": [0.5, 1.0],
            "autorangeoptions": {"clipmax": _in_view(known)} if known else {},
        },
    )
    most = {
        "stages": max(event.stages_total for event in events),
        "states": max(event.states for event in events),
    }
    room, share = 0.08, 0.5 / len(panels)
    for index, what in enumerate(panels):
        number, top = index + 2, 0.5 - index * share - room
        made[f"yaxis{number}"] = {
            "title": {"text": what},
            "domain": [top + room - share, top],
            "type": "log",
            "range": [-0.2, math.log10(max(most[what], 10)) + 0.2],
            "dtick": 1 if most[what] < 10_000 else 2,
            "tickformat": "~s",
        }
        made[f"legend{number}"] = {**made["legend"], "y": top + 0.005}
    return made


def _in_view(known: Sequence[SearchEvent]) -> float:
    """Up to which latency. The first schedule, one Unit after another, would flatten all that
    follows. What a search ended with may be slower than what it had hoped for, if that was luck."""
    bests = [event.best_ms for event in known if event.best_ms is not None]
    last = {event.scheduler: event.best_ms for event in known}
    return max(FOCUS * min(bests), *(MARGIN * best for best in last.values() if best is not None))


def _short(value: float | None) -> float | None:
    """Six significant digits: more than can be seen, and half of what a float takes. A count stays
    one."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _thin(events: Sequence[SearchEvent]) -> list[SearchEvent]:
    """At most MAX_POINTS of them, evenly, and always the last."""
    step = -(-len(events) // MAX_POINTS)
    return [*events[:-1:step], events[-1]]
