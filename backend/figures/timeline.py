"""When each Unit ran on which stream, and how full the device was: a Gantt chart over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plotly.graph_objects import Bar, Figure, Scatter
from pydantic import BaseModel

from backend.figures.schemas import FigureKind, Theme
from backend.figures.steps import Steps, coarsened, mean, moments
from backend.figures.theme import bar_style, empty, layout, milliseconds, translucent

MAX_WAITS = 3
"""Reasons that the hover names; a Unit may have waited for many events, each for almost nothing."""

FEW_STREAMS = 12
"""Up to here each row is called ``stream N``; beyond, by its number, at a height of its own."""

_ROW_PX, _HIGHEST_PX, _WARPS_PX, _FRAME_PX = 15, 720, 130, 130

_HOVER = (
    "<b>%{customdata[0]}</b><br>%{base:.4~f} to %{customdata[1]:.4~f} ms (%{x:.4~f} ms)"
    "%{customdata[2]}<extra>%{fullData.name}</extra>"
)


class Wait(BaseModel):
    """Why a Unit that could have run did not, and for how long."""

    reason: str
    ms: float


class UnitSpan(BaseModel):
    """One Unit's run, in ms from the start of the Plan; the longest wait first."""

    unit: str
    kind: str
    stream: int
    start_ms: float
    end_ms: float
    waited: tuple[Wait, ...] = ()


def timeline(
    spans: Sequence[UnitSpan],
    caption: str,
    simulated: bool,
    theme: Theme,
    resident_warps: Steps = (),
    warp_capacity: int | None = None,
) -> Figure:
    """One row per stream and one trace per kind of Unit, however many Units there are. Below, on
    the same axis of time, the resident warps (IOS, Figure 8) of a device that has any, with their
    mean, of ``warp_capacity`` where it is known."""
    if not spans:
        return Figure(layout=empty(theme, FigureKind.TIMELINE, "no timeline yet"))
    kinds = sorted({span.kind for span in spans})
    traces: list[Bar | Scatter] = [
        _bars(kind, bar_style(position, theme), [span for span in spans if span.kind == kind])
        for position, kind in enumerate(kinds)
    ]
    streams = sorted({span.stream for span in spans})
    axes = _axes(streams, f"{milliseconds('time', simulated)}, {caption}")
    height = _height(len(streams), has_warps=bool(resident_warps))
    if resident_warps:
        end = max(span.end_ms for span in spans)
        traces.append(_warps(resident_warps, end, theme))
        axes = _above_warps(axes, _mean_words(resident_warps, end, warp_capacity), simulated)
    return Figure(
        traces,
        layout(
            theme,
            FigureKind.TIMELINE,
            margin={"l": 88, "r": 24, "t": 40, "b": 56},
            barmode="overlay",
            bargap=0.25,
            **axes,
            **({} if height is None else {"height": height}),
        ),
    )


def _axes(streams: Sequence[int], time_title: str) -> dict[str, Any]:
    rows = [_row(stream) for stream in streams]
    vertical: dict[str, Any] = {
        "type": "category",
        "autorange": "reversed",
        "ticklabelstandoff": 6,
        "categoryorder": "array",
        "categoryarray": rows,
    }
    if len(streams) > FEW_STREAMS:
        # Plotly would leave out every other row's label.
        vertical |= {
            "title": {"text": "stream"},
            "tickvals": rows,
            "ticktext": [str(stream) for stream in streams],
            "tickfont": {"size": 10},
        }
    return {"xaxis": {"title": {"text": time_title}, "rangemode": "tozero"}, "yaxis": vertical}


def _above_warps(axes: dict[str, Any], mean_words: str, simulated: bool) -> dict[str, Any]:
    """The same axes, with room below for the steps."""
    source = "simulated" if simulated else "estimated from occupancy"
    return {
        "xaxis": {**axes["xaxis"], "anchor": "y2"},
        "yaxis": {**axes["yaxis"], "domain": [0.36, 1.0]},
        "yaxis2": {"title": {"text": "warps"}, "domain": [0.0, 0.27], "rangemode": "tozero"},
        "annotations": [
            {
                "text": f"resident warps, {source}: {mean_words}",
                "showarrow": False,
                "font": {"size": 12},
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "xanchor": "left",
                "y": 0.28,
                "yanchor": "bottom",
            }
        ],
    }


def _height(rows: int, has_warps: bool) -> int | None:
    """Pixels where the usual height is too little, else None."""
    if rows <= FEW_STREAMS and not has_warps:
        return None
    gantt = max(rows, FEW_STREAMS) * _ROW_PX
    return min(gantt + (_WARPS_PX if has_warps else 0) + _FRAME_PX, _HIGHEST_PX)


def _bars(kind: str, style: dict[str, Any], spans: Sequence[UnitSpan]) -> Bar:
    return Bar(
        name=kind,
        orientation="h",
        y=[_row(span.stream) for span in spans],
        base=[round(span.start_ms, 4) for span in spans],
        x=[round(span.end_ms - span.start_ms, 4) for span in spans],
        customdata=[[span.unit, round(span.end_ms, 4), _wait_words(span.waited)] for span in spans],
        hovertemplate=_HOVER,
        marker={"line": {"width": 0}, **style},
    )


def _wait_words(waited: Sequence[Wait]) -> str:
    """Lines for the hover, the longest wait first; nothing for a Unit that did not wait."""
    ordered = sorted(waited, key=lambda wait: -wait.ms)
    lines = [f"waited {wait.ms:.4g} ms for {wait.reason}" for wait in ordered[:MAX_WAITS]]
    rest = ordered[MAX_WAITS:]
    if rest:
        lines.append(f"and {sum(wait.ms for wait in rest):.4g} ms for {len(rest)} more")
    return "".join(f"<br>{line}" for line in lines)


def _warps(steps: Steps, end_ms: float, theme: Theme) -> Scatter:
    times, warps = moments(coarsened(steps, end_ms), end_ms)
    line, fill = translucent(theme)
    return Scatter(
        name="resident warps",
        x=times,
        y=warps,
        yaxis="y2",
        mode="lines",
        line={"shape": "hv", "width": 1, "color": line},
        fill="tozeroy",
        fillcolor=fill,
        hovertemplate="%{y:,.0f} warps from %{x:.4~f} ms<extra></extra>",
        showlegend=False,
    )


def _mean_words(steps: Steps, end_ms: float, capacity: int | None) -> str:
    average = mean(steps, end_ms)
    if not capacity:
        return f"mean {average:,.0f}"
    return f"mean {average:,.0f} of {capacity:,} ({average / capacity:.0%})"


def _row(stream: int) -> str:
    return f"stream {stream}"
