"""Wire forms of the ProfileIndex: one measurement a line, and how many there are."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

MAX_TEXT = 16_384
Failed = Literal["timeout", "out_of_memory", "launch", "wrong_result", "crash", "compile"]
"""Why a candidate has no latency. One that a budget left out was never measured, and is no entry
of an index."""


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("has a NUL character, which PostgreSQL does not store")
    return text


Text = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_TEXT), AfterValidator(_storable)
]
Milliseconds = Annotated[
    Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
    Field(description="null for what failed"),
]
Count = Annotated[int, Field(ge=0, lt=1 << 31)]


class ProfileLine(BaseModel):
    """One measurement: a line of an export, and of the file that ``plait schedule`` keeps.

    ``workers.measure.profile_lines`` reads and writes the same. The fields after ``version`` are
    the key: what was measured (``signature``), under which thread counts and the like
    (``context``), on which device, with whose kernels.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    device_fingerprint: Text
    provider: Text
    context: Text
    signature: Text
    latency_ms: Milliseconds
    low_ms: Milliseconds
    high_ms: Milliseconds
    samples: Count
    outliers: Count
    simulated: bool
    failure: Failed | None
    reason: Annotated[str, AfterValidator(_storable)] | None

    @model_validator(mode="after")
    def _is_a_measurement(self) -> Self:
        given = (self.low_ms, self.latency_ms, self.high_ms)
        if self.failure is not None:
            if any(ms is not None for ms in given):
                raise ValueError("what failed has no latency")
            return self
        known = [ms for ms in given if ms is not None]
        if len(known) < len(given) or not self.samples:
            raise ValueError("what did not fail has latencies of at least one sample")
        if known != sorted(known):
            raise ValueError("the median lies within its interval: low_ms, latency_ms, high_ms")
        return self


class ProfileSummary(BaseModel):
    """How many measurements there are of one device with one provider's kernels. ``devices`` names
    those that have this fingerprint now; an index is never shared between different ones."""

    device_fingerprint: str
    provider: str
    simulated: bool
    devices: list[str]
    entries: int
    failures: int
    newest_at: datetime


class ProfileImport(BaseModel):
    """``imported`` of the ``lines`` are new; of the others a measurement was known, and stays."""

    lines: int
    imported: int
