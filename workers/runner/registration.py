"""Telling the database which devices this worker offers, and that it still makes progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from sqlalchemy import func, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Device
from backend.jobs.schemas import AUTO
from workers import schedulers, zoo
from workers.devices.base import DeviceFacts
from workers.graph.importers.catalog import FORMATS
from workers.tuning.programs import catalog
from workers.tuning.tuners.catalog import TUNERS


def capabilities() -> dict[str, Any]:
    """What any device of this worker can be asked for; nothing here imports torch."""
    return {
        "schedulers": [*schedulers.names(), AUTO],
        "zoo": list(zoo.names()),
        "zoo_families": list(zoo.FAMILIES),
        "formats": list(FORMATS),
    }


def kernel_offer() -> dict[str, Any] | None:
    """Which kernels can be tuned here, and how; None where TVM is missing, which is not loaded to
    find out."""
    if find_spec("tvm") is None:
        return None
    workloads = catalog.workloads()
    return {
        "tuners": [
            {"name": name, "title": tuner.title, "description": tuner.description}
            for name, tuner in TUNERS.items()
        ],
        "workloads": [
            {
                "name": name,
                "family": program.family,
                "title": catalog.FAMILIES[program.family].title,
                "sizes": dict(program.sizes),
                "gflops": catalog.flops(program) / 1e9,
            }
            for name, program in workloads.items()
        ],
        "families": {
            name: {
                "title": family.title,
                "sizes": dict(next(iter(family.workloads.values()))),
            }
            for name, family in catalog.FAMILIES.items()
        },
    }


def register(sessions: sessionmaker[Session], worker: str, devices: Iterable[DeviceFacts]) -> None:
    """Insert or refresh the rows of this worker's devices."""
    offered, kernels = capabilities(), kernel_offer()
    with sessions() as session, session.begin():
        for facts in devices:
            fields = {
                "kind": facts.kind,
                "description": facts.description,
                "fingerprint": facts.fingerprint,
                "facts": asdict(facts),
                "capabilities": {
                    **offered,
                    "providers": list(facts.providers),
                    "kernels": None if facts.simulated else kernels,
                },
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
