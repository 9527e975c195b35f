"""What each process of a tuning job did when: builds, measurements beside others and alone."""

from __future__ import annotations

from collections.abc import Sequence

from plotly.graph_objects import Bar, Figure

from backend.figures.schemas import FigureKind, Theme
from backend.figures.theme import BLUE, GREEN, GREY, VERMILION, empty, layout
from backend.figures.tuning_rows import Span

_ROW_PX, _AROUND_PX, _LEAST_PX, _MOST_PX = 20, 124, 240, 720
_FAILED = "failed"
_WORDS = {
    "build": "built",
    "parallel": "measured beside others",
    "alone": "measured alone",
}


def tuning_processes(spans: Sequence[Span], rounds: Sequence[int], theme: Theme) -> Figure:
    """The process timeline of the pool (DOPpler, Figure 7) over ``rounds``: a row for each process,
    those that build first, and one trace for each kind of work and for what failed."""
    if not spans:
        return Figure(
            layout=empty(theme, FigureKind.TUNING_PROCESSES, "no process has done anything yet")
        )
    shades = {"build": GREY, "parallel": BLUE[theme], "alone": GREEN, _FAILED: VERMILION}
    rows = list(dict.fromkeys(_row(span) for span in sorted(spans, key=_order)))
    traces = []
    for name, shade in shades.items():
        members = [span for span in spans if _class_of(span) == name]
        if members:
            traces.append(_bars(name, shade, members))
    height = min(max(len(rows) * _ROW_PX + _AROUND_PX, _LEAST_PX), _MOST_PX)
    return Figure(
        traces,
        layout(
            theme,
            FigureKind.TUNING_PROCESSES,
            barmode="overlay",
            bargap=0.25,
            showlegend=True,
            height=height,
            xaxis={"title": {"text": f"tuning time (s), {_rounds(rounds)}"}},
            yaxis={
                "type": "category",
                "autorange": "reversed",
                "categoryorder": "array",
                "categoryarray": rows,
                "ticklabelstandoff": 6,
            },
        ),
    )


def _bars(name: str, shade: str, spans: Sequence[Span]) -> Bar:
    return Bar(
        name=_WORDS.get(name, name),
        uid=name,
        orientation="h",
        y=[_row(span) for span in spans],
        base=[round(span.started_s, 4) for span in spans],
        x=[round(max(span.ended_s - span.started_s, 0.0), 4) for span in spans],
        marker={"color": shade, "line": {"width": 0}},
        customdata=[[span.trial, round(span.ended_s, 4), _what(span)] for span in spans],
        hovertemplate="<b>trial %{customdata[0]:,}</b>: %{customdata[2]}"
        "<br>%{base:.2f} to %{customdata[1]:.2f} s<extra>%{y}</extra>",
    )


def _what(span: Span) -> str:
    words = _WORDS.get(span.kind, span.kind)
    return words if span.failure is None else f"{words}, {span.failure.replace('_', ' ')}"


def _class_of(span: Span) -> str:
    return span.kind if span.failure is None else _FAILED


def _row(span: Span) -> str:
    return f"{'build' if span.kind == 'build' else span.device} {span.process}"


def _order(span: Span) -> tuple[bool, str, int]:
    return span.kind != "build", span.device, span.process


def _rounds(numbers: Sequence[int]) -> str:
    if len(numbers) < 2:
        return f"round {numbers[0]:,}" if numbers else ""
    return f"rounds {min(numbers):,} to {max(numbers):,}"
