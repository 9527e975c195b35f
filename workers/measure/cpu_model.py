"""What a CPU is expected to make of a whole Plan, from what its Units take alone: an *estimate*.

A discrete-event simulation of the Plan's hosts (``workers.schedules.arrangement``). Each runs its
steps one after the other, and waits for what others signal. All hosts but the first sleep until a
run begins, and the first waits for them at its end. Units that run side by side slow each other
down in two ways:

- **Cores.** If they have more threads together than there are cores, all get their share.
- **Memory.** A Unit that takes ``memory`` of the memory's bandwidth when it is alone computes the
  rest of the time. If Units together ask for more than there is, only the part of each that waits
  for memory becomes slower, in proportion.

It serves searches that ask for thousands of schedules. Nothing that it says is ever reported as a
latency.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.schedules.arrangement import Arrangement, Step

HAND_OVER_MS, WAKE_MS = 0.004, 0.03
"""Between a launch and one on another host that waits for it, *estimate*: a few microseconds to be
seen by a thread that spins, and as long as it takes to wake a core up where it sleeps
(``workers.devices.signals``)."""

_PRECISE = 1e-9  # of the bandwidth


@dataclass(frozen=True, slots=True)
class Work:
    """A Unit alone on some threads: its latency, and the part of the bandwidth that it takes."""

    latency_ms: float
    memory: float


@dataclass(slots=True)
class _Running:
    """A host's step in progress: what is left of it, in ms of running alone."""

    step: Step
    left: float
    work: Work


def expected_ms(
    arrangement: Arrangement, work: Mapping[tuple[str, int], Work], cores: int
) -> float:
    """The latency of an arranged Plan. ``work`` is that of each Unit on each number of threads that
    it may run on."""
    hosts = [host.steps for host in arrangement.hosts]
    following = [0] * len(hosts)
    running: dict[int, _Running] = {}
    signalled = [math.inf] * arrangement.signals
    now = 0.0
    ended = 0.0
    while True:
        arriving = math.inf
        for number, steps in enumerate(hosts):
            if number in running or following[number] == len(steps):
                continue
            step = steps[following[number]]
            begins = WAKE_MS if number and not following[number] else 0.0
            seen = (signalled[wait.signal] + _seen(wait.spin) for wait in step.waits)
            ready = max(begins, *seen) if step.waits else begins
            if ready <= now:
                alone = work[step.unit, step.threads]
                running[number] = _Running(step, alone.latency_ms, alone)
                following[number] += 1
            else:
                arriving = min(arriving, ready)
        if not running and arriving == math.inf:
            return ended
        rates = _rates(running, cores)
        soonest = min(
            (one.left / rates[number] for number, one in running.items()), default=math.inf
        )
        step_ms = min(soonest, arriving - now)
        now += step_ms
        for number in list(running):
            one = running[number]
            one.left -= step_ms * rates[number]
            # What is left by rounding would take a step of its own, without end.
            if one.left <= 1e-12 * max(one.work.latency_ms, 1.0):
                for signal in one.step.sends:
                    signalled[signal] = now
                last = number and following[number] == len(hosts[number])
                ended = max(ended, now + _seen(arrangement.spin_at_end) if last else now)
                del running[number]


def _seen(spinning: bool) -> float:
    """How long a signal takes until who waits for it goes on, in ms."""
    return HAND_OVER_MS if spinning else WAKE_MS


def _rates(running: Mapping[int, _Running], cores: int) -> dict[int, float]:
    """How fast each goes, of 1 when it is alone."""
    threads = sum(one.step.threads for one in running.values())
    share = min(1.0, cores / threads) if threads else 1.0
    slower = _memory_factor([one.work.memory for one in running.values()])
    return {
        number: share / (1 - one.work.memory + one.work.memory * slower)
        for number, one in running.items()
    }


def _memory_factor(memory: Sequence[float]) -> float:
    """How many times longer waiting for memory takes: the x ≥ 1 at which m / (1 - m + m·x), summed
    over all, is no more than 1. By Newton's method, which rises to it because the sum is convex."""
    factor = 1.0
    while True:
        taken = [m / (1 - m + m * factor) for m in memory if m]
        above = math.fsum(taken) - 1
        if above <= _PRECISE:
            return factor
        factor += above / math.fsum(one * one for one in taken)
