"""The sweep: settle jobs whose lease ran out and say which devices have work waiting."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Device, Job, JobEvent
from backend.jobs.states import ACTIVE, JobState
from workers.runner.store import Announce, settle

# A device unseen for longer gets no more doorbells, so that its queue does not grow for ever.
DEVICE_MEMORY = timedelta(hours=1)


def settle_expired(sessions: sessionmaker[Session], announce: Announce, max_attempts: int) -> int:
    """Settle every active job whose lease has expired; returns how many. Each in its own
    transaction, so that one bad row does not hold up the rest."""
    settled = 0
    while True:
        events: list[JobEvent] = []
        with sessions(expire_on_commit=False) as session, session.begin():
            job = session.scalars(
                select(Job)
                .where(Job.state.in_([*ACTIVE]), Job.lease_expires_at < func.now())
                .order_by(Job.lease_expires_at)
                .limit(1)
                .with_for_update(skip_locked=True)
            ).one_or_none()
            if job is None:
                return settled
            events = settle(job, max_attempts, f"worker {job.worker} stopped answering")
            session.add_all(events)
        for event in events:
            announce(event)
        settled += 1


def devices_to_ring(sessions: sessionmaker[Session]) -> list[str]:
    """Devices seen lately, and those with queued jobs: a doorbell to each replaces any that was
    lost and, because its worker answers by recording progress, proves that it still consumes."""
    with sessions() as session:
        seen = select(Device.name).where(Device.last_progress_at > func.now() - DEVICE_MEMORY)
        queued = select(Job.device).where(Job.state == JobState.QUEUED)
        return sorted(session.scalars(seen.union(queued)))
