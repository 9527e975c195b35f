"""The steps of a local search: small changes of a schedule, each of which is a schedule again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from workers.graph.graph import Graph
from workers.schedulers.auto.launches import Launches, numbered, with_providers
from workers.schedules.aliases import dependencies


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What a schedule of one graph may be changed to.

    ``before`` and ``after`` are, for each Unit, the positions of those that must be launched
    earlier and later. ``weights`` say how likely each Unit is to be touched: those that take long
    decide more. A Plan gets ``max_streams`` streams at most, and each of them up to ``parallelism``
    threads, where that is more than one. ``providers`` name whose kernels a Unit may have, None the
    job's own.
    """

    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]
    max_streams: int
    parallelism: int = 1
    providers: tuple[str | None, ...] = (None,)

    @classmethod
    def of(
        cls,
        graph: Graph,
        weights: Sequence[float],
        max_streams: int,
        parallelism: int = 1,
        providers: tuple[str | None, ...] = (None,),
    ) -> Neighbourhood:
        """Of a graph whose Units have these ``weights``, such as their latencies."""
        before = tuple(tuple(found) for found in dependencies(graph))
        after: list[list[int]] = [[] for _ in before]
        for position, earlier in enumerate(before):
            for other in earlier:
                after[other].append(position)
        least = max(weights, default=1.0) * 1e-3 or 1.0
        return cls(
            before,
            tuple(map(tuple, after)),
            tuple(max(weight, least) for weight in weights),
            max_streams,
            parallelism,
            providers,
        )

    def neighbour(self, launches: Launches, random: Random) -> Launches:
        """A schedule that differs in one step, drawn with ``random``; now and then none does, and
        the same one comes back."""
        moves: list[Callable[[Launches, Random], Launches]] = [
            self._move, self._move, self._shift, self._shift, self._split, self._join,
            self._cross,
        ]  # fmt: skip
        if self.parallelism > 1:
            moves.append(self._threads)
        if len(self.providers) > 1:
            moves += [self._provider, self._providers]
        return random.choice(moves)(launches, random)

    def _move(self, launches: Launches, random: Random) -> Launches:
        """One Unit to another stream, perhaps a new one."""
        if self.max_streams < 2:
            return launches
        place = self._place(launches, random)
        count = launches.stream_count
        others = [
            s for s in range(min(count + 1, self.max_streams)) if s != launches.streams[place]
        ]
        streams = list(launches.streams)
        streams[place] = random.choice(others)
        return self._renumbered(launches, streams)

    def _shift(self, launches: Launches, random: Random) -> Launches:
        """One Unit earlier or later in the launch order, as far as its dependencies allow."""
        place = self._place(launches, random)
        where = {unit: number for number, unit in enumerate(launches.order)}
        unit = launches.order[place]
        first = max((where[other] + 1 for other in self.before[unit]), default=0)
        last = min((where[other] - 1 for other in self.after[unit]), default=len(where) - 1)
        if first == last:
            return launches
        to = random.choice([number for number in range(first, last + 1) if number != place])
        order, streams = list(launches.order), list(launches.streams)
        order.insert(to, order.pop(place))
        streams.insert(to, streams.pop(place))
        return numbered(order, streams, launches.threads, launches.providers)

    def _split(self, launches: Launches, random: Random) -> Launches:
        """A stream in two: what comes from some Unit on goes to a new one."""
        if launches.stream_count >= self.max_streams:
            return launches
        place = self._place(launches, random)
        return self._tail_to(launches, place, launches.stream_count)

    def _join(self, launches: Launches, random: Random) -> Launches:
        """Two streams in one."""
        if launches.stream_count < 2:
            return launches
        kept, gone = random.sample(range(launches.stream_count), 2)
        streams = [kept if stream == gone else stream for stream in launches.streams]
        return self._renumbered(launches, streams)

    def _cross(self, launches: Launches, random: Random) -> Launches:
        """Two streams exchange what comes from some moment on."""
        if launches.stream_count < 2:
            return launches
        place = self._place(launches, random)
        one = launches.streams[place]
        other = random.choice([s for s in range(launches.stream_count) if s != one])
        swapped = {one: other, other: one}
        streams = [
            swapped.get(stream, stream) if number >= place else stream
            for number, stream in enumerate(launches.streams)
        ]
        return self._renumbered(launches, streams)

    def _threads(self, launches: Launches, random: Random) -> Launches:
        """Another thread count for one stream."""
        count = launches.stream_count
        threads = list(launches.threads or [max(1, self.parallelism // max(1, count))] * count)
        stream = random.randrange(count)
        choices = [n for n in range(1, self.parallelism + 1) if n != threads[stream]]
        threads[stream] = random.choice(choices)
        return replace(launches, threads=tuple(threads))

    def _provider(self, launches: Launches, random: Random) -> Launches:
        """Another provider's kernels for one Unit."""
        unit = launches.order[self._place(launches, random)]
        return self._provided(launches, [unit], random)

    def _providers(self, launches: Launches, random: Random) -> Launches:
        """The same kernels for a Unit and all that it depends on or that depends on it directly:
        one Unit alone may cost more to change than it gains, because of how values lie in
        memory."""
        unit = launches.order[self._place(launches, random)]
        return self._provided(launches, [unit, *self.before[unit], *self.after[unit]], random)

    def _provided(self, launches: Launches, units: Sequence[int], random: Random) -> Launches:
        providers = list(launches.providers or [None] * len(launches.order))
        others = [name for name in self.providers if name != providers[units[0]]]
        chosen = random.choice(others)
        for unit in units:
            providers[unit] = chosen
        return with_providers(launches, providers)

    def _tail_to(self, launches: Launches, place: int, target: int) -> Launches:
        one = launches.streams[place]
        streams = [
            target if number >= place and stream == one else stream
            for number, stream in enumerate(launches.streams)
        ]
        return self._renumbered(launches, streams)

    def _renumbered(self, launches: Launches, streams: Sequence[int]) -> Launches:
        """A new stream gets the threads of the one that most of its Units come from."""
        if not launches.threads:
            return numbered(launches.order, streams, providers=launches.providers)
        threads = list(launches.threads)
        for old, new in zip(launches.streams, streams, strict=True):
            if new == len(threads):
                threads.append(launches.threads[old])
        return numbered(launches.order, streams, threads, launches.providers)

    def _place(self, launches: Launches, random: Random) -> int:
        """A launch, by its Unit's weight."""
        weights = [self.weights[unit] for unit in launches.order]
        return random.choices(range(len(weights)), weights)[0]
