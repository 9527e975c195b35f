"""Whether a schedule of stages is faster without the barriers between them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from workers.devices.base import CancelledError, DeviceError
from workers.graph.random_inputs import random_inputs
from workers.measure.compare import Care, compare
from workers.measure.noise import NoisyMachineError
from workers.runner.memory import enough_memory
from workers.runner.quiet import Watch
from workers.runner.reporting import Reporter
from workers.runner.workplace import Candidate, Prepared, Workplace
from workers.schedules.lower import lower
from workers.schedules.schedule import StageSchedule

TIMES = 2
"""As often a schedule must be found faster without barriers, prepared afresh each time, as the
winner of a job must be: one comparison in forty finds a difference where there is none."""

CARE = Care(limit_s=2.0)
"""What is kept here is compared with everything else later, and with more care."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Whether removing the barriers makes a schedule faster, and what it does in words."""

    faster: bool
    words: str


def without_needless_barriers(
    candidate: Candidate,
    model: Prepared,
    place: Workplace,
    reporter: Reporter,
    watch: Watch,
    seed: int,
) -> Candidate:
    """The candidate, or the same stages without barriers if that is faster.

    Barriers belong to the search, which times each stage alone (IOS, Section 3). Without them a
    Unit waits only for what it reads, which lets stages overlap, but Units that the search kept
    apart may then compete. Where latencies are computed the lower one wins; measured ones must
    differ beyond their interval, more than once. A Plan that stays the same is not compared.
    """
    other = _without_barriers(candidate, place.device.facts.parallelism)
    if other.plan == candidate.plan:
        return candidate
    message = f"{candidate.scheduler} with and without barriers between its stages"
    reporter.step("tuning", 0, 0, message)
    try:
        with enough_memory(candidate.scheduler):
            gain = _computed(candidate, other, place) or _measured(
                candidate, other, model, place, watch, seed
            )
    except CancelledError:
        raise
    except (DeviceError, NoisyMachineError) as error:
        reporter.warn(f"{candidate.scheduler} keeps its barriers, comparing failed: {error}")
        return candidate
    words = f"{gain.words}, simulated" if place.device.facts.simulated else gain.words
    reporter.log(
        f"{candidate.scheduler} without barriers between its stages: {words}, so they"
        f" {'are removed' if gain.faster else 'stay'}"
    )
    if not gain.faster:
        return candidate
    notes = (*candidate.found.notes, f"without barriers between its stages, {words}")
    return replace(other, found=replace(other.found, notes=notes))


def _without_barriers(candidate: Candidate, parallelism: int) -> Candidate:
    found, merged = candidate.found, candidate.merged
    if not isinstance(found.schedule, StageSchedule) or not isinstance(
        merged.schedule, StageSchedule
    ):
        return candidate
    rewritten = replace(merged.schedule, barriers=False)
    return replace(
        candidate,
        found=replace(found, schedule=replace(found.schedule, barriers=False)),
        merged=replace(merged, schedule=rewritten),
        plan=lower(rewritten, merged.graph, parallelism),
    )


def _computed(candidate: Candidate, other: Candidate, place: Workplace) -> Gain | None:
    """On a device that computes its latencies; None on one that measures."""
    device, graph = place.device, candidate.merged.graph
    with_barriers = device.latency_ms(graph, candidate.plan)
    without = device.latency_ms(graph, other.plan)
    if with_barriers is None or without is None:
        return None
    return Gain(without < with_barriers, f"{with_barriers / without:.3f}× as fast")


def _measured(
    candidate: Candidate,
    other: Candidate,
    model: Prepared,
    place: Workplace,
    watch: Watch,
    seed: int,
) -> Gain:
    inputs, simulated = random_inputs(model.graph, seed), place.device.facts.simulated
    for repetition in range(TIMES):
        with ExitStack() as stack:
            ready = {
                name: stack.enter_context(
                    place.device.prepare(c.merged.graph, c.merged.weights, c.plan, model.provider)
                )
                for name, c in (("with", candidate), ("without", other))
            }
            measuring = partial(
                compare, ready, inputs, "with", CARE, seed=repetition, simulated=simulated
            )
            compared, _ = watch.measure(measuring)
        found = compared["without"]
        if found.verdict != "faster":
            break
    return Gain(
        found.verdict == "faster",
        f"{found.speedup:.3f}× as fast ({found.low:.3f} to {found.high:.3f})",
    )
