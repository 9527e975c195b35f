"""Ringing measuring hosts: a Celery message that says where to look, never what to do."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING

from workers.runner.remote.states import RING, host_queue

if TYPE_CHECKING:
    from celery import Celery

logger = logging.getLogger(__name__)

RING_SECONDS = 1.0


class HostBell:
    """Never fails: a host that hears nothing looks by itself now and then. A message that nobody
    took is of no use after ``expires_s``."""

    def __init__(self, broker_url: str, expires_s: float) -> None:
        self._broker_url, self._expires_s = broker_url, expires_s

    def ring(self, name: str) -> None:
        """Wake the measuring host of that name."""
        try:
            self._celery.send_task(
                RING, args=(name,), queue=host_queue(name), retry=False, expires=self._expires_s
            )
        except Exception as error:  # three libraries' errors have no base in common
            logger.warning("could not ring measuring host %s (%r)", name, error)

    def close(self) -> None:
        """Close the connections to the broker, if there were any."""
        if "_celery" in self.__dict__:
            self._celery.close()

    @cached_property
    def _celery(self) -> Celery:
        from celery import Celery  # noqa: PLC0415  # few jobs measure on several hosts

        app = Celery("plait", broker=self._broker_url, set_as_current=False)
        app.conf.update(
            task_ignore_result=True,
            broker_transport_options={
                "socket_timeout": RING_SECONDS,
                "socket_connect_timeout": RING_SECONDS,
            },
        )
        return app
