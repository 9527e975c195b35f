"""Wire forms of a device."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict


class Capabilities(BaseModel):
    """What can be asked of a device."""

    schedulers: list[str] = []
    zoo: list[str] = []
    formats: list[str] = []


class DeviceRead(BaseModel):
    """``online`` means that its worker has made progress lately."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    kind: str
    description: str
    fingerprint: str
    facts: dict[str, Any]
    capabilities: Capabilities
    worker: str
    last_progress_at: datetime
    online: bool
