"""The Celery tasks. Each is a doorbell: it says where to look, never what to do."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from typing import Any

from celery.signals import worker_ready, worker_shutting_down
from redis import Redis

from backend.db.session import create_sync_sessions
from backend.settings import get_settings
from backend.storage import Storage
from workers import devices
from workers.app import celery_app, device_queue
from workers.runner.registration import record_progress, register
from workers.runner.remote.clearing import forget
from workers.runner.store import redis_announcer
from workers.runner.supervisor import Supervisor
from workers.runner.sweeper import devices_to_ring, settle_expired


class WorkerContext:
    """A worker process's collaborators, made on first use."""

    def __init__(self) -> None:
        self.settings = get_settings()
        self.worker = f"{socket.gethostname()}:{os.getpid()}"
        self.sessions = create_sync_sessions(self.settings)
        self.storage = Storage(self.settings.storage_url)
        self.announce = redis_announcer(
            Redis.from_url(self.settings.redis_url.get_secret_value(), socket_timeout=5)
        )
        self.supervisor = Supervisor(self.settings, self.sessions, self.announce, self.worker)


@lru_cache(maxsize=1)
def context() -> WorkerContext:
    """One per process; Celery offers no constructor to hand collaborators to."""
    return WorkerContext()


@celery_app.task
def work(device: str) -> None:
    """Run the queued jobs of ``device``; recording progress proves that this worker consumes."""
    here = context()
    record_progress(here.sessions, here.worker, device)
    here.supervisor.work(device)


@celery_app.task
def sweep() -> None:
    """Settle expired leases, clear up after what ended, and ring every device that may have missed
    its bell."""
    here = context()
    settle_expired(here.sessions, here.announce, here.settings.max_attempts)
    forget(here.sessions, here.storage)
    for device in devices_to_ring(here.sessions):
        work.apply_async(
            args=(device,),
            queue=device_queue(device),
            expires=2 * here.settings.sweep_seconds,
        )


@worker_ready.connect
def _offer_devices(**_: Any) -> None:
    here = context()
    kinds = here.settings.device_kinds
    offered = [facts for facts in devices.discover() if facts.kind in kinds]
    register(here.sessions, here.worker, offered)
    for facts in offered:
        work.apply_async(args=(facts.name,), queue=device_queue(facts.name))


@worker_shutting_down.connect
def _hand_jobs_back(**_: Any) -> None:
    context().supervisor.stop()
