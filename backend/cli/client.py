"""The REST client of the command line: problems in words, events that survive a reconnect."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from backend.cli.local import CLI_TOKEN_FILE, running_stack
from backend.settings import Settings

RECONNECT_SECONDS = 1.0


class RefusedError(RuntimeError):
    """The service answered with a problem (RFC 9457)."""

    def __init__(self, response: httpx.Response) -> None:
        try:
            problem = response.json()
        except ValueError:
            problem = {"title": f"HTTP {response.status_code}", "detail": response.text[:500]}
        lines = [str(problem.get("detail") or problem.get("title"))]
        lines += [f"  {e['field']}: {e['message']}" for e in problem.get("errors") or []]
        super().__init__("\n".join(lines))
        self.problem = problem


class UnreachableError(RuntimeError):
    """Nobody answers at the service's address."""


class Client:
    """Talks to one Plait service. ``PLAIT_URL`` and ``PLAIT_TOKEN`` override the local stack."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=30)
        self.url = url

    @classmethod
    def from_environment(cls, settings: Settings) -> Client:
        stack = running_stack(settings.home)
        url = os.environ.get("PLAIT_URL") or (
            stack.url if stack else f"http://{settings.host}:{settings.port}"
        )
        token = os.environ.get("PLAIT_TOKEN", "")
        stored = settings.home / CLI_TOKEN_FILE
        if not token and "PLAIT_URL" not in os.environ and stored.exists():
            token = stored.read_text().strip()
        return cls(url.rstrip("/"), token)

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise UnreachableError(
                f"no Plait service answers at {self.url} ({error}); start one with `plait up`, "
                "or set PLAIT_URL"
            ) from error
        if response.is_error:
            raise RefusedError(response)
        return response

    def get(self, path: str, **params: Any) -> Any:
        wanted = {name: value for name, value in params.items() if value is not None}
        return self._send("GET", path, params=wanted).json()

    def post(self, path: str, body: Any = None) -> Any:
        return self._send("POST", path, json=body).json()

    def upload(self, path: Path) -> Any:
        """Stream a model file to the service."""
        return self.send_file("/uploads", path, filename=path.name)

    def send_file(self, path: str, source: Path, **params: str) -> Any:
        """Stream a file as the body of a POST."""
        with source.open("rb") as file:
            return self._send(
                "POST",
                path,
                params=params,
                content=iter(lambda: file.read(1 << 20), b""),
                headers={
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(source.stat().st_size),
                },
                timeout=None,
            ).json()

    def download(self, path: str, target: Path) -> None:
        """Stream a file of the service to ``target``; a broken download leaves nothing."""
        scratch = target.with_name(target.name + ".part")
        try:
            with scratch.open("wb") as file:
                for chunk in self.stream(path):
                    file.write(chunk)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)

    def stream(self, path: str, **params: Any) -> Iterator[bytes]:
        """What the service sends, as it comes."""
        wanted = {name: value for name, value in params.items() if value is not None}
        try:
            with self._http.stream("GET", path, params=wanted) as response:
                if response.is_error:
                    response.read()
                    raise RefusedError(response)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise UnreachableError(f"the download from {self.url} broke off: {error}") from error

    def events(self, job: str) -> Iterator[dict[str, Any]]:
        """The job's events from the first to the last; reconnects where it left off."""
        seen, failures = 0, 0
        while True:
            try:
                with self._http.stream(
                    "GET",
                    f"/jobs/{job}/events/stream",
                    headers={"Last-Event-ID": str(seen)},
                    timeout=httpx.Timeout(30, read=60),
                ) as response:
                    if response.is_error:
                        response.read()
                        raise RefusedError(response)
                    failures = 0
                    for kind, data in _messages(response.iter_lines()):
                        if kind == "end":
                            return
                        seen = data["seq"]
                        yield data
            except httpx.TransportError as error:
                failures += 1
                if failures > 5:  # five seconds without an answer
                    raise UnreachableError(f"{self.url} stopped answering: {error}") from error
            time.sleep(RECONNECT_SECONDS)


def _messages(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """Parse Server-Sent Events into (event, data)."""
    kind, data = "message", ""
    for line in lines:
        if line.startswith("event:"):
            kind = line[6:].strip()
        elif line.startswith("data:"):
            data += line[5:].strip()
        elif not line:
            if kind == "end":
                yield kind, None
            elif data:
                yield kind, json.loads(data)
            kind, data = "message", ""
