"""Ringing a device's workers: a Celery message that says where to look, never what to do."""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery import Celery

logger = logging.getLogger(__name__)

TASK = "workers.tasks.work"
RING_SECONDS = 1.0


def device_queue(device: str) -> str:
    """The queue on which the workers of a device listen."""
    return f"device.{device}"


class Doorbell:
    """Rings after a commit. Never fails: the sweep rings again for whatever was missed."""

    def __init__(self, broker_url: str) -> None:
        self._broker_url = broker_url

    async def ring(self, device: str) -> None:
        try:
            async with asyncio.timeout(RING_SECONDS):
                await asyncio.to_thread(self._send, device)
        except Exception as error:  # three libraries' errors have no base in common
            logger.warning("could not ring device %s (%r); the sweep will", device, error)

    def close(self) -> None:
        """Close the connections to the broker, if there were any."""
        if "_celery" in self.__dict__:
            self._celery.close()

    def _send(self, device: str) -> None:
        self._celery.send_task(TASK, args=(device,), queue=device_queue(device), retry=False)

    @cached_property
    def _celery(self) -> Celery:
        from celery import Celery  # noqa: PLC0415  # a quarter of a second that no start pays

        app = Celery("plait", broker=self._broker_url, set_as_current=False)
        app.conf.update(
            task_ignore_result=True,
            broker_transport_options={
                "socket_timeout": RING_SECONDS,
                "socket_connect_timeout": RING_SECONDS,
            },
        )
        return app
