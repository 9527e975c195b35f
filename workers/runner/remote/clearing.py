"""Clearing up after measuring on several hosts."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Job, MeasuringHost, MeasuringOrder
from backend.jobs.states import FINISHED
from backend.storage import Storage
from workers.runner.remote.states import reference_key

HOST_MEMORY = timedelta(hours=1)
"""A host that was not seen for longer is forgotten."""


def forget(sessions: sessionmaker[Session], storage: Storage) -> int:
    """Remove the orders of jobs that have ended, with what was stored for them, and hosts that
    were not seen for long; how many jobs that were. Each job under its row lock, as one that is
    resumed places orders under it, too."""
    cleared = 0
    with sessions() as session, session.begin():
        session.execute(
            delete(MeasuringHost).where(MeasuringHost.seen_at < func.now() - HOST_MEMORY)
        )
    while True:
        with sessions() as session, session.begin():
            job_id = session.scalars(
                select(Job.id)
                .where(
                    Job.state.in_([*FINISHED]),
                    select(MeasuringOrder.id).where(MeasuringOrder.job_id == Job.id).exists(),
                )
                .limit(1)
                .with_for_update(skip_locked=True)
            ).one_or_none()
            if job_id is None:
                return cleared
            reference = MeasuringOrder.form["reference"].astext
            digests = session.scalars(
                select(reference).where(MeasuringOrder.job_id == job_id).distinct()
            )
            for digest in digests:
                storage.delete(reference_key(job_id, digest))
            session.execute(delete(MeasuringOrder).where(MeasuringOrder.job_id == job_id))
        cleared += 1
