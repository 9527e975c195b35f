"""A measuring host: a Celery worker that runs no jobs, and measures candidates for those of others.

Its task is a doorbell, as those of ``workers.tasks`` are: the orders are in the database.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any

from celery.signals import worker_ready, worker_shutting_down

from backend.db.session import create_sync_sessions
from backend.settings import Settings, get_settings
from backend.storage import Storage
from workers.app import celery_app
from workers.devices import discover
from workers.devices.base import DeviceFacts
from workers.measure.parallel.hosts import RemoteDevice
from workers.runner.remote.claims import HostClaims
from workers.runner.remote.forms import capabilities
from workers.runner.remote.measurer import RemoteMeasurer
from workers.runner.remote.states import RING, host_queue


def main(name: str) -> None:
    """Consume the measuring queues of this machine's devices, which are called ``DEVICE@name``;
    ``name`` is the machine's where it is empty."""
    settings = get_settings()
    if capabilities()["tvm"] is None:
        sys.exit("measuring kernels needs TVM: pip install 'plait[tvm]'")
    kinds = [kind for kind in settings.device_kinds if kind != "sim"]
    found = [facts for facts in discover() if facts.kind in kinds]
    if not found:
        sys.exit(f"nothing to measure on here: no device of the kinds {', '.join(kinds)}")
    name = name or socket.gethostname()
    hosts = {f"{facts.name}@{name}": facts for facts in found}
    _serve({host: _measurer(settings, host, facts) for host, facts in hosts.items()})
    celery_app.conf.include = []  # no tasks of jobs
    celery_app.worker_main(
        [
            "worker",
            "--pool=threads",
            "--concurrency=1",
            f"--queues={','.join(map(host_queue, hosts))}",
            f"--hostname=plait-measuring@{name}",
            "--loglevel=WARNING",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )


def _measurer(settings: Settings, name: str, facts: DeviceFacts) -> RemoteMeasurer:
    me = RemoteDevice(name, f"{socket.gethostname()}:{os.getpid()}")
    claims = HostClaims(create_sync_sessions(settings), me, settings.lease_seconds)
    return RemoteMeasurer(
        claims,
        Storage(settings.storage_url),
        facts,
        settings.heartbeat_seconds,
        settings.sweep_seconds,
        ended=lambda: os.kill(os.getpid(), signal.SIGTERM),
    )


def _serve(measurers: Mapping[str, RemoteMeasurer]) -> None:
    """Start them when Celery is up, ring them when it is told to, and stop them before it ends."""

    @celery_app.task(name=RING)
    def ring(name: str) -> None:
        if name in measurers:
            measurers[name].ring()

    def start(**_: Any) -> None:
        for measurer in measurers.values():
            measurer.start()

    def stop(**_: Any) -> None:
        for measurer in measurers.values():
            measurer.stop()

    worker_ready.connect(start, weak=False)
    worker_shutting_down.connect(stop, weak=False)
