"""The doorbell rings a real Celery worker, and never fails a request."""

from __future__ import annotations

import logging
import time
from base64 import b64decode
from queue import Queue

import orjson
import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from backend.jobs.doorbell import TASK, Doorbell, device_queue, message
from backend.settings import Settings


def test_a_celery_worker_hears_it(settings: Settings) -> None:
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

    app.amqp.queues.select_add(device_queue("sim:v100"))
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=20):
        client = Redis.from_url(settings.redis_url.get_secret_value())
        with client:
            for _ in range(3):
                client.lpush(device_queue("sim:v100"), orjson.dumps(message("sim:v100")))
            assert [heard.get(timeout=10) for _ in range(3)] == ["sim:v100"] * 3
            assert client.llen(device_queue("sim:v100")) == 0


async def test_the_message_is_celerys_own_but_for_what_no_worker_needs(
    settings: Settings,
) -> None:
    """What Celery itself would have sent, so that a new version that sends more is noticed."""
    app = Celery("test", broker=settings.broker_url, set_as_current=False)
    app.send_task(TASK, args=["cpu"], queue="device.cpu", ignore_result=True)
    async with AsyncRedis.from_url(settings.redis_url.get_secret_value()) as redis:
        [theirs] = map(orjson.loads, await redis.lrange("device.cpu", 0, -1))
        await redis.delete("device.cpu")
        await Doorbell(redis).ring("cpu")
        [ours] = map(orjson.loads, await redis.lrange("device.cpu", 0, -1))
    bodies = [orjson.loads(b64decode(sent["body"])) for sent in (ours, theirs)]
    assert bodies[0] == bodies[1] == [["cpu"], {}, bodies[0][2]]
    for part in ("content-type", "content-encoding"):
        assert ours[part] == theirs[part]
    for part, unneeded in (
        (
            "headers",
            {
                "group_index",
                "ignore_result",
                "replaced_task_nesting",
                "shadow",
                "stamped_headers",
                "stamps",
            },
        ),
        ("properties", {"reply_to"}),
    ):
        assert set(theirs[part]) - set(ours[part]) == unneeded
        same = set(ours[part]) - {"id", "root_id", "correlation_id", "delivery_tag", "origin"}
        same -= {"argsrepr"}
        assert {name: ours[part][name] for name in same} == {
            name: theirs[part][name] for name in same
        }


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "unix:///nowhere.sock"])
async def test_ringing_fails_silently_and_soon(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "backend")  # the worker above has raised the root's
    async with AsyncRedis.from_url(url) as redis:
        began = time.monotonic()
        await Doorbell(redis).ring("cpu")
        assert time.monotonic() - began < 2
    assert "the sweep will" in caplog.text
