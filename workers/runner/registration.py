"""Telling the database which devices this worker offers, and that it still makes progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import func, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Device
from backend.jobs.schemas import AUTO
from workers import schedulers, zoo
from workers.devices.base import DeviceFacts
from workers.graph.importers.catalog import FORMATS


def capabilities() -> dict[str, Any]:
    """What any device of this worker can be asked for; nothing here imports torch."""
    return {
        "schedulers": [*schedulers.names(), AUTO],
        "zoo": list(zoo.names()),
        "zoo_families": list(zoo.FAMILIES),
        "formats": list(FORMATS),
    }


def register(sessions: sessionmaker[Session], worker: str, devices: Iterable[DeviceFacts]) -> None:
    """Insert or refresh the rows of this worker's devices."""
    offered = capabilities()
    with sessions() as session, session.begin():
        for facts in devices:
            fields = {
                "kind": facts.kind,
                "description": facts.description,
                "fingerprint": facts.fingerprint,
                "facts": asdict(facts),
                "capabilities": {**offered, "providers": list(facts.providers)},
                "worker": worker,
                "last_progress_at": func.now(),
            }
            session.execute(
                insert(Device)
                .values(name=facts.name, **fields)
                .on_conflict_do_update(index_elements=[Device.name], set_=fields)
            )


def record_progress(sessions: sessionmaker[Session], worker: str, device: str) -> None:
    """Note that ``worker`` took a message for ``device``: what /healthz calls progress."""
    with sessions() as session, session.begin():
        session.execute(
            update(Device)
            .where(Device.name == device)
            .values(worker=worker, last_progress_at=func.now())
        )
