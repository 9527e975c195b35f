"""Reading a stream of server-sent events over a real connection."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any, Self

import httpx
import orjson

PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class Message:
    """One message, with the moment it was read."""

    event: str
    data: Any
    id: str | None
    at: float


class Reader:
    """Reads a stream in a thread; ``take`` waits for the next message."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._client = httpx.Client(timeout=httpx.Timeout(10, read=None))
        self._request = self._client.build_request("GET", url, headers=headers)
        self._messages: Queue[Message | None] = Queue()
        self.comments: list[str] = []
        self.response: httpx.Response

    def __enter__(self) -> Self:
        self.response = self._client.send(self._request, stream=True)
        self.response.raise_for_status()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        connection: socket.socket = self.response.extensions["network_stream"].get_extra_info(
            "socket"
        )
        with contextlib.suppress(OSError):  # the server was first
            connection.shutdown(socket.SHUT_RDWR)  # only this wakes the reading thread
        self._thread.join(PATIENCE_SECONDS)
        self._client.close()

    def wait_until_following(self) -> None:
        """Until the server has said that it listens for what comes."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "following" not in self.comments:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def take(self) -> Message:
        message = self._messages.get(timeout=PATIENCE_SECONDS)
        assert message is not None, "the stream ended"
        return message

    def take_until(self, wanted: Callable[[Message], bool]) -> list[Message]:
        taken = [self.take()]
        while not wanted(taken[-1]):
            taken.append(self.take())
        return taken

    def take_until_the_end(self) -> list[Message]:
        return list(iter(lambda: self._messages.get(timeout=PATIENCE_SECONDS), None))

    def ends(self) -> bool:
        """Whether nothing but the end of the stream comes."""
        return self._messages.get(timeout=PATIENCE_SECONDS) is None

    def is_silent(self, seconds: float) -> bool:
        try:
            self._messages.get(timeout=seconds)
        except Empty:
            return True
        return False

    def _read(self) -> None:
        try:
            for message in self._parse(self.response.iter_lines()):
                self._messages.put(message)
        except (httpx.TransportError, httpx.StreamError):
            pass  # closed by either side: in any case it is over
        self._messages.put(None)

    def _parse(self, lines: Iterator[str]) -> Iterator[Message]:
        fields: dict[str, str] = {}
        for line in lines:
            if line.startswith(":"):
                self.comments.append(line[1:].strip())
            elif line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
            else:
                if "data" in fields:
                    data = orjson.loads(fields["data"])
                    event = fields.get("event", "message")
                    yield Message(event, data, fields.get("id"), time.perf_counter())
                fields = {}
