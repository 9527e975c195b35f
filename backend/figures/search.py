"""How a search went: what it had measured, and the best schedule it knew, over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plotly.graph_objects import Figure, Scatter

from backend.figures.schemas import FigureKind, Theme
from backend.figures.theme import colour, empty, layout, milliseconds
from backend.jobs.schemas import SearchEvent

MAX_POINTS = 400


def search(events: Sequence[SearchEvent], simulated: bool, theme: Theme) -> Figure:
    """Above, the best predicted latency; below, stages measured of all stages known. Three traces
    per scheduler, in the order in which they began."""
    if not events:
        return Figure(layout=empty(theme, FigureKind.SEARCH, "no search has begun"))
    traces = []
    for position, scheduler in enumerate(dict.fromkeys(event.scheduler for event in events)):
        own = _thin([event for event in events if event.scheduler == scheduler])
        traces += _traces(scheduler, own, colour(position, theme))
    return Figure(
        traces,
        layout(
            theme,
            FigureKind.SEARCH,
            hovermode="x unified",
            xaxis={"title": {"text": "search time (s)"}, "rangemode": "tozero", "anchor": "y2"},
            yaxis={
                "title": {"text": milliseconds("predicted", simulated)},
                "domain": [0.56, 1.0],
            },
            yaxis2={"title": {"text": "stages"}, "domain": [0.0, 0.44], "rangemode": "tozero"},
        ),
    )


def _traces(scheduler: str, events: Sequence[SearchEvent], shade: str) -> list[Scatter]:
    """The upper trace stands for all three in the legend."""
    seconds = [round(event.elapsed_seconds, 3) for event in events]
    common: dict[str, Any] = {
        "x": seconds,
        "legendgroup": scheduler,
        "mode": "lines",
    }
    return [
        Scatter(
            name=scheduler,
            y=[event.best_ms for event in events],
            line={"color": shade, "shape": "hv"},
            **common,
        ),
        Scatter(
            name=f"{scheduler}, measured",
            y=[event.stages_measured for event in events],
            line={"color": shade},
            yaxis="y2",
            showlegend=False,
            **common,
        ),
        Scatter(
            name=f"{scheduler}, known",
            y=[event.stages_total for event in events],
            line={"color": shade, "dash": "dot"},
            yaxis="y2",
            showlegend=False,
            **common,
        ),
    ]


def _thin(events: Sequence[SearchEvent]) -> list[SearchEvent]:
    """At most MAX_POINTS of them, evenly, and always the last."""
    step = -(-len(events) // MAX_POINTS)
    return [*events[:-1:step], events[-1]]
