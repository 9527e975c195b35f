"""The measuring host's side of the database: it says that it is there, claims orders and answers
them. Nothing is written to an order that it does not hold any more."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Job, MeasuringHost, MeasuringOrder
from workers.devices.base import DeviceFacts
from workers.measure.parallel.hosts import RemoteDevice
from workers.runner.remote.forms import capabilities
from workers.runner.remote.states import OrderState

Sessions = sessionmaker[Session]


@dataclass(frozen=True, slots=True)
class ClaimedOrder:
    """An order as the database has it; nothing of it is checked."""

    ticket: int
    form: dict[str, Any]
    library: bytes


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """Orders that are measured together. ``claimed_s`` is when, by ``time.monotonic``."""

    job_id: UUID
    orders: tuple[ClaimedOrder, ...]
    effort: dict[str, Any]
    degree: int
    timeout_s: float
    claimed_s: float


@dataclass(frozen=True, slots=True)
class Renewed:
    """``ours`` unless another one has the name now; ``wanted`` if somebody waits for any of what is
    held."""

    ours: bool
    wanted: bool


class HostClaims:
    """What ``me`` writes to the database."""

    def __init__(self, sessions: Sessions, me: RemoteDevice, lease_s: float) -> None:
        self._sessions, self._me = sessions, me
        self._lease = timedelta(seconds=lease_s)

    def register(self, facts: DeviceFacts) -> None:
        """Take the name, also from one that has it."""
        fields = {
            "worker": self._me.worker,
            "device": facts.name,
            "fingerprint": facts.fingerprint,
            "capabilities": capabilities(),
            "seen_at": func.now(),
        }
        with self._sessions() as session, session.begin():
            session.execute(
                insert(MeasuringHost)
                .values(name=self._me.name, **fields)
                .on_conflict_do_update(index_elements=[MeasuringHost.name], set_=fields)
            )

    def renew(self, held: Collection[int]) -> Renewed:
        """Say that we are there, and still measure what is ``held``."""
        with self._sessions() as session, session.begin():
            ours = session.scalars(
                update(MeasuringHost)
                .where(MeasuringHost.name == self._me.name, MeasuringHost.worker == self._me.worker)
                .values(seen_at=func.now())
                .returning(MeasuringHost.name)
            ).one_or_none()
            kept = session.scalars(
                self._claimed()
                .where(MeasuringOrder.id.in_(held), _of_the_latest_attempt())
                .values(lease_expires_at=func.now() + self._lease)
                .returning(MeasuringOrder.id)
            ).all()
        return Renewed(ours is not None, bool(kept))

    def leave(self) -> None:
        """We stop: what we hold is lost at once, and nothing new is ordered."""
        with self._sessions() as session, session.begin():
            session.execute(
                delete(MeasuringHost).where(
                    MeasuringHost.name == self._me.name, MeasuringHost.worker == self._me.worker
                )
            )
            session.execute(
                update(MeasuringOrder)
                .where(
                    MeasuringOrder.worker == self._me.worker,
                    MeasuringOrder.host == self._me.name,
                    MeasuringOrder.state.in_([OrderState.WAITING, OrderState.CLAIMED]),
                )
                .values(
                    state=OrderState.REFUSED, library=None, outcome={"refused": "its host stops"}
                )
            )

    def claim(self) -> ClaimedBatch | None:
        """The oldest batch that waits for us, of a job that is being worked on by the attempt that
        placed it."""
        order = MeasuringOrder
        with self._sessions(expire_on_commit=False) as session, session.begin():
            batch = session.scalars(
                select(order.batch)
                .where(
                    order.worker == self._me.worker,
                    order.host == self._me.name,
                    order.state == OrderState.WAITING,
                    _of_the_latest_attempt(),
                )
                .order_by(order.id)
                .limit(1)
            ).one_or_none()
            rows = session.scalars(
                select(order)
                .where(order.batch == batch, order.state == OrderState.WAITING)
                .order_by(order.id)
                .with_for_update(skip_locked=True)
            ).all()
            session.execute(
                update(order)
                .where(order.id.in_([row.id for row in rows]))
                .values(
                    state=OrderState.CLAIMED,
                    claimed_at=func.clock_timestamp(),
                    lease_expires_at=func.now() + self._lease,
                )
                .execution_options(synchronize_session=False)
            )
        return _batch(rows, time.monotonic()) if rows else None

    def answer(self, ticket: int, outcome: dict[str, Any]) -> bool:
        """Whether somebody still wanted to know."""
        return self._end(ticket, OrderState.DONE, outcome)

    def refuse(self, ticket: int, reason: str) -> bool:
        """It cannot be measured here, which is no fault of the candidate."""
        return self._end(ticket, OrderState.REFUSED, {"refused": reason})

    def _end(self, ticket: int, state: OrderState, outcome: dict[str, Any]) -> bool:
        with self._sessions() as session, session.begin():
            ended = session.scalars(
                self._claimed()
                .where(MeasuringOrder.id == ticket)
                .values(state=state, outcome=outcome, library=None)
                .returning(MeasuringOrder.id)
            ).one_or_none()
        return ended is not None

    def _claimed(self) -> Any:
        return update(MeasuringOrder).where(
            MeasuringOrder.worker == self._me.worker,
            MeasuringOrder.host == self._me.name,
            MeasuringOrder.state == OrderState.CLAIMED,
        )


def _batch(rows: Sequence[MeasuringOrder], claimed_s: float) -> ClaimedBatch:
    first = rows[0]
    return ClaimedBatch(
        job_id=first.job_id,
        orders=tuple(ClaimedOrder(row.id, row.form, row.library or b"") for row in rows),
        effort=first.effort,
        degree=first.degree,
        timeout_s=first.timeout_s,
        claimed_s=claimed_s,
    )


def _of_the_latest_attempt() -> ColumnElement[bool]:
    """Orders of an attempt that is being worked on."""
    return (
        select(Job.id)
        .where(
            Job.id == MeasuringOrder.job_id,
            Job.fence == MeasuringOrder.fence,
            Job.lease_expires_at > func.now(),
        )
        .exists()
    )
