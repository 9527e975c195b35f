"""The API's process: uvicorn, set up for many small requests and long streams."""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

from backend.app import create_app
from backend.services import Services
from backend.settings import Settings

SHUTDOWN_SECONDS = 5


class Server(uvicorn.Server):
    """Ends the event streams before it waits for open connections to end."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        services: Services | None = getattr(self._app.state, "services", None)
        if services is not None:
            services.hub.close()
        await super().shutdown(sockets)


def create_server(settings: Settings) -> Server:
    """A server for one app; ``run`` serves until SIGINT or SIGTERM."""
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=settings.mode == "server",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        log_level="warning",
    )
    return Server(app, config)
