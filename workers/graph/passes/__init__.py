"""Rewrites of a Graph that keep what it computes; ``optimise`` is the pipeline of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workers.graph.graph import Graph
from workers.graph.passes.fuse import fuse
from workers.graph.passes.identities import drop_identities

if TYPE_CHECKING:
    from torch import Tensor


def optimise(graph: Graph, weights: Mapping[str, Tensor]) -> tuple[Graph, dict[str, Tensor]]:
    """Drop identities, fold batch normalisation, fuse operators into Units; also the weights of
    the result, by name. The same inputs give the same outputs up to rounding."""
    from workers.graph.passes.batch_norm import fold_batch_norm  # noqa: PLC0415  # imports torch

    graph, folded = fold_batch_norm(drop_identities(graph), weights)
    return fuse(graph), folded
