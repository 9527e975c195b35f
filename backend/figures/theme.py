"""What all figures share: colours, fonts, and what is left of Plotly's defaults."""

from __future__ import annotations

from typing import Any

from backend.figures.schemas import Theme

# Okabe and Ito's palette, told apart with any kind of colour vision; black and yellow are left
# out because one of them vanishes on each background.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
PURPLE, ORANGE, SKY = "#CC79A7", "#E69F00", "#56B4E9"
GREY = "#8C8C8C"
PALETTE = (BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, GREY)

_INK = {Theme.LIGHT: "#1F2328", Theme.DARK: "#E6EDF3"}
_GRID = {Theme.LIGHT: "rgba(31,35,40,0.12)", Theme.DARK: "rgba(230,237,243,0.16)"}
_PANEL = {Theme.LIGHT: "#FFFFFF", Theme.DARK: "#25262B"}
_CLEAR = "rgba(0,0,0,0)"


def colour(position: int) -> str:
    """The colour of the class at ``position``; they repeat after seven."""
    return PALETTE[position % len(PALETTE)]


def layout(theme: Theme, kind: str, **specific: Any) -> dict[str, Any]:
    """A layout on a transparent background. Its ``uirevision`` never changes, so that zoom,
    selection and hidden traces survive an update."""
    return {
        "template": _template(theme),
        "uirevision": kind,
        "margin": {"l": 64, "r": 24, "t": 40, "b": 56},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        **specific,
    }


def empty(theme: Theme, kind: str, message: str) -> dict[str, Any]:
    """The layout of a figure that has nothing to show yet, and says so."""
    hidden = {"visible": False}
    words = {"text": message, "showarrow": False, "xref": "paper", "yref": "paper"}
    return layout(theme, kind, xaxis=hidden, yaxis=hidden, annotations=[{**words, "x": 0.5}])


def milliseconds(what: str, simulated: bool) -> str:
    """An axis title with its unit, which says so if the figures were not measured."""
    return f"{what} (ms, simulated)" if simulated else f"{what} (ms)"


def _template(theme: Theme) -> dict[str, Any]:
    axis = {
        "gridcolor": _GRID[theme],
        "linecolor": _GRID[theme],
        "zerolinecolor": _GRID[theme],
        "automargin": True,
        "title": {"standoff": 12},
    }
    return {
        "layout": {
            "font": {"family": "system-ui, sans-serif", "size": 13, "color": _INK[theme]},
            "paper_bgcolor": _CLEAR,
            "plot_bgcolor": _CLEAR,
            "colorway": list(PALETTE),
            "hoverlabel": {"bgcolor": _PANEL[theme], "font": {"color": _INK[theme]}},
            "xaxis": axis,
            "yaxis": axis,
        }
    }
