"""The ProfileIndex in PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import ProfileEntry
from workers.measure.measurement import Failure, Measurement
from workers.measure.profile_lines import Entry, ProfileKey

_AT_ONCE = 4096
"""Keys that one query asks for; it may have 65,535 parameters, and a key is four."""


class DatabaseIndex:
    """Every measurement ever taken on a device, shared by all jobs and users of that device."""

    def __init__(self, sessions: sessionmaker[Session], job_id: UUID | None = None) -> None:
        self._sessions, self._job_id = sessions, job_id

    def lookup(self, keys: Sequence[ProfileKey]) -> dict[ProfileKey, Measurement]:
        """The known ones among ``keys``."""
        columns = (
            ProfileEntry.device_fingerprint,
            ProfileEntry.provider,
            ProfileEntry.context,
            ProfileEntry.signature,
        )
        wanted = [(k.device_fingerprint, k.provider, k.context, k.signature) for k in keys]
        found: dict[ProfileKey, Measurement] = {}
        with self._sessions() as session:
            for first in range(0, len(wanted), _AT_ONCE):
                some = tuple_(*columns).in_(wanted[first : first + _AT_ONCE])
                for row in session.scalars(select(ProfileEntry).where(some)):
                    found[_key(row)] = _measurement(row)
        return found

    def entries(self, device_fingerprint: str | None = None) -> Iterator[Entry]:
        """All of them, or those of one device, in the order in which they were measured."""
        query = select(ProfileEntry).order_by(ProfileEntry.id)
        if device_fingerprint is not None:
            query = query.where(ProfileEntry.device_fingerprint == device_fingerprint)
        with self._sessions() as session:
            for row in session.scalars(query.execution_options(yield_per=1000)):
                yield _key(row), _measurement(row)

    def record(self, entries: Mapping[ProfileKey, Measurement]) -> None:
        """Store new measurements; the first one of a key stays."""
        if not entries:
            return
        rows = [
            {
                "device_fingerprint": key.device_fingerprint,
                "provider": key.provider,
                "context": key.context,
                "signature": key.signature,
                "latency_ms": _finite(measured.latency_ms),
                "low_ms": _finite(measured.low_ms),
                "high_ms": _finite(measured.high_ms),
                "samples": measured.samples,
                "outliers": measured.outliers,
                "simulated": measured.simulated,
                "failure": measured.failure.value if measured.failure else None,
                "reason": measured.reason,
                "job_id": self._job_id,
            }
            for key, measured in entries.items()
        ]
        with self._sessions() as session, session.begin():
            # Rows apart from the statement, which is then compiled once and for all of them.
            session.execute(insert(ProfileEntry).on_conflict_do_nothing(), rows)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _key(row: ProfileEntry) -> ProfileKey:
    return ProfileKey(
        device_fingerprint=row.device_fingerprint,
        provider=row.provider,
        context=row.context,
        signature=row.signature,
    )


def _measurement(row: ProfileEntry) -> Measurement:
    return Measurement(
        latency_ms=_infinite(row.latency_ms),
        low_ms=_infinite(row.low_ms),
        high_ms=_infinite(row.high_ms),
        samples=row.samples,
        outliers=row.outliers,
        simulated=row.simulated,
        failure=Failure(row.failure) if row.failure else None,
        reason=row.reason,
    )
