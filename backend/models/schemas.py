"""Wire form of a zoo model."""

from __future__ import annotations

from pydantic import BaseModel


class ZooModelRead(BaseModel):
    """A model that workers can build by name; ``source`` is what a job's ``model`` names."""

    name: str
    source: str
    devices: list[str]
