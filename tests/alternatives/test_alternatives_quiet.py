"""Waiting for this process's own threads."""

from __future__ import annotations

import threading
import time

from workers.alternatives.quiet import wait_until_quiet


def test_it_waits_for_threads_that_work_but_not_for_ever() -> None:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        # Now and then, on a busy machine, the thread gets no core for a millisecond.
        assert not all(wait_until_quiet() for _ in range(10))
    finally:
        over.set()
        thread.join()
    assert wait_until_quiet() is True


def test_a_process_that_does_nothing_is_quiet_at_once() -> None:
    time.sleep(0.01)
    used = time.process_time()
    assert wait_until_quiet()
    assert time.process_time() - used < 0.02
