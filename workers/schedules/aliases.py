"""Which values of a graph may lie in the same memory, told from their operators. No torch.

A view launches no kernel and returns its operand's memory. What shares memory is called by its
**root**: the value whose operator allocates it, or the graph's input or weight that was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.graph.graph import Graph, Operator, ValueRef
from workers.graph.operators import IDENTITY, KINDS, VIEW

_ALWAYS_COPY = {"aten.clone.default", "aten.lift_fresh_copy.default"}

# Views that must copy what they cannot describe by strides.
_MAY_COPY = {
    "aten.reshape.default", "aten.flatten.using_ints", "aten.contiguous.default",
    "aten.dropout.default",
}  # fmt: skip

# These compute, but return their operand or a view of it where there is nothing to compute: a cast
# to the same type, a shuffle by one, no padding, no shift, a reduction over no dimension.
_MAY_RETURN_THE_OPERAND = {
    "aten._to_copy.default", "aten.pixel_shuffle.default", "aten.pixel_unshuffle.default",
    "aten.channel_shuffle.default", "aten.pad.default", "aten.roll.default",
    "aten.any.dims", "aten.nan_to_num.default",
}  # fmt: skip


def may_alias(target: str) -> bool:
    """Whether the operator's results may be memory of its first operand, for some arguments.

    Those that must copy for some operands and not for others (``reshape``, ``contiguous``) may.
    """
    if target in _ALWAYS_COPY:
        return False
    return (
        KINDS.get(target) in (VIEW, IDENTITY)
        or target in _MAY_RETURN_THE_OPERAND
        or writes_operand(target)
    )


def may_copy(target: str) -> bool:
    """Whether the operator's results may be new memory, for some arguments."""
    if writes_operand(target):
        return False
    return not may_alias(target) or target in _MAY_COPY or KINDS[target] not in (VIEW, IDENTITY)


def writes_operand(target: str) -> bool:
    """Whether the operator writes its result into its first operand, by ATen's naming:
    ``aten.relu_.default``. No Graph from an importer has such operators."""
    name = target.split(".")[1]
    return name.endswith("_") and not name.endswith("__")


@dataclass(frozen=True, slots=True)
class Aliases:
    """``root`` maps every value of a graph to its root. ``made`` lists, for each Unit, the roots
    that it allocates and that outlive it, ``read`` those of the values that it reads, weights not
    counted, and ``written`` those of the values of others that it writes in place. ``copies`` are
    the values that may be a copy of their root after all.
    """

    root: Mapping[str, str]
    made: tuple[tuple[str, ...], ...]
    read: tuple[tuple[str, ...], ...]
    written: tuple[tuple[str, ...], ...]
    copies: frozenset[str]

    @property
    def storages(self) -> tuple[str, ...]:
        """The roots that Units allocate for each other or for the graph's outputs, in the graph's
        order."""
        return tuple(root for roots in self.made for root in roots)


def aliases(graph: Graph) -> Aliases:
    """The aliases of ``graph``. What a Unit allocates for itself alone is not among them."""
    root = {name: name for name in (*graph.inputs, *graph.weights)}
    copies: set[str] = set()
    made, read, written = [], [], []
    for unit in graph.units:
        own = set()
        changed: list[str] = []
        for operator in unit.operators:
            source = _operand(operator) if may_alias(operator.target) else None
            for name in operator.outputs:
                root[name] = name if source is None else root[source]
                own.add(name)
                if source is not None and (may_copy(operator.target) or source in copies):
                    copies.add(name)
            if source is not None and writes_operand(operator.target):
                changed.append(root[source])
        made.append(_distinct(root[name] for name in unit.outputs if root[name] in own))
        read.append(_distinct(root[name] for name in unit.inputs))
        written.append(_distinct(name for name in changed if name not in own))
    return Aliases(root, tuple(made), tuple(read), tuple(written), frozenset(copies))


def dependencies(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """For each Unit the positions of those that must have ended before it starts, ascending.

    They are those whose outputs it reads (``graph.predecessors``) and, if Units write in place,
    those that come before it in the graph's order and read what it writes or write what it reads
    or writes.
    """
    found = aliases(graph)
    if not any(found.written):
        return graph.predecessors
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    needed = []
    for position, before in enumerate(graph.predecessors):
        earlier = set(before)
        written = set(found.written[position])
        for name in written.union(found.read[position]):
            if name in writer:
                earlier.add(writer[name])
            if name in written:
                earlier.update(readers.pop(name, ()))
                writer[name] = position
            else:
                readers.setdefault(name, []).append(position)
        needed.append(tuple(sorted(earlier - {position})))
    return tuple(needed)


def _operand(operator: Operator) -> str | None:
    first = operator.arguments[0] if operator.arguments else None
    return first.name if isinstance(first, ValueRef) else None


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
