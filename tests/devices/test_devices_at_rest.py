"""Waiting for this process's own threads."""

from __future__ import annotations

import threading
import time

import pytest

from workers.devices import at_rest
from workers.devices.at_rest import wait_until_at_rest


def test_it_waits_for_threads_that_work_but_not_for_ever() -> None:
    over = threading.Event()

    def work() -> None:
        sum(1 for _ in iter(over.is_set, True))

    thread = threading.Thread(target=work, name="a) R (thread")
    thread.start()
    try:
        began = time.monotonic()
        assert wait_until_at_rest() is False
        assert time.monotonic() - began >= 0.1
    finally:
        over.set()
        thread.join()
    assert wait_until_at_rest() is True


def test_it_returns_when_a_thread_has_ended_its_work() -> None:
    until = time.monotonic() + 0.03

    def work() -> None:
        while time.monotonic() < until:
            pass
        time.sleep(1)

    threading.Thread(target=work, daemon=True).start()
    assert wait_until_at_rest() is True
    assert until <= time.monotonic() < until + 0.06


def test_a_process_that_does_nothing_is_at_rest_at_once() -> None:
    began = time.thread_time()
    assert wait_until_at_rest()
    assert time.thread_time() - began < 0.02


def test_where_nothing_can_be_seen_it_waits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_rest, "_TASKS", "/nowhere")
    assert wait_until_at_rest() is False
