"""Running steps one after another, each with its time, whatever becomes of the others."""

from __future__ import annotations

import faulthandler
import json
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workers.devices import open_device
from workers.devices.base import Device, Executable
from workers.graph.graph import Graph
from workers.schedules.plan import Plan

HANG = 2.0
"""A step that takes this many times its seconds hangs: the results so far are written, and a new
process goes on after it, since a thread in a CUDA call cannot be ended."""


@dataclass(frozen=True)
class Step:
    """``needs`` is ``cuda`` for what only the CUDA device has, also an emulated one, and ``real``
    for what needs a GPU."""

    name: str
    seconds: float
    run: Callable[[Bench], dict[str, Any]]
    needs: str = ""


class CheckError(AssertionError):
    """A check that failed, in words."""


@dataclass
class Bench:
    """What steps use: the device, the log, how long they may go on."""

    device_name: str
    out: Path
    seconds: float
    started: float = field(default_factory=time.monotonic)
    again: tuple[str, ...] = ()
    results: dict[str, Any] = field(default_factory=dict)
    todo: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _device: Device | None = None
    _deadline: float = 0.0

    # For steps.

    @property
    def device(self) -> Device:
        if self._device is None:
            self._device = self.open()
        return self._device

    def open(self) -> Device:
        """The device once more."""
        if self.device_name != "emulated":
            return open_device(self.device_name)
        from support.cuda_emulation import EmulatedDriver  # noqa: PLC0415  # of the tests
        from support.gpus import h200_facts  # noqa: PLC0415

        from workers.devices.cuda.device import CudaDevice  # noqa: PLC0415

        return CudaDevice(h200_facts(), EmulatedDriver(eagerness=0.9))

    @property
    def real(self) -> bool:
        return self.device_name.startswith("cuda")

    @property
    def cuda(self) -> bool:
        return self.real or self.device_name == "emulated"

    @property
    def left(self) -> float:
        """Seconds that the step may still take."""
        return self._deadline - time.monotonic()

    def prepare(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        plan: Plan,
        capture: bool = True,
        **more: Any,
    ) -> Executable:
        """The Plan on the device, as a CUDA Graph or kernel by kernel where there is a choice."""
        if self.cuda:
            more["capture"] = capture
        return self.device.prepare(graph, weights, plan, **more)

    @property
    def captures(self) -> tuple[bool, ...]:
        return (True, False) if self.cuda else (False,)

    def say(self, words: str) -> None:
        line = f"{time.monotonic() - self.started:7.1f} s  {words}"
        print(line, flush=True)
        with (self.out / "log.txt").open("a") as file:
            file.write(line + "\n")

    def check(self, good: bool, words: str) -> None:
        """Note a failure and go on."""
        if not good:
            self.failures.append(words)
            self.say(f"FAILED: {words}")

    def attempt(self, what: str, body: Callable[[], Any]) -> Any:
        """What ``body`` returns; an error is a failure of the step, and does not end it."""
        try:
            return body()
        except Exception as error:
            self.check(False, f"{what}: {type(error).__name__}: {error}")
            self.say(traceback.format_exc(limit=-6))
            return {"error": f"{type(error).__name__}: {error}"}

    # For main.

    def run(self, steps: Sequence[Step], resumes: bool = False) -> int:
        """All steps; 1 if one failed. With ``resumes`` after those that ``out`` has already."""
        self.out.mkdir(parents=True, exist_ok=True)
        self.results = {"stamp": _stamp(), "device": self.device_name, "steps": {}}
        if resumes:
            self.results = json.loads((self.out / "results.json").read_text())
            self.started -= self.results["seconds"]
        self.todo = [step.name for step in steps]
        for step in steps:
            self.todo.remove(step.name)
            self._step(step)
            self._write()
            if self.todo and self._broken:
                self._go_on("the GPU is unusable in this process")
        if self._device is not None:
            self.attempt("closing the device", self._device.close)
        states = {name: found["state"] for name, found in self.results["steps"].items()}
        self.say(", ".join(f"{name} {state}" for name, state in states.items()))
        return int(any(state in ("failed", "hung") for state in states.values()))

    @property
    def _broken(self) -> bool:
        shared = getattr(self._device, "_shared", None)
        return getattr(shared, "broken", None) is not None

    def _go_on(self, why: str) -> None:
        """Do what is left in a new process, in place of this one."""
        if not (self.again and self.todo):
            os._exit(3)
        self.say(f"{why}: a new process goes on with {self.todo[0]}")
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *self.again, "--resume", *self.todo])

    def _step(self, step: Step) -> bool:
        over = self.seconds - (time.monotonic() - self.started)
        reason = self._reason_to_skip(step, over)
        if reason:
            self.results["steps"][step.name] = {"state": f"skipped: {reason}"}
            self.say(f"{step.name}: skipped, {reason}")
            return True
        seconds = min(step.seconds, over)
        begun = time.monotonic()
        self._deadline = begun + seconds
        self.failures = []
        self.say(f"{step.name}: at most {seconds:.0f} s")
        patience = min(HANG * seconds, over) + 20
        watchdog = threading.Timer(patience, self._give_up, [step.name])
        watchdog.daemon = True
        watchdog.start()
        found: dict[str, Any] = {}
        try:
            found = step.run(self)
        except Exception as error:
            self.failures.append(f"{type(error).__name__}: {error}")
            self.say(traceback.format_exc())
        finally:
            watchdog.cancel()
        state = "failed" if self.failures else "passed"
        took = round(time.monotonic() - begun, 1)
        self.results["steps"][step.name] = {
            "state": state,
            "seconds": took,
            "failures": self.failures,
            **found,
        }
        self.say(f"{step.name}: {state} in {took} s")
        return not self.failures

    def _reason_to_skip(self, step: Step, over: float) -> str:
        if step.needs == "cuda" and not self.cuda:
            return "needs the CUDA device"
        if step.needs == "real" and not self.real:
            return "needs a GPU"
        return "no time is left" if over < 5 else ""

    def _give_up(self, name: str) -> None:
        self.say(f"{name} hangs; where:")
        with (self.out / "log.txt").open("a") as file:
            faulthandler.dump_traceback(file=file)
        faulthandler.dump_traceback(file=sys.stderr)
        self.results["steps"][name] = {"state": "hung", "failures": self.failures}
        self._write()
        self._go_on(f"{name} hangs")

    def _write(self) -> None:
        self.results["seconds"] = round(time.monotonic() - self.started, 1)
        text = json.dumps(self.results, indent=1, default=str)
        partial = self.out / "results.json.part"
        partial.write_text(text + "\n")
        partial.replace(self.out / "results.json")  # whole, whenever the machine is taken away


def _stamp() -> dict[str, Any]:
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
