"""What all figures share: colours, fonts, and what is left of Plotly's defaults."""

from __future__ import annotations

from typing import Any

from backend.figures.schemas import Theme

# Okabe and Ito's palette, told apart with any kind of colour vision; black and yellow are left
# out because one of them vanishes on each background, and blue is lighter on the dark one.
ORANGE, GREEN, VERMILION = "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, GREY = "#56B4E9", "#CC79A7", "#8C8C8C"
BLUE = {Theme.LIGHT: "#0072B2", Theme.DARK: "#2F8FD8"}

_INK = {Theme.LIGHT: "#1F2328", Theme.DARK: "#E6EDF3"}
_GRID = {Theme.LIGHT: "rgba(31,35,40,0.12)", Theme.DARK: "rgba(230,237,243,0.16)"}
_PANEL = {Theme.LIGHT: "#FFFFFF", Theme.DARK: "#25262B"}
_AREA = {Theme.LIGHT: "rgba(31,35,40,0.22)", Theme.DARK: "rgba(230,237,243,0.26)"}
_FONT = "system-ui, sans-serif"
_CLEAR = "rgba(0,0,0,0)"
_PATTERNS = ("", "/", "x", ".")


def palette(theme: Theme) -> tuple[str, ...]:
    """Seven colours for classes that have none of their own."""
    return (BLUE[theme], ORANGE, GREEN, VERMILION, SKY, PURPLE, GREY)


def colour(position: int, theme: Theme) -> str:
    """The colour of the class at ``position``; they repeat after seven."""
    colours = palette(theme)
    return colours[position % len(colours)]


def bar_style(position: int, theme: Theme) -> dict[str, Any]:
    """The marker of the class of bars at ``position``: a colour and, once every colour is taken,
    a pattern too, so that no two of the first 28 look alike."""
    pattern = _PATTERNS[position // len(palette(theme)) % len(_PATTERNS)]
    style: dict[str, Any] = {"color": colour(position, theme)}
    if pattern:
        style["pattern"] = {"shape": pattern, "size": 6, "solidity": 0.3, "fillmode": "overlay"}
    return style


def translucent(theme: Theme) -> tuple[str, str]:
    """The line and the filling of an area that is of no class."""
    return _INK[theme], _AREA[theme]


def tinted(shade: str) -> str:
    """The filling of an area that belongs to the class of a line with the colour ``#RRGGBB``."""
    red, green, blue = (int(shade[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.22)"


def ink(theme: Theme) -> str:
    """The colour of text, and of what must stand out from every class."""
    return _INK[theme]


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
        "title": {"standoff": 10, "font": {"size": 13}},
    }
    return {
        "layout": {
            "font": {"family": _FONT, "size": 13, "color": _INK[theme]},
            "paper_bgcolor": _CLEAR,
            "plot_bgcolor": _CLEAR,
            "colorway": list(palette(theme)),
            "hoverlabel": {
                "bgcolor": _PANEL[theme],
                "font": {"color": _INK[theme], "family": _FONT, "size": 12},
            },
            "xaxis": axis,
            "yaxis": axis,
        }
    }
