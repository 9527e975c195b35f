"""The rounds of a tuning job: how many candidates were measured at once (the DP-level history of
DOPpler), how far that spoiled the measurements, what failed, and how busy the machine was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from plotly.graph_objects import Bar, Figure, Scatter

from backend.figures.schemas import FigureKind, Theme
from backend.figures.theme import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    empty,
    ink,
    layout,
    tinted,
    translucent,
)
from backend.figures.tuning_rows import History, Round

TAU = 0.05
"""REACT's τ (DOPpler, Section 5.1): a greater deviation lowers the degree of parallelism."""

NOTHING = "nothing was measured yet"

_KINDS = {
    "compile": "does not compile",
    "wrong_result": "wrong result",
    "crash": "crash",
    "launch": "launch error",
    "out_of_memory": "out of memory",
    "timeout": "timeout",
}
"""In the order in which they are stacked; a kind that is not here comes after them, in grey."""


def tuning_parallelism(history: History, theme: Theme) -> Figure:
    """The degree of parallelism d_p of each round, in steps; behind it, from where until where the
    round may bring it: down if it is too inaccurate or fails too many, up if not (Eqs. 6 and 7).

    A round is told these bounds by the one before it, so that the band goes one round further. A
    batch's last round has fewer candidates than it might, which the line shows and the band not."""
    if not history.rounds:
        return Figure(layout=empty(theme, FigureKind.TUNING_PARALLELISM, NOTHING))
    degrees = Scatter(
        name="degree of parallelism",
        uid="degree",
        x=_edges(_numbers(history)),
        y=_twice([one.degree_of_parallelism or None for one in history.rounds]),
        mode="lines",
        line={"color": BLUE[theme], "width": 2},
        customdata=_twice([[one.number, one.program, _counted(one)] for one in history.rounds]),
        hovertemplate="round %{customdata[0]:,}: %{y} at once<br>%{customdata[2]}"
        "<br>%{customdata[1]}<extra></extra>",
    )
    highest = max(max(one.degree_of_parallelism, one.upper or 0, 1) for one in history.rounds)
    return Figure(
        [*_band(history, theme), degrees],
        _layout(
            history,
            theme,
            FigureKind.TUNING_PARALLELISM,
            hovermode="closest",
            yaxis={
                "title": {"text": "candidates at once"},
                "range": [0, 1.08 * highest],
                "dtick": -(-highest // 6),  # whole numbers
            },
        ),
    )


def tuning_deviation(history: History, theme: Theme) -> Figure:
    """Above, δ_mean (Eq. 4): how far what was measured again in isolation is from what it was
    beside others; below, how many of each round were outliers, and how many were measured again."""
    if not history.rounds:
        return Figure(layout=empty(theme, FigureKind.TUNING_DEVIATION, NOTHING))
    rounds = history.rounds
    numbers = _numbers(history)
    deviations = [one.delta_mean for one in rounds]
    traces: list[Bar | Scatter] = [
        Scatter(
            name="δ mean",
            uid="delta",
            x=numbers,
            y=[_percent(deviation) for deviation in deviations],
            mode="lines+markers",
            connectgaps=False,
            line={"color": GREEN, "width": 1},
            marker={"size": 5},
            hovertemplate="round %{x:,}: δ mean %{y:.3~g} %<extra></extra>",
        ),
        Scatter(
            name="τ: above it, d_p is lowered",
            uid="tau",
            x=[numbers[0] - 0.5, numbers[-1] + 0.5],
            y=[100 * TAU, 100 * TAU],
            mode="lines",
            line={"color": VERMILION, "dash": "dot", "width": 1.5},
            hoverinfo="skip",
        ),
    ]
    counts = (
        ("re-measured", SKY, [one.remeasured for one in rounds], 0.9),
        ("outliers", ORANGE, [one.outliers for one in rounds], 0.55),
    )
    traces += [
        Bar(
            name=name,
            uid=name,
            x=numbers,
            y=values,
            width=width,
            marker={"color": shade, "line": {"width": 0}},
            yaxis="y2",
            hovertemplate=f"round %{{x:,}}: %{{y}} {name}<extra></extra>",
        )
        for name, shade, values, width in counts
        if any(values) or name == "re-measured"
    ]
    largest = max((deviation for deviation in deviations if deviation is not None), default=0.0)
    return Figure(
        traces,
        _layout(
            history,
            theme,
            FigureKind.TUNING_DEVIATION,
            anchor="y2",
            barmode="overlay",
            yaxis={
                "title": {"text": "δ mean (%)"},
                "domain": [0.46, 1.0],
                "range": [0, 110 * max(largest, 1.5 * TAU)],
            },
            yaxis2={
                "title": {"text": "candidates"},
                "domain": [0.0, 0.34],
                "range": [0, _above([one.remeasured for one in rounds])],
                "dtick": _whole_tick(max(one.remeasured for one in rounds)),
            },
        ),
    )


def tuning_failures(history: History, theme: Theme) -> Figure:
    """Above, the failed candidates of each round, stacked by kind; below, the time that a candidate
    was given (Eq. 2)."""
    if not history.rounds:
        return Figure(layout=empty(theme, FigureKind.TUNING_FAILURES, NOTHING))
    rounds = history.rounds
    numbers = _numbers(history)
    found = {kind for one in rounds for kind, count in one.failures.items() if count}
    kinds = [kind for kind in _KINDS if kind in found] + sorted(found - _KINDS.keys())
    shades = dict(zip(_KINDS, (SKY, PURPLE, VERMILION, ORANGE, GREEN, BLUE[theme]), strict=True))
    bars = [] if kinds else [Bar(name="none failed", uid="none", x=numbers, y=[0] * len(numbers))]
    for kind in kinds:
        name = _KINDS.get(kind, kind.replace("_", " "))
        bars.append(
            Bar(
                name=name,
                uid=kind,
                x=numbers,
                y=[one.failures.get(kind, 0) for one in rounds],
                marker={"color": shades.get(kind, GREY), "line": {"width": 0}},
                customdata=[[one.program] for one in rounds],
                hovertemplate=f"round %{{x:,}}: %{{y}} × {name}<br>%{{customdata[0]}}"
                "<extra></extra>",
            )
        )
    allowed = Scatter(
        name="timeout allowed",
        uid="timeout allowed",
        x=_edges(numbers),
        y=_twice([one.timeout_s or None for one in rounds]),
        mode="lines",
        line={"color": ink(theme), "width": 1.5},
        yaxis="y2",
        customdata=_twice(numbers),
        hovertemplate="round %{customdata:,}: a candidate has %{y:.3~g} s<extra></extra>",
    )
    most = max(sum(one.failures.values()) for one in rounds)
    return Figure(
        [*bars, allowed],
        _layout(
            history,
            theme,
            FigureKind.TUNING_FAILURES,
            anchor="y2",
            barmode="stack",
            bargap=0.15,
            yaxis={
                "title": {"text": "failed"},
                "domain": [0.4, 1.0],
                "range": [0, _above([most])],
                "dtick": _whole_tick(most),
            },
            yaxis2={
                "title": {"text": "timeout (s)"},
                "domain": [0.0, 0.28],
                "range": [0, 1.15 * max(1.0, *(one.timeout_s for one in rounds))],
                "nticks": 4,
            },
        ),
    )


def tuning_cpu(history: History, theme: Theme) -> Figure:
    """How much of the usable cores was busy during each round, with anything."""
    known = [one for one in history.rounds if one.cpu_share is not None]
    if not known:
        words = "the CPU's use is not known" if history.rounds else NOTHING
        return Figure(layout=empty(theme, FigureKind.TUNING_CPU, words))
    share = Scatter(
        name="CPU use",
        uid="cpu",
        x=_edges(_numbers(history)),
        y=_twice([_percent(one.cpu_share) for one in history.rounds]),
        mode="lines",
        line={"color": BLUE[theme], "width": 1.5},
        customdata=_twice(_numbers(history)),
        fill="tozeroy",
        fillcolor=tinted(BLUE[theme]),
        hovertemplate="round %{customdata:,}: %{y:.0f} % of the cores<extra></extra>",
    )
    return Figure(
        [share],
        _layout(
            history,
            theme,
            FigureKind.TUNING_CPU,
            yaxis={"title": {"text": "CPU use (%)"}, "range": [0, 105], "dtick": 25},
        ),
    )


def _band(history: History, theme: Theme) -> list[Scatter]:
    """Two lines with the room between them filled; none of a measurer that has no bounds."""
    told = [(one.number + 1, one.lower, one.upper) for one in history.rounds]
    known = [(x, lower, upper) for x, lower, upper in told if None not in (lower, upper)]
    if not known:
        return []
    places = [x for x, _, _ in known]

    def edge(name: str, values: Sequence[Any], words: str, **fields: Any) -> Scatter:
        return Scatter(
            name=name,
            uid=name,
            legendgroup="bounds",
            x=_edges(places),
            y=_twice(values),
            mode="lines",
            line={"width": 0, "color": translucent(theme)[1]},
            customdata=_twice(places),
            hovertemplate=f"after a {words} round %{{customdata:,}}: %{{y}} at once<extra></extra>",
            **fields,
        )

    return [
        edge("lower bound", [lower for _, lower, _ in known], "bad", showlegend=False),
        edge(
            "bounds",
            [upper for _, _, upper in known],
            "good",
            fill="tonexty",
            fillcolor=translucent(theme)[1],
        ),
    ]


def _layout(
    history: History, theme: Theme, kind: FigureKind, anchor: str = "y", **specific: Any
) -> dict[str, Any]:
    """With rounds across, whole ones, and a line before each that followed a resumption."""
    rounds = history.rounds
    title = "round"
    if history.total > len(rounds):
        title = f"round (the last {len(rounds):,} of {history.total:,})"
    first, last = rounds[0].number, rounds[-1].number
    resumed = [one.number for before, one in pairwise(rounds) if one.session != before.session]
    across: dict[str, Any] = {"title": {"text": title}, "anchor": anchor, "tickformat": ",d"}
    if last - first < 8:
        across["dtick"] = 1
    return layout(
        theme,
        kind,
        showlegend=True,
        xaxis=across,
        shapes=[_resumption(number, theme) for number in resumed],
        annotations=[_resumption_words(number) for number in resumed],
        **specific,
    )


def _resumption(number: int, theme: Theme) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": number - 0.5,
        "x1": number - 0.5,
        "y0": 0,
        "y1": 1,
        "line": {"color": ink(theme), "width": 1, "dash": "dash"},
    }


def _resumption_words(number: int) -> dict[str, Any]:
    return {
        "text": "resumed",
        "showarrow": False,
        "font": {"size": 11},
        "x": number - 0.5,
        "xanchor": "left",
        "yref": "paper",
        "y": 1,
        "yanchor": "top",
    }


def _numbers(history: History) -> list[int]:
    return [one.number for one in history.rounds]


def _edges(numbers: Sequence[int]) -> list[float]:
    """Where the steps of these rounds begin and end: a step is as wide as a bar."""
    return [number + half for number in numbers for half in (-0.5, 0.5)]


def _twice(values: Sequence[Any]) -> list[Any]:
    """The values at ``_edges``."""
    return [value for value in values for _ in range(2)]


def _counted(one: Round) -> str:
    failed = sum(one.failures.values())
    return f"{one.successes} measured" + (f", {failed} failed" if failed else "")


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 3)


def _above(counts: Sequence[int]) -> float:
    return 1.1 * max(1, *counts)


def _whole_tick(most: int) -> int:
    """Between ticks, such that there are at most four and all at whole numbers."""
    return max(1, -(-most // 4))


BY_KIND: Mapping[FigureKind, Callable[[History, Theme], Figure]] = {
    FigureKind.TUNING_PARALLELISM: tuning_parallelism,
    FigureKind.TUNING_DEVIATION: tuning_deviation,
    FigureKind.TUNING_FAILURES: tuning_failures,
    FigureKind.TUNING_CPU: tuning_cpu,
}
