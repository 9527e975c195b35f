"""The Celery app: doorbells only. A message carries a name; the database holds the work."""

from __future__ import annotations

from celery import Celery
from kombu import Queue

from backend.settings import Settings, get_settings

CONTROL_QUEUE = "control"


def device_queue(device: str) -> str:
    """The queue on which the workers of a device listen."""
    return f"device.{device}"


def create_app(settings: Settings) -> Celery:
    """Acknowledge early and keep no results: a lost or repeated doorbell is harmless, because the
    sweep rings again and a claim is a conditional update."""
    app = Celery("plait", broker=settings.broker_url, include=["workers.tasks"])
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=CONTROL_QUEUE,
        task_queues=[Queue(CONTROL_QUEUE)],
        task_create_missing_queues=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"visibility_timeout": 3600, "socket_keepalive": True},
        beat_schedule={
            "sweep": {
                "task": "workers.tasks.sweep",
                "schedule": settings.sweep_seconds,
                "options": {"queue": CONTROL_QUEUE, "expires": 2 * settings.sweep_seconds},
            }
        },
    )
    return app


celery_app = create_app(get_settings())
