"""Which Units of a graph can be merged (IOS, Section 3), and why others cannot."""

from __future__ import annotations

from collections.abc import Sequence

from workers.graph.graph import Graph
from workers.schedules.anatomy import Anatomy, differences, read_units, take_apart
from workers.schedules.merged_layer import Frame, frame_of

Family = tuple[tuple[str, ...], ...]
"""Units that differ in nothing but the number of their filters, in having a bias and in their
frames, one tuple for each frame. All Units of a set that ``mergeable`` admits are of one family,
and which frames are in a set of one family decides whether it does."""


def mergeable(graph: Graph, units: Sequence[str]) -> str | None:
    """None if ``merge_stages`` can make one Unit of these, else why not, in words.

    Each must hold one layer, a convolution without groups or a product with weights, of the same
    kind and on the same value; what it computes before the layer must be the same, and so must
    what it computes from the result, which may be pointwise operators only. Views may follow.
    Layers may differ in their number of filters, in having a bias, and convolutions in kernel and
    padding if the smaller kernel can lie in the larger (``merged_layer``).

    Raises GraphError for a Unit that the graph lacks.
    """
    found = read_units(graph, units)
    return found if isinstance(found, str) else None


def families(graph: Graph, units: Sequence[str]) -> tuple[Family, ...]:
    """The families of two Units or more, in the order of their first Units.

    Being alike is an equivalence, so that a Unit is compared with one of each family only.
    """
    found: list[list[Anatomy]] = []
    for name in units:
        anatomy = take_apart(graph.unit(name), graph)
        if isinstance(anatomy, str):
            continue
        for family in found:
            if next(differences(family[0], anatomy, graph), None) is None:
                family.append(anatomy)
                break
        else:
            found.append([anatomy])
    return tuple(_by_frame(family, graph) for family in found if len(family) > 1)


def _by_frame(family: Sequence[Anatomy], graph: Graph) -> Family:
    frames: dict[Frame, list[str]] = {}
    for anatomy in family:
        frames.setdefault(frame_of(anatomy.layer, graph), []).append(anatomy.unit.name)
    return tuple(map(tuple, frames.values()))
