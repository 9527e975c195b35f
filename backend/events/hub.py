"""One Redis listener per process, fanned out to the event streams of its connections."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from redis.asyncio import Redis
from redis.exceptions import RedisError

from backend.events.channel import PATTERN, job_of
from backend.jobs.schemas import EventRead, EventType

logger = logging.getLogger(__name__)

QUEUE_LENGTH = 256
LISTEN_SECONDS = 5.0  # how long one read waits; between reads the connection's health is checked
RECONNECT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Announcement:
    """A committed event as it was announced; ``body`` is its EventRead as JSON."""

    job_id: UUID
    seq: int
    type: EventType
    body: str


class Subscription:
    """What one stream still has to read. Bounded: a reader who falls behind is sent back to the
    database rather than given a queue without end."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Announcement | None] = asyncio.Queue(QUEUE_LENGTH)

    def offer(self, announcement: Announcement) -> None:
        try:
            self._queue.put_nowait(announcement)
        except asyncio.QueueFull:
            self.resynchronise()

    def resynchronise(self) -> None:
        """Forget what is waiting; the reader has to read the database again."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def next(self, patience: float) -> Announcement | None:
        """The next announcement, or None after ``patience`` seconds, or if some may be missing:
        then read the database again."""
        try:
            async with asyncio.timeout(patience):
                return await self._queue.get()
        except TimeoutError:
            return None


class EventHub:
    """Listens for as long as the process runs, and survives Redis restarts.

    ``connected`` is false while announcements may be missed; readers then poll the database.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._by_job: defaultdict[UUID, set[Subscription]] = defaultdict(set)
        self._of_all: set[Subscription] = set()
        self.connected = False
        self.closing = False

    @contextmanager
    def subscribe(self, job_id: UUID) -> Iterator[Subscription]:
        """Hear every event of one job from now on."""
        subscription = Subscription()
        self._by_job[job_id].add(subscription)
        try:
            yield subscription
        finally:
            self._by_job[job_id].discard(subscription)
            if not self._by_job[job_id]:
                del self._by_job[job_id]

    @contextmanager
    def subscribe_to_states(self) -> Iterator[Subscription]:
        """Hear every job's state events from now on."""
        subscription = Subscription()
        self._of_all.add(subscription)
        try:
            yield subscription
        finally:
            self._of_all.discard(subscription)

    def close(self) -> None:
        """Let every stream end now: the server is about to stop."""
        self.closing = True
        self._resynchronise_all()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen()
            except (RedisError, OSError) as error:
                if self.connected:
                    logger.warning("lost Redis (%r); streams read the database meanwhile", error)
            finally:
                self.connected = False
                self._resynchronise_all()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> None:
        async with self._redis.pubsub() as pubsub:
            await pubsub.psubscribe(PATTERN)
            while True:
                message = await pubsub.get_message(timeout=LISTEN_SECONDS)
                if message is None:
                    continue
                if message["type"] == "psubscribe":
                    # Also after a silent reconnect: what was announced before now may be missing.
                    self.connected = True
                    self._resynchronise_all()
                elif message["type"] == "pmessage":
                    try:
                        self._dispatch(message)
                    except ValueError as error:
                        logger.warning("ignored what is no event on %r: %s", PATTERN, error)

    def _dispatch(self, message: dict[str, Any]) -> None:
        job_id = job_of(message["channel"].decode())
        of_job = self._by_job.get(job_id)
        if not of_job and not self._of_all:
            return
        body = message["data"].decode()
        event = EventRead.model_validate_json(body)
        announcement = Announcement(job_id, event.seq, event.type, body)
        for subscription in of_job or ():
            subscription.offer(announcement)
        if announcement.type is EventType.STATE:
            for subscription in self._of_all:
                subscription.offer(announcement)

    def _resynchronise_all(self) -> None:
        for subscriptions in (*self._by_job.values(), self._of_all):
            for subscription in subscriptions:
                subscription.resynchronise()
