"""What both sides of an order agree on."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID


class OrderState(StrEnum):
    """``waiting`` for its host, ``claimed`` by it, and then one of three ends: ``done`` with an
    outcome, ``refused`` by a host that cannot measure it, ``withdrawn`` by its job."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"


RING = "workers.measuring_host.ring"
"""The Celery task that wakes a measuring host."""


def host_queue(name: str) -> str:
    """The queue on which the measuring host of that name listens."""
    return f"measuring.{name}"


def reference_key(job_id: UUID, digest: str) -> str:
    """Where a job's reference outputs of this digest are stored."""
    return f"measuring/{job_id}/{digest}.npz"
