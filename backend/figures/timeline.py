"""When each Unit ran on which stream: a Gantt chart."""

from __future__ import annotations

from collections.abc import Sequence

from plotly.graph_objects import Bar, Figure
from pydantic import BaseModel

from backend.figures.schemas import FigureKind, Theme
from backend.figures.theme import colour, empty, layout, milliseconds

_HOVER = (
    "<b>%{customdata[0]}</b><br>%{base:.4~f} to %{customdata[1]:.4~f} ms (%{x:.4~f} ms)"
    "<extra>%{fullData.name}</extra>"
)


class UnitSpan(BaseModel):
    """One Unit's run, in ms from the start of the Plan."""

    unit: str
    kind: str
    stream: int
    start_ms: float
    end_ms: float


def timeline(spans: Sequence[UnitSpan], caption: str, simulated: bool, theme: Theme) -> Figure:
    """One row per stream and one trace per kind of Unit, however many Units there are."""
    if not spans:
        return Figure(layout=empty(theme, FigureKind.TIMELINE, "no timeline yet"))
    kinds = sorted({span.kind for span in spans})
    traces = [
        _bars(kind, colour(position, theme), [span for span in spans if span.kind == kind])
        for position, kind in enumerate(kinds)
    ]
    return Figure(
        traces,
        layout(
            theme,
            FigureKind.TIMELINE,
            margin={"l": 88, "r": 24, "t": 40, "b": 56},
            barmode="overlay",
            bargap=0.25,
            xaxis={
                "title": {"text": f"{milliseconds('time', simulated)}, {caption}"},
                "rangemode": "tozero",
            },
            yaxis={
                "type": "category",
                "autorange": "reversed",
                "ticklabelstandoff": 6,
                "categoryorder": "array",
                "categoryarray": [_row(s) for s in sorted({span.stream for span in spans})],
            },
        ),
    )


def _bars(kind: str, shade: str, spans: Sequence[UnitSpan]) -> Bar:
    return Bar(
        name=kind,
        orientation="h",
        y=[_row(span.stream) for span in spans],
        base=[round(span.start_ms, 4) for span in spans],
        x=[round(span.end_ms - span.start_ms, 4) for span in spans],
        customdata=[[span.unit, round(span.end_ms, 4)] for span in spans],
        hovertemplate=_HOVER,
        marker={"color": shade, "line": {"width": 0}},
    )


def _row(stream: int) -> str:
    return f"stream {stream}"
