"""Running a Plan in any order that its streams and events allow, with memory that is shared.

A launch has three steps: it begins to write its results, which spoils what lay in their buffers;
it reads what it reads; it reads that again, as a kernel does for as long as it runs, and its
results are there. What a Unit computes is told by a number that depends on all that it read, so
that a race shows in the outputs. Which stream goes on is for the caller to say.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from workers.graph.graph import Graph
from workers.schedules.aliases import aliases
from workers.schedules.buffers import Buffers
from workers.schedules.plan import Launch, Plan, Stream

UNDEFINED = 0
SPOILT = 1
STEPS = 3


def own_buffers(graph: Graph) -> Buffers:
    """A buffer for each root, as with an allocator that never reuses memory."""
    roots = aliases(graph).storages
    return Buffers(
        {root: number for number, root in enumerate(roots)},
        tuple(graph.values[root].nbytes for root in roots),
    )


@dataclass
class Memory:
    """The contents of ``buffers``, and how the launches of ``graph`` read and write them."""

    graph: Graph
    buffers: Buffers
    contents: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.contents = self.contents or [UNDEFINED] * len(self.buffers.sizes)
        self._aliases = aliases(self.graph)

    def read(self, name: str) -> int:
        """What is there to be read under that name. A view of memory shows all of it."""
        root = self._aliases.root[name]
        buffer = self.buffers.buffer_of.get(root)
        content = hash(root) if buffer is None else self.contents[buffer]
        return content if name == root else hash((name, content))

    def perform(self, unit_name: str, step: int, seen: tuple[int, ...]) -> tuple[int, ...]:
        """One step of a launch that has ``seen`` so much; what it has seen then."""
        position = self.graph.index[unit_name]
        unit = self.graph.units[position]
        made, changed = self._aliases.made[position], self._aliases.written[position]
        if step == 0:
            for root in made:
                self.contents[self.buffers.buffer_of[root]] = SPOILT
            return ()
        if step == 1 or not changed:
            seen += tuple(self.read(name) for name in unit.inputs)
        if step == 1:
            for root in changed:
                self.contents[self.buffers.buffer_of[root]] = SPOILT
            return seen
        for root in (*made, *changed):
            self.contents[self.buffers.buffer_of[root]] = hash((unit_name, root, seen))
        return ()

    def outputs(self) -> tuple[int, ...]:
        return tuple(self.read(name) for name in self.graph.outputs)


@dataclass(frozen=True)
class State:
    """Where every stream stands: its launch, the step in it, and what that launch has seen."""

    positions: tuple[int, ...]
    steps: tuple[int, ...]
    seen: tuple[tuple[int, ...], ...]
    recorded: frozenset[int]
    contents: tuple[int, ...]


class Machine:
    """All runs of a Plan, one step of one stream at a time."""

    def __init__(self, plan: Plan, graph: Graph, buffers: Buffers | None = None) -> None:
        self.graph, self.buffers = graph, buffers or own_buffers(graph)
        streams = {launch.stream for launch in plan.launches}
        self._queues: list[list[Launch]] = [
            [launch for launch in plan.launches if launch.stream == stream]
            for stream in sorted(streams)
        ]

    def start(self) -> State:
        count = len(self._queues)
        contents = (UNDEFINED,) * len(self.buffers.sizes)
        return State((0,) * count, (0,) * count, ((),) * count, frozenset(), contents)

    def able(self, state: State) -> list[int]:
        """The streams that can go on; none at the end, and none when the Plan hangs."""
        return [
            stream
            for stream, queue in enumerate(self._queues)
            if state.positions[stream] < len(queue)
            and state.recorded.issuperset(queue[state.positions[stream]].waits)
        ]

    def step(self, state: State, stream: int) -> State:
        launch = self._queues[stream][state.positions[stream]]
        memory = Memory(self.graph, self.buffers, list(state.contents))
        step = state.steps[stream]
        seen = memory.perform(launch.unit, step, state.seen[stream])
        ended = step == STEPS - 1
        recorded = state.recorded
        if ended and launch.records is not None:
            recorded |= {launch.records}
        return State(
            _with(state.positions, stream, state.positions[stream] + ended),
            _with(state.steps, stream, 0 if ended else step + 1),
            _with(state.seen, stream, seen),
            recorded,
            tuple(memory.contents),
        )

    def result(self, state: State) -> tuple[int, ...] | None:
        """The outputs; None if launches are left, which then wait for ever."""
        if any(p < len(q) for p, q in zip(state.positions, self._queues, strict=True)):
            return None
        return Memory(self.graph, self.buffers, list(state.contents)).outputs()


def _with(values: tuple, position: int, value: object) -> tuple:
    return (*values[:position], value, *values[position + 1 :])


def expected(graph: Graph) -> tuple[int, ...]:
    """The outputs of the Units one after another, each value in a place of its own."""
    plan = Plan((Stream(),), tuple(Launch(unit.name, 0) for unit in graph.units))
    return run_at_random(plan, graph, None, seed=0) or ()


def run_at_random(
    plan: Plan, graph: Graph, buffers: Buffers | None, seed: int
) -> tuple[int, ...] | None:
    """The outputs of one run, or None if it hangs. Streams differ in speed, some by far: a seed
    gives each a weight with which it is picked."""
    generator = random.Random(seed)
    machine = Machine(plan, graph, buffers)
    state = machine.start()
    weights = [generator.choice((1, 1, 10, 100)) for _ in state.positions]
    while able := machine.able(state):
        (stream,) = generator.choices(able, [weights[stream] for stream in able])
        state = machine.step(state, stream)
    return machine.result(state)


def all_results(
    plan: Plan, graph: Graph, buffers: Buffers | None = None
) -> Iterator[tuple[int, ...] | None]:
    """The outputs of every run that there can be; for Plans of a few launches."""
    machine = Machine(plan, graph, buffers)
    waiting = [machine.start()]
    seen = set(waiting)
    while waiting:
        state = waiting.pop()
        able = machine.able(state)
        if not able:
            yield machine.result(state)
        for stream in able:
            following = machine.step(state, stream)
            if following not in seen:
                seen.add(following)
                waiting.append(following)


def run_in_threads(
    plan: Plan, graph: Graph, buffers: Buffers, seed: int, timeout_s: float = 5
) -> tuple[int, ...] | None:
    """A thread for each stream, real events, and random delays; None if it hangs."""
    memory = Memory(graph, buffers)
    events: dict[int, threading.Event] = {}
    for launch in plan.launches:
        for event in (*launch.waits, *((launch.records,) if launch.records is not None else ())):
            events.setdefault(event, threading.Event())
    hung = threading.Event()

    def work(stream: int) -> None:
        generator = random.Random(f"{seed}:{stream}")
        for launch in plan.launches:
            if launch.stream != stream:
                continue
            for event in launch.waits:
                if not events[event].wait(timeout_s):
                    hung.set()
                    return
            seen: tuple[int, ...] = ()
            for step in range(STEPS):
                seen = memory.perform(launch.unit, step, seen)
                time.sleep(generator.choice((0, 0, 1e-5, 1e-3)))
            if launch.records is not None:
                events[launch.records].set()

    threads = [
        threading.Thread(target=work, args=(stream,))
        for stream in {launch.stream for launch in plan.launches}
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return None if hung.is_set() else memory.outputs()
