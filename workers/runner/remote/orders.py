"""The job's side: orders for other hosts in the database, and their answers from it."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from pydantic import ValidationError
from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import MeasuringHost, MeasuringOrder
from backend.storage import Storage
from workers.measure.parallel.hosts import Answer, Collected, Order, RemoteDevice
from workers.measure.parallel.subject import Subject
from workers.runner.remote.forms import (
    AnswerForm,
    EffortForm,
    KernelForm,
    capabilities,
    digest_of,
    portable,
)
from workers.runner.remote.states import OrderState, reference_key
from workers.runner.store import JobStore
from workers.tuning.kernels.arguments import ProgramArguments
from workers.tuning.kernels.subject import KernelSubject

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""How long an order may wait to be begun once its job has nothing else to do: it is measured
elsewhere sooner than it would be by one that is busy for another job."""

_POLL_S = 0.03


@dataclass
class DatabaseOrders:
    """The orders of one attempt of a job; see ``Orders``. They are placed under the job's row lock,
    so that no attempt but the latest has any that are measured. Raises LeaseLostError.

    ``fingerprint`` is that of the job's own device: latencies of others cannot be compared with its
    own. ``ring`` is told the names of devices that have something to do.
    """

    store: JobStore
    sessions: sessionmaker[Session]
    storage: Storage
    fingerprint: str
    lease_s: float
    ring: Callable[[str], None]
    patience_s: float = PATIENCE_S
    _stored: dict[Path, str] = field(default_factory=dict, init=False)

    def devices(self) -> list[RemoteDevice]:
        with self.sessions() as session:
            hosts = session.scalars(
                select(MeasuringHost).where(
                    MeasuringHost.fingerprint == self.fingerprint,
                    MeasuringHost.seen_at > func.now() - timedelta(seconds=self.lease_s),
                )
            ).all()
        return [
            RemoteDevice(host.name, host.worker)
            for host in hosts
            if host.capabilities == self._capabilities
        ]

    def accepts(self, subject: Subject) -> bool:
        return portable(subject)

    def place(self, orders: Sequence[Order]) -> list[int]:
        batches: dict[str, UUID] = defaultdict(uuid4)
        subjects = [_kernel(order.subject) for order in orders]
        with self.store.locked() as (session, job, _):
            # Under the lock, so that what clears up after an ended job does not meet this.
            references = [self._reference(job.id, subject) for subject in subjects]
            rows = [
                MeasuringOrder(
                    job_id=job.id,
                    fence=job.fence,
                    batch=batches[order.device.name],
                    host=order.device.name,
                    worker=order.device.worker,
                    form=KernelForm.of(subject, digest_of(subject.library), reference).model_dump(),
                    library=subject.library.read_bytes(),
                    effort=EffortForm.of(order.effort).model_dump(),
                    degree=order.degree,
                    timeout_s=order.timeout_s,
                    state=OrderState.WAITING,
                )
                for order, subject, reference in zip(orders, subjects, references, strict=True)
            ]
            session.add_all(rows)
            session.flush()
            tickets = [row.id for row in rows]
        for name in batches:
            self.ring(name)
        return tickets

    def collect(self, tickets: Collection[int], timeout_s: float) -> Collected:
        deadline = time.monotonic() + timeout_s
        while True:
            found = self._look(tickets)
            if found.answers or found.lost or time.monotonic() >= deadline:
                return found
            time.sleep(_POLL_S)

    def give_up(self, tickets: Collection[int]) -> None:
        with self.sessions() as session, session.begin():
            session.execute(
                update(MeasuringOrder)
                .where(
                    MeasuringOrder.id.in_(tickets),
                    MeasuringOrder.state.in_([OrderState.WAITING, OrderState.CLAIMED]),
                )
                .values(state=OrderState.WITHDRAWN, library=None)
            )

    @cached_property
    def _capabilities(self) -> dict[str, Any]:
        return capabilities()

    def _look(self, tickets: Collection[int]) -> Collected:
        order, now = MeasuringOrder, func.clock_timestamp()
        ended = or_(
            order.state.in_([OrderState.DONE, OrderState.REFUSED]),
            and_(order.state == OrderState.CLAIMED, order.lease_expires_at < now),
            and_(
                order.state == OrderState.WAITING,
                order.created_at < now - timedelta(seconds=self.patience_s),
            ),
        )
        claimed_for = func.extract("epoch", now - order.claimed_at)
        with self.sessions() as session:
            rows = session.execute(
                select(order.id, order.state, order.outcome, claimed_for).where(
                    order.id.in_(tickets), ended
                )
            ).all()
        seen = time.monotonic()
        answers, lost = [], set()
        for ticket, state, outcome, age in rows:
            answer = None
            if state == OrderState.DONE:
                answer = _answer(ticket, outcome, seen - float(age))
            if answer is None:
                logger.warning("order %s was lost while it was %s: %s", ticket, state, outcome)
                lost.add(ticket)
            else:
                answers.append(answer)
        return Collected(tuple(answers), frozenset(lost))

    def _reference(self, job_id: UUID, subject: KernelSubject) -> str:
        """The digest of what the kernel should compute, which is in storage once for a job."""
        path = _arguments(subject).file
        if path not in self._stored:
            digest = digest_of(path)
            key = reference_key(job_id, digest)
            try:
                self.storage.size(key)
            except FileNotFoundError:
                self.storage.put(path, key)
            self._stored[path] = digest
        return self._stored[path]


def _answer(ticket: int, outcome: Any, claimed_s: float) -> Answer | None:
    try:
        return AnswerForm.model_validate(outcome).answer(ticket, claimed_s)
    except ValidationError as error:
        logger.warning("the answer to order %s cannot be read: %s", ticket, error)
        return None


def _kernel(subject: Subject) -> KernelSubject:
    assert isinstance(subject, KernelSubject)  # noqa: S101  # as it was accepted
    return subject


def _arguments(subject: KernelSubject) -> ProgramArguments:
    assert isinstance(subject.arguments, ProgramArguments)  # noqa: S101  # the same
    return subject.arguments
