"""Rewrites of a Graph that keep what it computes; ``optimise`` is the pipeline of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workers.graph.graph import Graph
from workers.graph.passes.fuse import fuse
from workers.graph.passes.granularity import Granularity
from workers.graph.passes.identities import drop_identities
from workers.graph.passes.subexpressions import (
    merge_common_subexpressions,
    merge_within_units,
)

if TYPE_CHECKING:
    from torch import Tensor


def optimise(
    graph: Graph,
    weights: Mapping[str, Tensor],
    granularity: Granularity | str = Granularity.FUSED,
    *,
    merge_common: bool = True,
) -> tuple[Graph, dict[str, Tensor]]:
    """The graph with less to compute, in Units of the wanted granularity, and its weights by name.

    The same inputs give the same outputs up to rounding. ``merge_common`` computes once what the
    model computes twice; without it the Units are those that the model's author wrote, which is
    what the IOS paper's counts of operators are of. Raises ValueError for an unknown granularity.
    """
    # These import torch; the others do not need it.
    from workers.graph.passes.batch_norm import fold_batch_norm  # noqa: PLC0415
    from workers.graph.passes.constants import fold_constants  # noqa: PLC0415
    from workers.graph.passes.deduplicate import deduplicate_weights  # noqa: PLC0415
    from workers.graph.passes.products import linear_from_product  # noqa: PLC0415

    wanted = Granularity(granularity)
    graph, held = fold_constants(drop_identities(graph), weights)
    if merge_common:
        graph, held = deduplicate_weights(graph, held)
        graph = merge_common_subexpressions(graph)
    graph, held = fold_batch_norm(*linear_from_product(graph, held))
    graph = fuse(graph, wanted)
    if merge_common:
        graph = merge_within_units(graph)
    return graph, {name: held[name] for name in graph.weights}
