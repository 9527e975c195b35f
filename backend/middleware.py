"""What wraps every request: its id, the Host check, security headers, metrics.

Plain ASGI, not BaseHTTPMiddleware: streams pass through without a task or a queue of their own.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.metrics import Metrics
from backend.problem_handlers import problem_response
from backend.problems import BadRequestError
from backend.settings import Settings

# Mantine and Plotly set style attributes; Plotly's image download goes through data: and blob:.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
STRICT_TRANSPORT = "max-age=31536000"


def add_middleware(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    app.add_middleware(HostMiddleware, allowed=settings.allowed_hosts)
    app.add_middleware(EnvelopeMiddleware, metrics=metrics, https=settings.secure_cookies)


class HostMiddleware:
    """Refuses requests for other hosts: a page of another site that has its name resolve to this
    machine (DNS rebinding) gets nothing."""

    def __init__(self, app: ASGIApp, allowed: Sequence[str]) -> None:
        self._app = app
        self._allowed = frozenset(host.lower() for host in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "*" in self._allowed:
            await self._app(scope, receive, send)
            return
        header = Headers(scope=scope).get("host", "")
        if without_port(header).lower() in self._allowed:
            await self._app(scope, receive, send)
            return
        problem = BadRequestError(
            f"this service is not called {header[:200]!r}; PLAIT_ALLOWED_HOSTS names what it is"
        ).problem
        await problem_response(problem)(scope, receive, send)


def without_port(host: str) -> str:
    """``localhost:8765`` is ``localhost`` and ``[::1]:8765`` is ``[::1]``."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not name.endswith(":") else host


class EnvelopeMiddleware:
    """Gives every response its headers and counts it. The outermost layer."""

    def __init__(self, app: ASGIApp, metrics: Metrics, https: bool) -> None:
        self._app, self._metrics = app, metrics
        self._headers = dict(SECURITY_HEADERS)
        if https:
            self._headers["Strict-Transport-Security"] = STRICT_TRANSPORT

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["request_id"] = secrets.token_hex(8)
        started = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(scope, message)
                self._count(scope, message["status"], time.perf_counter() - started)
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _add_headers(self, scope: Scope, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in self._headers.items():
            headers[name] = value
        headers["X-Request-ID"] = scope["request_id"]
        headers.setdefault("Cache-Control", "no-store")

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        method, route = scope["method"], getattr(scope.get("route"), "path", "other")
        self._metrics.requests.labels(method, route, status).inc()
        self._metrics.latency.labels(method, route).observe(seconds)
