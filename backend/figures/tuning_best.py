"""The best latency of each tensor program, over trials or over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from plotly.graph_objects import Figure, Scatter

from backend.figures.schemas import Clock, FigureKind, Theme
from backend.figures.theme import colour, empty, ink, layout, palette
from backend.figures.tuning_rows import Trial, TunedProgram

MOST_PROGRAMS = 12
"""More lines cannot be told apart."""

_HEIGHT, _PER_LINE_PX, _FEW_LINES = 340, 14, 4
"""Each line beyond the first few has a name for which the legend needs room."""

_FEW_TRIALS = 10
"""There are no trials between the first and the second."""

_DASHES = ("solid", "dash")
_AXES = {Clock.TRIALS: "trial", Clock.TIME: "tuning time (s)"}
_WHERE = {Clock.TRIALS: "trial %{x:,}", Clock.TIME: "%{x:,.1f} s"}
_KERNEL = "best kernel, measured alone"


def tuning_best(
    programs: Sequence[TunedProgram],
    trials: Sequence[Trial],
    kernels: Sequence[Trial],
    clock: Clock,
    theme: Theme,
) -> Figure:
    """One line for each program, from its first success on: the best latency that the tuner was
    told so far, over trials or seconds, on a logarithmic scale. Of more than MOST_PROGRAMS those
    that compute most in all are drawn.

    ``trials`` are in order, and may lack those that were no improvement. ``kernels`` are the trials
    of the kernels that tuning chose, with their latencies in isolation, drawn as marks.
    """
    shown = sorted(programs, key=lambda one: -one.weight * one.gflops)[:MOST_PROGRAMS]
    end = max((_at(trial, clock) for trial in trials), default=0.0)
    lines = {}
    for position, program in enumerate(shown):
        own = [trial for trial in trials if trial.program == program.key]
        line = _line(program, position, own, end, clock, theme)
        if line is not None:
            lines[program.key] = line
    if not lines:
        return Figure(layout=empty(theme, FigureKind.TUNING_BEST, "no candidate has a latency yet"))
    chosen = [kernel for kernel in kernels if kernel.program in lines]
    marks = [_marks(chosen, shown, clock, theme)] if chosen else []
    left_out = len(programs) - len(shown)
    return Figure(
        [*lines.values(), *marks],
        layout(
            theme,
            FigureKind.TUNING_BEST,
            height=_HEIGHT + _PER_LINE_PX * max(0, len(lines) - _FEW_LINES),
            hovermode="closest",
            showlegend=True,
            xaxis={
                "title": {"text": f"{_AXES[clock]}{_left_out(left_out)}"},
                "rangemode": "tozero",
                **({"dtick": 1} if clock is Clock.TRIALS and end < _FEW_TRIALS else {}),
                "uirevision": clock.value,  # a zoom over trials says nothing over seconds
            },
            yaxis={
                "title": {"text": "best latency (ms)"},
                **_scale(lines.values(), chosen),
            },
        ),
    )


def _line(
    program: TunedProgram,
    position: int,
    trials: Sequence[Trial],
    end: float,
    clock: Clock,
    theme: Theme,
) -> Scatter | None:
    """The running minimum at each of its falls, and until ``end``; None if all trials failed."""
    places: list[float] = []
    bests: list[float] = []
    numbers: list[int] = []
    best = math.inf
    for trial in trials:
        if trial.latency_ms is not None and trial.latency_ms < best:
            best = trial.latency_ms
            places.append(_at(trial, clock))
            bests.append(_short(best))
            numbers.append(trial.trial)
    if not bests:
        return None
    if places[-1] < end:
        places, bests, numbers = [*places, end], [*bests, bests[-1]], [*numbers, numbers[-1]]
    return Scatter(
        name=program.name,
        uid=program.key,
        x=places,
        y=bests,
        mode="lines+markers",
        marker={"size": 4},
        line={
            "color": colour(position, theme),
            "dash": _DASHES[position // len(palette(theme)) % len(_DASHES)],
            "shape": "hv",
        },
        customdata=numbers,
        hovertemplate=f"<b>{program.name}</b><br>best %{{y:.4~g}} ms, of trial %{{customdata:,}}"
        f"<br>at {_WHERE[clock]}<extra></extra>",
    )


def _marks(
    kernels: Sequence[Trial], shown: Sequence[TunedProgram], clock: Clock, theme: Theme
) -> Scatter:
    places = {program.key: position for position, program in enumerate(shown)}
    return Scatter(
        name=_KERNEL,
        uid=_KERNEL,
        x=[_at(kernel, clock) for kernel in kernels],
        y=[_short(one.latency_ms) for one in kernels if one.latency_ms is not None],
        mode="markers",
        marker={
            "symbol": "diamond",
            "size": 10,
            "color": [colour(places[kernel.program], theme) for kernel in kernels],
            "line": {"width": 1.5, "color": ink(theme)},
        },
        customdata=[[shown[places[kernel.program]].name, kernel.trial] for kernel in kernels],
        hovertemplate="<b>%{customdata[0]}</b><br>%{y:.4~g} ms in isolation"
        "<br>trial %{customdata[1]:,}<extra></extra>",
    )


def _scale(lines: Iterable[Scatter], kernels: Sequence[Trial]) -> dict[str, Any]:
    """A logarithmic axis. Its ticks are at 1, 2 and 5 where few decades are in view, and at every
    digit within less than one: a decade has one of its own."""
    values = [value for line in lines for value in line.y]
    values += [kernel.latency_ms for kernel in kernels if kernel.latency_ms is not None]
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.08 * (high - low), 0.1)
    axis = {"type": "log", "tickformat": "~r", "range": [low - margin, high + margin]}
    if high - low > 2:
        return axis
    return {**axis, "dtick": "D2" if high - low > 0.5 else "D1"}


def _at(trial: Trial, clock: Clock) -> float:
    return trial.trial if clock is Clock.TRIALS else round(trial.seconds, 2)


def _left_out(count: int) -> str:
    if not count:
        return ""
    return (
        f"<br>{count} more {'program' if count == 1 else 'programs'} not drawn: they compute least"
    )


def _short(value: float) -> float:
    """Six significant digits: more than can be seen."""
    return float(f"{value:.6g}")
