"""The DP-level history (DOPpler): how many candidates were measured at once, and how well."""

from __future__ import annotations

from collections.abc import Sequence

from plotly.graph_objects import Bar, Figure, Scatter

from backend.figures.schemas import FigureKind, Theme
from backend.figures.theme import GREEN, ORANGE, SKY, VERMILION, empty, ink, layout
from backend.jobs.schemas import RoundEvent


def rounds(history: Sequence[RoundEvent], theme: Theme) -> Figure:
    """Above, the candidates of each round by outcome, with the degree of parallelism; below, the
    mean deviation of what was measured again."""
    if not history:
        return Figure(layout=empty(theme, FigureKind.ROUNDS, "nothing was measured yet"))
    numbers = list(range(1, len(history) + 1))
    whose = [[r.scheduler, r.batch_size, r.number] for r in history]
    hover = "%{customdata[0]}, batch %{customdata[1]}, round %{customdata[2]}: %{y}"
    outcomes = (
        ("measured", SKY, [max(r.candidates - r.failures - r.outliers, 0) for r in history]),
        ("outliers", ORANGE, [r.outliers for r in history]),
        ("failures", VERMILION, [r.failures for r in history]),
    )
    bars = [
        Bar(
            name=name,
            x=numbers,
            y=counts,
            marker={"color": colour},
            customdata=whose,
            hovertemplate=hover,
        )
        for name, colour, counts in outcomes
        if any(counts)
    ]
    parallelism = Scatter(
        name="degree of parallelism",
        x=numbers,
        y=[r.degree_of_parallelism for r in history],
        mode="lines",
        line={"color": ink(theme), "shape": "hvh", "width": 2},
        yaxis="y3",
    )
    deviation = Scatter(
        name="mean deviation",
        x=numbers,
        y=[r.mean_deviation for r in history],
        mode="lines+markers",
        line={"color": GREEN},
        yaxis="y2",
    )
    return Figure(
        [*bars, parallelism, deviation],
        layout(
            theme,
            FigureKind.ROUNDS,
            barmode="stack",
            xaxis={"title": {"text": "round"}, "anchor": "y2"},
            yaxis={"title": {"text": "candidates"}, "domain": [0.4, 1.0]},
            yaxis2={
                "title": {"text": "deviation"},
                "domain": [0.0, 0.3],
                "tickformat": ".0%",
                "range": [0, max(0.1, 1.1 * max(r.mean_deviation for r in history))],
            },
            yaxis3={
                "title": {"text": "at once"},
                "dtick": -(-max(r.degree_of_parallelism for r in history) // 4),  # whole numbers
                "overlaying": "y",
                "side": "right",
                "rangemode": "tozero",
                "showgrid": False,
            },
        ),
    )
