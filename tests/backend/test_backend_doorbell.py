"""The doorbell rings a real Celery worker, and never fails a request."""

from __future__ import annotations

import logging
import time
from queue import Queue

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from redis import Redis

from backend.jobs.doorbell import TASK, Doorbell, device_queue
from backend.settings import Settings
from workers import app as workers_app


async def test_a_celery_worker_hears_it(settings: Settings) -> None:
    heard: Queue[str] = Queue()
    app = Celery("test", broker=settings.broker_url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
    )

    @app.task(name=TASK)
    def work(device: str) -> None:
        heard.put(device)

    queue = device_queue("sim:v100")
    app.amqp.queues.select_add(queue)
    doorbell = Doorbell(settings.broker_url)
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=20):
        for _ in range(3):
            await doorbell.ring("sim:v100")
        assert [heard.get(timeout=10) for _ in range(3)] == ["sim:v100"] * 3
    doorbell.close()
    with Redis.from_url(settings.redis_url.get_secret_value()) as client:
        assert client.llen(queue) == 0


def test_workers_listen_where_the_doorbell_rings() -> None:
    assert workers_app.device_queue("cuda:0") == device_queue("cuda:0")


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "redis+socket:///nowhere.sock"])
async def test_ringing_fails_silently_and_soon(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "backend")  # the worker above has raised the root's
    began = time.monotonic()
    await Doorbell(url).ring("cpu")
    assert time.monotonic() - began < 2
    assert "the sweep will" in caplog.text
