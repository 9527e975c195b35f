"""Latency per scheduler, with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence

from plotly.graph_objects import Bar, Figure

from backend.figures.schemas import FigureKind, Theme
from backend.figures.theme import BLUE, GREEN, GREY, empty, ink, layout, milliseconds
from backend.results.schemas import ResultRead

_WINNER, _OTHER, _UNVERIFIED = "winner", "others", "not verified"
_HOVER = (
    "%{x}<br>%{y:.4~g} ms (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})<br>"
    "%{customdata[2]} samples, error at most %{customdata[3]:.2~e}<extra></extra>"
)


def latency(results: Sequence[ResultRead], schedulers: Sequence[str], theme: Theme) -> Figure:
    """One bar per scheduler and batch size, in the order of ``schedulers``; one trace for the
    winners, one for the others, and one for what failed verification."""
    if not results:
        return Figure(layout=empty(theme, FigureKind.LATENCY, "no results yet"))
    ranks = {name: rank for rank, name in enumerate(schedulers)}
    ordered = sorted(
        results, key=lambda r: (r.batch_size, ranks.get(r.scheduler, len(ranks)), r.scheduler)
    )
    several = len({result.batch_size for result in results}) > 1
    traces = []
    for name, shade in ((_WINNER, GREEN), (_OTHER, BLUE[theme]), (_UNVERIFIED, GREY)):
        members = [result for result in ordered if _class_of(result) == name]
        if members:
            traces.append(_bars(name, shade, ink(theme), members, several))
    axis = milliseconds("latency", any(result.simulated for result in results))
    return Figure(
        traces,
        layout(
            theme,
            FigureKind.LATENCY,
            barmode="overlay",
            bargap=0.35,
            xaxis={
                "type": "category",
                "categoryorder": "array",
                "categoryarray": [_label(result, several) for result in ordered],
            },
            yaxis={"title": {"text": axis}, "rangemode": "tozero"},
        ),
    )


def _bars(
    name: str, shade: str, error_shade: str, results: Sequence[ResultRead], several: bool
) -> Bar:
    return Bar(
        name=name,
        x=[_label(result, several) for result in results],
        y=[result.latency_ms for result in results],
        error_y={
            "type": "data",
            "symmetric": False,
            "color": error_shade,
            "thickness": 1.5,
            "array": [round(max(result.high_ms - result.latency_ms, 0.0), 6) for result in results],
            "arrayminus": [
                round(max(result.latency_ms - result.low_ms, 0.0), 6) for result in results
            ],
        },
        customdata=[[r.low_ms, r.high_ms, r.samples, r.max_abs_error] for r in results],
        hovertemplate=_HOVER,
        marker={"color": shade},
    )


def _class_of(result: ResultRead) -> str:
    if not result.verified:
        return _UNVERIFIED
    return _WINNER if result.winner else _OTHER


def _label(result: ResultRead, several: bool) -> str:
    return f"{result.scheduler}<br>batch {result.batch_size}" if several else result.scheduler
