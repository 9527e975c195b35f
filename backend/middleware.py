"""What wraps every request: its id, the Host check, security headers, metrics.

Plain ASGI, not BaseHTTPMiddleware: streams pass through without a task or a queue of their own.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.metrics import Metrics
from backend.problem_handlers import problem_response
from backend.problems import BadRequestError, InternalError, Problem, TooLargeError
from backend.settings import Settings

logger = logging.getLogger(__name__)

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
MAX_BODY_BYTES = 1 << 20
PROBED = frozenset({"/healthz", "/metrics"})


def add_middleware(
    app: FastAPI, settings: Settings, metrics: Metrics, streaming: Sequence[str]
) -> None:
    """``streaming`` paths take bodies of any length: they bound what they keep themselves."""
    app.add_middleware(BodyLimitMiddleware, exempt=streaming)
    app.add_middleware(HostMiddleware, allowed=settings.allowed_hosts)
    app.add_middleware(EnvelopeMiddleware, metrics=metrics, https=settings.secure_cookies)


class HostMiddleware:
    """Refuses requests for other hosts: a page of another site that has its name resolve to this
    machine (DNS rebinding) gets nothing. Probes and Prometheus ask by address, and what they get
    is no secret or needs a token, which such a page has not."""

    def __init__(self, app: ASGIApp, allowed: Sequence[str]) -> None:
        self._app = app
        self._allowed = frozenset(host.lower() for host in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "*" in self._allowed or scope["path"] in PROBED:
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


class BodyLimitMiddleware:
    """Refuses JSON bodies beyond any that is meant, before they fill the memory."""

    def __init__(self, app: ASGIApp, exempt: Sequence[str]) -> None:
        self._app, self._exempt = app, frozenset(exempt)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._exempt:
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > MAX_BODY_BYTES:
            await problem_response(_body_too_large().problem)(scope, receive, send)
            return
        received = 0

        async def receive_bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise _body_too_large()
            return message

        await self._app(scope, receive_bounded, send)


def _body_too_large() -> TooLargeError:
    return TooLargeError(f"the body is larger than {MAX_BODY_BYTES} bytes")


class EnvelopeMiddleware:
    """Gives every response its headers and counts it; answers what nobody else caught.

    The outermost layer: Starlette's own handler for such errors lies outside all middleware, and
    its responses would have neither headers nor id.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, https: bool) -> None:
        self._app, self._metrics = app, metrics
        self._headers = dict(SECURITY_HEADERS)
        if https:
            self._headers["Strict-Transport-Security"] = STRICT_TRANSPORT

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identifier = secrets.token_hex(8)
        began, responding = time.perf_counter(), False

        async def send_with_headers(message: Message) -> None:
            nonlocal responding
            if message["type"] == "http.response.start":
                responding = True
                self._add_headers(identifier, message)
                self._count(scope, message["status"], time.perf_counter() - began)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:
            logger.exception("request %s failed", identifier)
            if responding:
                raise  # too late for an answer; the server breaks the connection off
            await problem_response(_unexpected(identifier))(scope, receive, send_with_headers)

    def _add_headers(self, identifier: str, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in self._headers.items():
            headers[name] = value
        headers["X-Request-ID"] = identifier
        headers.setdefault("Cache-Control", "no-store")

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        operation = getattr(scope.get("route"), "name", "other")
        self._metrics.requests.labels(operation, status).inc()
        self._metrics.latency.labels(operation).observe(seconds)


def _unexpected(identifier: str) -> Problem:
    return InternalError(
        f"an error of the server's own; its log has it as request {identifier}"
    ).problem
