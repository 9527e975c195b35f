"""Server-sent events: replay from the database, then follow what is announced.

The database decides what a reader gets; an announcement only says sooner that it is there. The
subscription begins before the first read, so nothing falls between the two, and sequence numbers
tell repeats from gaps.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from fastapi.sse import ServerSentEvent
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from backend.db.tables import JobEvent
from backend.events.hub import Announcement, EventHub, Subscription
from backend.events.repository import EventRepository, JobEnd
from backend.events.schemas import JobEventRead
from backend.jobs.schemas import EventRead
from backend.jobs.states import FINISHED, JobState
from backend.metrics import Metrics

REPLAY_BATCH = 500
PATIENCE_SECONDS = 15.0  # an announcement that was lost is made up for after this long
STATES_PATIENCE_SECONDS = 60.0  # longer: what a reader makes up for here is a whole list
POLL_SECONDS = 1.0  # while Redis is away
LIFETIME_SECONDS = 3600.0  # then the reader comes back, and its token is looked at again
RETRY_MS = 1000  # how soon a browser reconnects


class EventStreams:
    """Makes the streams of one process."""

    def __init__(
        self, sessions: async_sessionmaker[AsyncSession], hub: EventHub, metrics: Metrics
    ) -> None:
        self._sessions, self._hub, self._metrics = sessions, hub, metrics

    async def of_job(self, job_id: UUID, after: int) -> AsyncIterator[ServerSentEvent]:
        """The job's events after ``after``; ``event: end`` once it is finished and all is sent."""
        with self._metrics.streams.track_inprogress(), self._hub.subscribe(job_id) as news:
            last, until = after, time.monotonic() + LIFETIME_SECONDS
            yield ServerSentEvent(comment="following", retry=RETRY_MS)
            while self._goes_on(until):
                events, end = await self._read(job_id, last)
                for event in events:
                    yield self._sent(event.seq, event.type, _body(event))
                    last = event.seq
                if end is None:
                    return
                if last < end.seq:
                    continue
                if end.state in FINISHED:
                    yield ServerSentEvent(event="end", data={"state": end.state})
                    return
                while announced := await self._next(news, last):
                    yield self._sent(announced.seq, announced.type, announced.body)
                    last = announced.seq
                    if _ends(announced) or not self._goes_on(until):
                        break

    async def of_states(self) -> AsyncIterator[ServerSentEvent]:
        """Every job's state events from now on, each a JobEventRead.

        ``event: resync`` comes first, and again whenever some may have been missed: read the list
        of jobs again.
        """
        with self._metrics.streams.track_inprogress(), self._hub.subscribe_to_states() as news:
            until = time.monotonic() + LIFETIME_SECONDS
            yield ServerSentEvent(event="resync", data={}, retry=RETRY_MS)
            while self._goes_on(until):
                announced = await news.next(self._patience(STATES_PATIENCE_SECONDS))
                if announced is None:
                    if self._goes_on(until):
                        yield ServerSentEvent(event="resync", data={})
                    continue
                event = JobEventRead(
                    job_id=announced.job_id,
                    **EventRead.model_validate_json(announced.body).model_dump(),
                )
                self._metrics.events_sent.inc()
                yield ServerSentEvent(event=announced.type, raw_data=event.model_dump_json())

    async def _read(self, job_id: UUID, last: int) -> tuple[Sequence[JobEvent], JobEnd | None]:
        """The next events, and then where the job stands: never the other way round, or the end
        could be reported before the events that lead to it."""
        async with self._sessions() as session:
            repository = EventRepository(session)
            events = await repository.after(job_id, last, REPLAY_BATCH)
            return events, await repository.end(job_id)

    async def _next(self, news: Subscription, last: int) -> Announcement | None:
        """The announcement of the event after ``last``; None to read the database again."""
        while announced := await news.next(self._patience(PATIENCE_SECONDS)):
            if announced.seq == last + 1:
                return announced
            if announced.seq > last:
                self._metrics.gaps.inc()
                return None
        return None

    def _goes_on(self, until: float) -> bool:
        return not self._hub.closing and time.monotonic() < until

    def _patience(self, connected: float) -> float:
        return connected if self._hub.connected else POLL_SECONDS

    def _sent(self, seq: int, kind: str, body: str) -> ServerSentEvent:
        self._metrics.events_sent.inc()
        return ServerSentEvent(id=str(seq), event=kind, raw_data=body)


def _body(event: JobEvent) -> str:
    return EventRead.model_validate(event).model_dump_json()


def _ends(announced: Announcement) -> bool:
    """Whether this event finishes its job; the database then confirms that nothing follows."""
    if announced.type != "state":
        return False
    state = EventRead.model_validate_json(announced.body).data["state"]
    return JobState(state) in FINISHED
