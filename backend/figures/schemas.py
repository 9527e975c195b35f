"""Wire form of a figure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel


class FigureKind(StrEnum):
    LATENCY = "latency"
    SEARCH = "search"
    ROUNDS = "rounds"
    TIMELINE = "timeline"


class Theme(StrEnum):
    LIGHT = "light"
    DARK = "dark"


class FigureRead(BaseModel):
    """A Plotly figure, ready for ``Plotly.react(element, data, layout)``."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
