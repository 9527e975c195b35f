"""How long the memory that a Plan's launches allocate is in use."""

from __future__ import annotations

from dataclasses import dataclass

from workers.graph.graph import Graph
from workers.schedules.aliases import aliases
from workers.schedules.plan import Plan


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The memory of one root (``workers.schedules.aliases``).

    ``maker`` is the launch that allocates it; ``users`` the launches that allocate, read or write
    it under any name, as a bit mask; ``values`` the names under which Units exchange it;
    ``returned`` says that one of them is an output of the graph. ``nbytes`` are those of the root.
    A view that copies after all takes memory of its own besides: ``copiers`` are the launches that
    may allocate such copies, as a bit mask.
    """

    root: str
    nbytes: int
    maker: int
    users: int
    values: tuple[str, ...]
    returned: bool
    copiers: int


def lifetimes(plan: Plan, graph: Graph) -> tuple[Lifetime, ...]:
    """The lifetimes of all that Units allocate for each other or for the graph's outputs, in the
    graph's order. Needs every Unit launched once. Inputs and weights are the caller's."""
    found = aliases(graph)
    position = {launch.unit: number for number, launch in enumerate(plan.launches)}
    launch_of = [position[unit.name] for unit in graph.units]
    maker = {
        root: launch for roots, launch in zip(found.made, launch_of, strict=True) for root in roots
    }
    users = {root: 1 << launch for root, launch in maker.items()}
    copiers = dict.fromkeys(maker, 0)
    values: dict[str, list[str]] = {root: [] for root in maker}
    for unit, roots, launch in zip(graph.units, found.read, launch_of, strict=True):
        for root in roots:
            if root in users:
                users[root] |= 1 << launch
        for name in unit.outputs:
            root = found.root[name]
            if root in values:
                values[root].append(name)
                if name in found.copies:
                    copiers[root] |= 1 << launch
    returned = {found.root[name] for name in graph.outputs}
    return tuple(
        Lifetime(
            root=root,
            nbytes=graph.values[root].nbytes,
            maker=maker[root],
            users=users[root],
            values=tuple(values[root]),
            returned=root in returned,
            copiers=copiers[root],
        )
        for root in found.storages
    )
