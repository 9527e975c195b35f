"""What Prometheus is told. One registry per app, so that two apps in one process do not clash."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
)

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The service's own figures; what lies in the database is counted when it is asked for."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "plait_http_requests",
            "Requests by operation, as the OpenAPI document calls it, and status",
            ["operation", "status"],
            registry=self.registry,
        )
        self.latency = Histogram(
            "plait_http_request_seconds",
            "Time until the response begins, by operation",
            ["operation"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.jobs = Gauge(
            "plait_jobs", "Jobs in the database by state", ["state"], registry=self.registry
        )
        self.events_sent = Counter(
            "plait_events_sent", "Events sent to stream readers", registry=self.registry
        )
        self.streams = Gauge("plait_event_streams", "Open event streams", registry=self.registry)
        self.gaps = Counter(
            "plait_event_gaps", "Times a stream found announcements missing", registry=self.registry
        )
        ProcessCollector(registry=self.registry)
