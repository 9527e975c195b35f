"""``python -m workers``: a Celery worker for every device of this machine, which runs jobs, or with
``--measure`` one that measures for the jobs of others."""

from __future__ import annotations

import argparse
import sys

from backend.settings import get_settings
from workers.app import CONTROL_QUEUE, celery_app, device_queue
from workers.devices import discover


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument(
        "--measure", action="store_true", help="run no jobs; measure candidates for other machines"
    )
    parser.add_argument("--name", default="", help="of this machine, to others; its host name")
    asked = parser.parse_args()
    if asked.measure:
        from workers import measuring_host  # noqa: PLC0415  # what runs jobs needs none of it

        measuring_host.main(asked.name)
    else:
        run_jobs()


def run_jobs() -> None:
    """Consume each device's queue, with one thread per device and one for the sweep.

    Threads, because a task only supervises a child process: nothing forks after CUDA, and remote
    control and doorbells are answered while a job runs.
    """
    kinds = get_settings().device_kinds
    devices = [facts.name for facts in discover() if facts.kind in kinds]
    if not devices:
        sys.exit(f"this machine has no device of the kinds {', '.join(kinds)} (PLAIT_DEVICE_KINDS)")
    queues = [CONTROL_QUEUE, *map(device_queue, devices)]
    celery_app.worker_main(
        [
            "worker",
            "--pool=threads",
            f"--concurrency={len(devices) + 1}",
            f"--queues={','.join(queues)}",
            "--hostname=plait@%h",
            "--loglevel=WARNING",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )


if __name__ == "__main__":
    main()
