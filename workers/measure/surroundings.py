"""What surrounds a stage in its model, so that it is timed with the caches as it finds them there.

Timed again and again by itself, a stage finds its weights, its inputs and the memory of its outputs
in the caches, where it left them; in the whole model everything else has run since. So before each
timed run others' memory is touched, as much of it as the rest of the model touches, and then the
Units run that the stage reads from, with a few before them: where their kernels left the inputs, in
which core's caches, and what memory and code was used just now, nothing else can imitate. What is
timed begins when the last of them ends, as it does in the Plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from workers.devices.base import Surroundings
from workers.graph.graph import Graph
from workers.graph.signature import Signatures
from workers.schedules.buffers import assign_buffers
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule

_CACHES = 2
"""Touching this many times what the caches hold leaves nothing else in them, though they may not
drop what was used longest ago first."""

LEAD_IN = 6
"""Units that run before a stage, if it depends on as many: more if more make what it reads. Kernels
and memory that others have just used are as they are in the model then, and few runs are as long
as what displaces the weights."""

MANY_FLOPS, MANY_BYTES = 1_000_000, 1 << 20
"""A Unit of so many is worth several threads: with fewer it takes a core some 20 µs."""

_LEAST_BYTES = 1 << 20
"""Less than this stays in a core's own caches, beside what the stage uses: nothing is touched."""


class Neighbourhood:
    """The surroundings of the stages of one graph on one device: ``cache_bytes`` is what the
    device's caches hold."""

    def __init__(self, graph: Graph, signatures: Signatures, cache_bytes: int) -> None:
        self._graph, self._signatures = graph, signatures
        self._most = _CACHES * cache_bytes
        self._weights = sum(spec.nbytes for spec in graph.specs(graph.weights))
        one_by_one = StageSchedule("whole", tuple(Stage(((u.name,),)) for u in graph.units))
        self._values = assign_buffers(lower(one_by_one, graph, 1), graph).peak_bytes

    def lead_in(self, units: Sequence[str]) -> tuple[str, ...]:
        """The Units that make what these read, and the nearest of those that these depend on, in
        the graph's order."""
        chosen = {self._graph.index[name] for name in units}
        found: set[int] = set()
        near = {before for unit in chosen for before in self._graph.predecessors[unit]} - chosen
        while near and (len(found) < LEAD_IN or self._makes(near, chosen)):
            nearest = max(self._makes(near, chosen) or near)
            found.add(nearest)
            near |= set(self._graph.predecessors[nearest])
            near -= found | chosen
        return tuple(self._graph.units[position].name for position in sorted(found))

    def alike(self, units: Sequence[str]) -> bool:
        """Whether what leads in runs on as many threads as the stage's first group, and not on all:
        where it is so little that the stages around would be on few threads, too. A change of
        threads costs as much as such a stage takes."""
        before = [self._graph.unit(name) for name in self.lead_in(units)]
        return all(unit.flops < MANY_FLOPS and unit.bytes_moved < MANY_BYTES for unit in before)

    def _makes(self, near: set[int], chosen: set[int]) -> set[int]:
        """Those that make what the chosen read."""
        return {unit for unit in near if not chosen.isdisjoint(self._graph.successors[unit])}

    def of(self, units: Sequence[str]) -> Surroundings:
        """Of a stage of these Units. Amounts are rounded, so that equal stages of models of about
        the same size have the same surroundings."""
        here = [*self.lead_in(units), *units]
        weights = {name for unit in here for name in self._graph.unit(unit).weights}
        made = {name for unit in here for name in self._graph.unit(unit).outputs}
        own, values = self._bytes(weights), self._bytes(made)
        return Surroundings(
            lead_in=len(here) - len(units),
            weights_bytes=rounded(min(self._weights - own, self._most)),
            values_bytes=rounded(min(self._values - values, self._most)),
        )

    def words(self, units: Sequence[str]) -> str:
        """For the key of a measurement: what ran before, by structure, and the bytes touched."""
        given, before = self.of(units), self.lead_in(units)
        text = f" within={given.weights_bytes >> 10}K+{given.values_bytes >> 10}K"
        if before:
            positions = [self._graph.index[name] for name in (*before, *units)]
            text += f" after={self._signatures.of(positions)[:16]}"
        return text

    def _bytes(self, names: set[str]) -> int:
        return sum(self._graph.values[name].nbytes for name in names)


def rounded(amount: int) -> int:
    """To a power of √2; nothing if it is hardly anything."""
    if amount < _LEAST_BYTES:
        return 0
    return int(2 ** (round(2 * math.log2(amount)) / 2)) >> 10 << 10
