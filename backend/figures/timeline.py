"""When each Unit ran on which stream, and how full the device was: a Gantt chart over steps."""

from __future__ import annotations

import re
from collections import defaultdict
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

_ROW_PX, _MOST_ROWS_PX, _FEW_ROWS_PX = 15, 600, 180
_WARPS_PX, _GAP_PX = 100, 56
_TOP_PX, _BOTTOM_PX = 40, 84
"""Heights of a row, of all rows, of the warps and what is above, between and below, in pixels."""

_OF_UNIT = re.compile(r" of unit '[^']*'")
"""What makes a reason one Unit's own: ``event of unit 'conv1'``."""

_HOVER = (
    "<b>%{customdata[0]}</b><br>%{base:.4~f} to %{customdata[1]:.4~f} ms (%{customdata[2]:.4~f} ms)"
    "%{customdata[3]}<extra>%{fullData.name}</extra>"
)
"""``%{x}`` would be where the bar ends, not how long it is."""


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
    axes = _axes(streams, f"{milliseconds('time', simulated)}<br>{caption}{_totals(spans)}")
    rows_px = min(len(streams) * _ROW_PX, _MOST_ROWS_PX) if len(streams) > FEW_STREAMS else None
    if resident_warps:
        end = max(span.end_ms for span in spans)
        traces.append(_warps(resident_warps, end, theme))
        words = _mean_words(resident_warps, end, warp_capacity, simulated)
        rows_px = rows_px or _FEW_ROWS_PX
        axes = _above_warps(axes, rows_px, words)
        rows_px += _GAP_PX + _WARPS_PX
    return Figure(
        traces,
        layout(
            theme,
            FigureKind.TIMELINE,
            margin={"l": 88, "r": 24, "t": _TOP_PX, "b": _BOTTOM_PX},
            barmode="overlay",
            bargap=0.25,
            **axes,
            **({"height": rows_px + _TOP_PX + _BOTTOM_PX} if rows_px else {}),
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


def _above_warps(axes: dict[str, Any], rows_px: int, words: str) -> dict[str, Any]:
    """The same axes, with room below the rows for the steps and ``words`` over them."""
    whole = rows_px + _GAP_PX + _WARPS_PX
    top = _WARPS_PX / whole
    return {
        "xaxis": {**axes["xaxis"], "anchor": "y2"},
        "yaxis": {**axes["yaxis"], "domain": [1 - rows_px / whole, 1.0]},
        "yaxis2": {"title": {"text": "warps"}, "domain": [0.0, top], "rangemode": "tozero"},
        "annotations": [
            {
                "text": words,
                "showarrow": False,
                "font": {"size": 12},
                "xref": "paper",
                "yref": "paper",
                "x": 1,
                "xanchor": "right",
                "y": top,
                "yanchor": "bottom",
                "yshift": 4,
            }
        ],
    }


def _bars(kind: str, style: dict[str, Any], spans: Sequence[UnitSpan]) -> Bar:
    lengths = [round(span.end_ms - span.start_ms, 4) for span in spans]
    return Bar(
        name=kind,
        orientation="h",
        y=[_row(span.stream) for span in spans],
        base=[round(span.start_ms, 4) for span in spans],
        x=lengths,
        customdata=[
            [span.unit, round(span.end_ms, 4), length, _wait_words(span.waited)]
            for span, length in zip(spans, lengths, strict=True)
        ],
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


def _totals(spans: Sequence[UnitSpan]) -> str:
    """A line on what all Units together waited for, or nothing where no device has said so."""
    totals: defaultdict[str, float] = defaultdict(float)
    for span in spans:
        for wait in span.waited:
            totals[_OF_UNIT.sub("", wait.reason)] += wait.ms
    if not totals:
        return ""
    longest = sorted(totals.items(), key=lambda item: -item[1])[:MAX_WAITS]
    parts = [f"{reason} {ms:.2g}" for reason, ms in longest]
    return f"<br>waits (ms): {', '.join(parts)}{' ...' if len(totals) > MAX_WAITS else ''}"


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


def _mean_words(steps: Steps, end_ms: float, capacity: int | None, simulated: bool) -> str:
    average = mean(steps, end_ms)
    of = f" of {capacity:,} ({average / capacity:.0%})" if capacity else ""
    kind = "simulated" if simulated else "estimated"
    return f"{kind} resident warps: mean {average:,.0f}{of}"


def _row(stream: int) -> str:
    return f"stream {stream}"
