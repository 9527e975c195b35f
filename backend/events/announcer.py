"""Telling listeners about committed events."""

from __future__ import annotations

import asyncio
import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError

from backend.db.tables import JobEvent
from backend.events.channel import channel, encode

logger = logging.getLogger(__name__)

ANNOUNCE_SECONDS = 1.0


class Announcer:
    """Never fails: an announcement is only a shortcut to what the database holds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def announce(self, event: JobEvent) -> None:
        """Publish one event. Only after the commit: listeners trust what they are told."""
        try:
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                await self._redis.publish(channel(event.job_id), encode(event))
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning(
                "could not announce event %d of job %s (%r)", event.seq, event.job_id, error
            )
