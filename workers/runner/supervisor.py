"""The parent of a job: claims it, watches over its child process, and settles what is left.

The parent never imports torch. The child is a fresh process in its own session, so a job can be
killed whole, a crash takes nothing else down, and nothing else runs while it measures.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import orjson
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from backend.jobs.states import JobState
from backend.settings import Settings
from workers.runner.lanes import Lane, Lanes
from workers.runner.store import Announce, Claim, claim_next, end_attempt, release, renew_lease

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    log: Path


class Supervisor:
    """Works through the queues of its devices, one job at a time in each lane (``lanes``)."""

    def __init__(
        self, settings: Settings, sessions: sessionmaker[Session], announce: Announce, worker: str
    ) -> None:
        self._settings, self._sessions = settings, sessions
        self._announce, self._worker = announce, worker
        self._lanes = Lanes()
        self._stopping = Event()

    def stop(self) -> None:
        """Hand running jobs back and take no more. Returns at once; ``work`` returns soon."""
        self._stopping.set()

    def work(self, device: str) -> None:
        """Answer a doorbell: run queued jobs of ``device``, and of those that share its lane, until
        none is left.

        If the lane is being worked on already, leave a note for whoever does and return at once.
        """
        lane = self._lanes.ring(device)
        while lane.rung.is_set() and not self._stopping.is_set():
            if not lane.busy.acquire(blocking=False):
                return
            try:
                lane.rung.clear()
                self._drain(lane)
            finally:
                lane.busy.release()

    def _drain(self, lane: Lane) -> None:
        lease = self._settings.lease_seconds
        while not self._stopping.is_set():
            claim = claim_next(self._sessions, self._announce, lane.devices, self._worker, lease)
            if claim is None:
                return
            self._attend(claim)

    def _attend(self, claim: Claim) -> None:
        """Run one claimed job in a child process until it is settled."""
        child = self._spawn(claim)
        try:
            still_ours = self._watch(child, claim)
        finally:
            self._kill(child)
        if self._stopping.is_set():
            release(self._sessions, self._announce, claim)
        elif still_ours:
            end_attempt(
                self._sessions,
                self._announce,
                claim,
                self._settings.max_attempts,
                _how_it_ended(child),
            )

    def _spawn(self, claim: Claim) -> _Child:
        directory = self._settings.home / "logs" / "jobs"
        directory.mkdir(parents=True, exist_ok=True)
        log = directory / f"{claim.job_id}-{claim.fence}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers.runner.child"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert process.stdin is not None  # noqa: S101  # asked for just above
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(
                orjson.dumps(
                    {
                        "supervisor": os.getpid(),
                        "job_id": claim.job_id,
                        "fence": claim.fence,
                        "attempt": claim.attempt,
                        "spec": claim.spec,
                        "upload_id": claim.upload_id,
                        "model_name": claim.model_name,
                    }
                )
            )
        return _Child(process, log)

    def _watch(self, child: _Child, claim: Claim) -> bool:
        """Heartbeat until the child ends or must end. False if the claim went stale."""
        renewed = time.monotonic()
        while not self._stopping.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(self._settings.heartbeat_seconds)
                return True
            try:
                state = renew_lease(self._sessions, claim, self._settings.lease_seconds)
            except OperationalError as error:
                logger.warning("no heartbeat for job %s: %s", claim.job_id, error)
                if time.monotonic() - renewed > self._settings.lease_seconds:
                    return False  # somebody else may have claimed it by now
                continue
            renewed = time.monotonic()
            if state is None:
                return self._ended_by_itself(child)
            if state is JobState.CANCELLING:
                return True
        return True

    def _ended_by_itself(self, child: _Child) -> bool:
        """The claim is stale: either the child has just settled the job, or it was taken away."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(self._settings.cancel_grace_seconds)
        return False

    def _kill(self, child: _Child) -> None:
        """SIGTERM, grace, SIGKILL, to the child's whole group."""
        group = child.process.pid
        with contextlib.suppress(ProcessLookupError):
            if child.process.poll() is None:
                os.killpg(group, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.process.wait(self._settings.cancel_grace_seconds)
            os.killpg(group, signal.SIGKILL)
        child.process.wait()


def _how_it_ended(child: _Child) -> str:
    code = child.process.returncode
    if code < 0:
        return f"the job's process was killed by {signal.Signals(-code).name}"
    lines = child.log.read_text(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return f"the job's process ended with exit code {code}{last}"
