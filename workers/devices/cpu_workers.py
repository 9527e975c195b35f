"""The CPU device's threads: each leads a team of OpenMP threads, every one pinned to its core."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import torch

from workers.devices.signals import BlockingSignal

_TASKS = Path("/proc/self/task")
_PARALLEL_GRAIN = 32768
"""``at::internal::GRAIN_SIZE``: an elementwise operator's least number of elements per thread."""


class Worker:
    """A persistent thread on ``cores[0]`` whose operators run on up to ``len(cores)`` threads.

    The intra-operator thread count of PyTorch is kept per thread, so workers do not disturb one
    another. The team is started once: OpenMP keeps the threads of a master from one operator to
    the next. They stay where they are pinned while the worker itself may move with ``take``.
    """

    def __init__(self, cores: tuple[int, ...]) -> None:
        self._team = cores
        self._core, self._threads = cores[0], 0
        self._members: list[int] = []
        self._task: Callable[[], None] | None = None
        self._inbox, self._ready = BlockingSignal(), BlockingSignal()
        self._failure: Exception | None = None
        self._thread = Thread(target=self._serve, name=f"plait-cpu{cores[0]}", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def submit(self, task: Callable[[], None]) -> None:
        """Run ``task`` on the thread. It must not raise; one task at a time."""
        self._task = task
        self._inbox.send()

    def take(self, core: int, threads: int) -> None:
        """From the thread itself: go to ``core`` and use ``threads`` intra-operator threads."""
        if core != self._core:
            os.sched_setaffinity(0, {core})
            self._core = core
        if threads != self._threads:
            torch.set_num_threads(threads)
            if 1 in (threads, self._threads):
                self._yield_team(threads == 1)
            self._threads = threads

    def _yield_team(self, idle: bool) -> None:
        """While the worker runs alone, let its team spin only where no other thread wants the core.

        An idle team spins for milliseconds on the very cores that other streams are forked to: a
        plan with six forks took 7.4 ms in place of the 4.8 ms that its stages took alone. As
        SCHED_IDLE threads its members give way at once, and still answer the next operator sooner
        than if they slept.
        """
        policy = os.SCHED_IDLE if idle else os.SCHED_OTHER
        try:
            for thread in self._members:
                os.sched_setscheduler(thread, policy, os.sched_param(0))
        except PermissionError:
            self._members.clear()  # a container may forbid it; the plan is right without, if slower

    @property
    def closed(self) -> bool:
        return not self._thread.is_alive()

    def close(self) -> None:
        """End the thread and with it its team."""
        if not self.closed:
            self._task = None
            self._inbox.send()
            self._thread.join()

    def _serve(self) -> None:
        with torch.inference_mode():
            try:
                self._start_team()
            except Exception as error:
                self._failure = error
                return
            finally:
                self._ready.send()
            while True:
                self._inbox.wait()
                if self._task is None:
                    return
                self._task()

    def _start_team(self) -> None:
        os.sched_setaffinity(0, {self._core})
        # The first question initialises PyTorch's count for this thread from a process-wide
        # default, which would otherwise happen later and override what is set here.
        torch.get_num_threads()
        self.take(self._core, len(self._team))
        before = _threads_on(self._core)
        torch.zeros(_PARALLEL_GRAIN * len(self._team)).add_(1)
        self._members = sorted(_threads_on(self._core) - before)
        for thread, core in zip(self._members, self._team[1:], strict=False):
            os.sched_setaffinity(thread, {core})


def _threads_on(core: int) -> set[int]:
    """The threads of this process that are pinned to exactly this core.

    A team inherits its master's mask, so this tells its new threads from those that other parts of
    the process start at the same time.
    """
    found = set()
    for entry in _TASKS.iterdir():
        thread = int(entry.name)
        try:
            if os.sched_getaffinity(thread) == {core}:
                found.add(thread)
        except ProcessLookupError:
            continue  # it ended between the listing and the question
    return found
