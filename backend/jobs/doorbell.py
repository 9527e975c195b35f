"""Ringing a device's workers: a Celery message that says where to look, never what to do.

The message is written to the broker's list directly, in Celery's documented message protocol
(version 2) as kombu's Redis transport stores it. Importing Celery only to send this one message
would cost the API 30 MB and a blocking client.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from typing import Any
from uuid import uuid4

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

TASK = "workers.tasks.work"
RING_SECONDS = 1.0


def device_queue(device: str) -> str:
    """The queue on which the workers of a device listen."""
    return f"device.{device}"


def message(device: str) -> dict[str, Any]:
    """Celery's message for ``workers.tasks.work(device)``."""
    identifier = str(uuid4())
    queue = device_queue(device)
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return {
        "body": b64encode(orjson.dumps([[device], {}, embedded])).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": TASK,
            "id": identifier,
            "root_id": identifier,
            "parent_id": None,
            "group": None,
            "retries": 0,
            "eta": None,
            "expires": None,
            "timelimit": [None, None],
            "argsrepr": repr((device,)),
            "kwargsrepr": "{}",
            "origin": "plait-api",
        },
        "properties": {
            "correlation_id": identifier,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "delivery_tag": str(uuid4()),
            "priority": 0,
            "body_encoding": "base64",
        },
    }


class Doorbell:
    """Rings after a commit. Never fails: the sweep rings again for whatever was missed."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def ring(self, device: str) -> None:
        try:
            async with asyncio.timeout(RING_SECONDS):
                await self._redis.lpush(device_queue(device), orjson.dumps(message(device)))
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("could not ring device %s (%r); the sweep will", device, error)
