"""Latency per contender, with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from plotly.graph_objects import Bar, Figure

from backend.figures.schemas import FigureKind, Theme
from backend.figures.theme import BLUE, GREEN, GREY, ORANGE, empty, ink, layout, milliseconds
from backend.results.schemas import ResultRead

FEW = 7
"""Up to so many bars stand upright; the names of more would not fit below them, so those lie."""

_WINNER, _SCHEDULES, _ALTERNATIVES = "winner", "others", "alternatives"
_UNVERIFIED = "not verified"
_ROW_PX, _AROUND_PX = 24, 110
_HOVER = (
    "{name}<br>{latency} ms (%{{customdata[0]:.4~g}} to %{{customdata[1]:.4~g}})<br>"
    "%{{customdata[2]}} samples, error at most %{{customdata[3]:.2~e}}<extra></extra>"
)


def latency(results: Sequence[ResultRead], schedulers: Sequence[str], theme: Theme) -> Figure:
    """One bar per contender and batch size, by place and, where there is none, in the order of
    ``schedulers``; one trace for the winners, one for the other schedules, one for alternatives,
    and one for what failed verification."""
    if not results:
        return Figure(layout=empty(theme, FigureKind.LATENCY, "no results yet"))
    ranks = {name: rank for rank, name in enumerate(schedulers)}

    def position(result: ResultRead) -> tuple[int, float, int, str]:
        place = math.inf if result.place is None else result.place
        rank = ranks.get(result.scheduler, len(ranks))
        return result.batch_size, place, rank, result.scheduler

    ordered = sorted(results, key=position)
    lying = len(ordered) > FEW
    several = len({result.batch_size for result in results}) > 1
    separator = (", " if lying else "<br>") if several else None
    labels = {result.id: _label(result, separator) for result in ordered}
    shades = {
        _WINNER: GREEN,
        _SCHEDULES: BLUE[theme],
        _ALTERNATIVES: ORANGE,
        _UNVERIFIED: GREY,
    }
    traces = []
    for name, shade in shades.items():
        members = [result for result in ordered if _class_of(result) == name]
        if members:
            traces.append(_bars(name, shade, ink(theme), members, labels, lying))
    axis = milliseconds("latency", any(result.simulated for result in results))
    names = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": list(labels.values()),
    }
    latencies = {"title": {"text": axis}, "rangemode": "tozero"}
    return Figure(
        traces,
        layout(
            theme,
            FigureKind.LATENCY,
            barmode="overlay",
            bargap=0.35,
            **(_lying(names, latencies) if lying else {"xaxis": names, "yaxis": latencies}),
        ),
    )


def _lying(names: Mapping[str, Any], latencies: Mapping[str, Any]) -> dict[str, Any]:
    """Axes of lying bars, the first on top, and the height that their names need."""
    rows = len(names["categoryarray"])
    upright = {**names, "autorange": "reversed", "automargin": True, "dtick": 1}
    return {
        "xaxis": dict(latencies),
        "yaxis": {**upright, "ticklabelstandoff": 6},
        "height": rows * _ROW_PX + _AROUND_PX,
    }


def _bars(
    name: str,
    shade: str,
    error_shade: str,
    results: Sequence[ResultRead],
    labels: Mapping[UUID, str],
    lying: bool,
) -> Bar:
    names = [labels[result.id] for result in results]
    values = [result.latency_ms for result in results]
    error = {
        "type": "data",
        "symmetric": False,
        "color": error_shade,
        "thickness": 1.5,
        "array": [round(max(result.high_ms - result.latency_ms, 0.0), 6) for result in results],
        "arrayminus": [round(max(result.latency_ms - result.low_ms, 0.0), 6) for result in results],
    }
    if lying:
        along = {"orientation": "h", "x": values, "y": names, "error_x": error}
        hover = _HOVER.format(name="%{y}", latency="%{x:.4~g}")
    else:
        along = {"x": names, "y": values, "error_y": error}
        hover = _HOVER.format(name="%{x}", latency="%{y:.4~g}")
    return Bar(
        name=name,
        customdata=[[r.low_ms, r.high_ms, r.samples, r.max_abs_error] for r in results],
        hovertemplate=hover,
        marker={"color": shade},
        **along,
    )


def _class_of(result: ResultRead) -> str:
    if not result.verified:
        return _UNVERIFIED
    if result.kind == "alternative":
        return _ALTERNATIVES
    return _WINNER if result.winner else _SCHEDULES


def _label(result: ResultRead, separator: str | None) -> str:
    """The contender and, behind the separator if there is one, its batch size."""
    if separator is None:
        return result.scheduler
    return f"{result.scheduler}{separator}batch {result.batch_size}"
