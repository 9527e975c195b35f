"""A model of one fixed batch size, specialised to another.

What such a model computes for other batch sizes is nowhere written, so it is defined here: the same
for each sample as when the original gets it in a batch of its own size. A Graph that was made for
the other size is compared with the original by that definition before it is accepted, which also
refuses a model that mixes the samples of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from workers.graph.graph import Graph
from workers.graph.importers.input_sizes import FixedBatch
from workers.graph.importers.source import ImportFailure
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

Original = Callable[[Mapping[str, Tensor]], list[Tensor]]
"""A model as a function of its inputs by name; the outputs come in order."""

ADVICE = (
    "ask for {size}, or export the model with an open batch: torch.export.export(…, "
    "dynamic_shapes={{name: {{0: torch.export.Dim('batch')}}}})"
)
_SEED = 0
_DISTINCT = 3
"""Different samples in a batch that a Graph is compared on."""
_RESHAPES = frozenset({"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default"})
_EXPANDS = frozenset({"aten.expand.default"})


def unbaked(node: fx.Node, arguments: Sequence[Any], batch_size: int, fixed: FixedBatch) -> Any:
    """The arguments of a call, with the batch size that exporting wrote into its shape replaced.

    Before, for a tensor of (2, 8, 4) that is now one of (6, 8, 4): ``view(x, [2, 32])``.
    After: ``view(x, [6, 32])``. Where the batch ends up in the new shape is found by matching the
    dimensions in front of it, so that heads are split off and merged as they were.
    ``arguments`` are those that the call gets now; other calls keep theirs.
    """
    target = str(node.target)
    source = node.args[0] if node.args else None
    if target not in _RESHAPES | _EXPANDS or not isinstance(source, fx.Node):
        return node.args
    before, now = source.meta["val"].shape, arguments[0].shape
    shape: list[Any] = list(arguments[1])
    changed = [axis for axis, size in enumerate(before) if size != now[axis]]
    if len(changed) != 1:
        return node.args
    place: int | None
    if target in _EXPANDS:
        place = len(shape) - len(before) + changed[0]
    else:
        place = _after(node.meta["val"].shape, before[: changed[0]])
    if place is None or shape[place] == -1 or shape[place] % fixed.size:
        return node.args
    shape[place] = shape[place] // fixed.size * batch_size
    return (source, shape, *node.args[2:])


def _after(shape: Sequence[int], leading: Sequence[int]) -> int | None:
    """The dimension of ``shape`` that begins where the ``leading`` ones of another shape end."""
    product, goal = 1, int(torch.Size(leading).numel())
    for axis, size in enumerate(shape):
        if product == goal:
            return axis
        product *= size
    return None


def output_axes(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], batch_size: int, size: int
) -> list[int]:
    """The batch's dimension of each output, from its shapes at ``size`` and at ``batch_size``.

    It may hold several rows a sample, which lie together. Raises ImportFailure for an output that
    does not grow with the batch in exactly one dimension.
    """
    axes = []
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        same_rank = len(old) == len(new)
        changed = [a for a in range(len(old)) if old[a] != new[a]] if same_rank else []
        if len(changed) != 1 or old[changed[0]] * batch_size != new[changed[0]] * size:
            raise refusal(
                size,
                batch_size,
                f"output {number} has the shape {list(old)} at the one and {list(new)} at the "
                "other, so that it does not have one part for each sample",
            )
        axes.append(changed[0])
    return axes


def in_batches_of_its_own(
    original: Original,
    inputs: Mapping[str, Tensor],
    fixed: FixedBatch,
    batch_size: int,
    shapes: Sequence[Sequence[int]],
) -> list[Tensor]:
    """What ``original`` computes for ``batch_size`` samples, ``fixed.size`` at a time, put together
    to outputs of these ``shapes``.

    The last batch is filled up with copies of the last sample, whose outputs are dropped. Raises
    ImportFailure for an output that cannot be put together.
    """
    runs = _runs(original, inputs, fixed, batch_size)
    axes = output_axes([part.shape for part in runs[0]], shapes, batch_size, fixed.size)
    return _joined(runs, axes, fixed.size, batch_size)


def _runs(
    original: Original, inputs: Mapping[str, Tensor], fixed: FixedBatch, count: int
) -> list[list[Tensor]]:
    """The outputs for the first ``count`` samples, of one batch of the original's own after the
    other."""
    runs = []
    for start in range(0, count, fixed.size):
        rows = torch.arange(start, start + fixed.size).clamp(max=count - 1)
        runs.append(original(_selected(inputs, fixed, rows)))
    return runs


def _selected(inputs: Mapping[str, Tensor], fixed: FixedBatch, rows: Tensor) -> dict[str, Tensor]:
    return {
        name: tensor.index_select(fixed.axes[name], rows) if name in fixed.axes else tensor
        for name, tensor in inputs.items()
    }


def _joined(
    runs: Sequence[Sequence[Tensor]], axes: Sequence[int], size: int, count: int
) -> list[Tensor]:
    outputs = []
    for number, axis in enumerate(axes):
        whole = torch.cat([run[number] for run in runs], dim=axis)
        rows = whole.shape[axis] // (size * len(runs))
        outputs.append(whole.narrow(axis, 0, rows * count))
    return outputs


def run_in_order(
    original: Original,
    cases: Iterable[Mapping[str, Tensor]],
    fixed: FixedBatch | None,
    batch_size: int,
    shapes: Sequence[Sequence[int]],
) -> list[dict[str, Tensor]]:
    """The outputs of each case as ``output_0`` …; in batches of its own, if its batch is fixed, and
    then put together to outputs of these ``shapes``."""
    results = []
    for inputs in cases:
        outputs = (
            in_batches_of_its_own(original, inputs, fixed, batch_size, shapes)
            if fixed
            else original(inputs)
        )
        results.append({f"output_{index}": tensor for index, tensor in enumerate(outputs)})
    return results


def check_batch(
    graph: Graph,
    weights: Mapping[str, Tensor],
    original: Original,
    fixed: FixedBatch,
    batch_size: int,
) -> None:
    """Check that a Graph that was specialised to ``batch_size`` computes for each sample what the
    original does. Raises ImportFailure.

    The batch holds a few different samples in random order, so that the original runs a few times
    only, however large the batch is.
    """
    inputs = random_inputs(graph, _SEED)
    distinct = min(batch_size, _DISTINCT)
    drawn = torch.Generator().manual_seed(_SEED)
    others = torch.randint(distinct, (batch_size - distinct,), generator=drawn)
    choice = torch.cat([torch.arange(distinct), others])
    runs = _runs(original, inputs, fixed, distinct)
    shapes = [spec.shape for spec in graph.specs(graph.outputs)]
    axes = output_axes([part.shape for part in runs[0]], shapes, batch_size, fixed.size)
    found = run_graph(graph, weights, _selected(inputs, fixed, choice))
    for number, few in enumerate(_joined(runs, axes, fixed.size, distinct)):
        rows = torch.arange(few.shape[axes[number]]).view(distinct, -1)[choice].flatten()
        right = few.index_select(axes[number], rows)
        if not _close(found[graph.outputs[number]], right):
            raise refusal(
                fixed.size,
                batch_size,
                f"output {number} of a sample depends on the samples beside it, or the batch size "
                "is part of the computation",
            )


def refusal(size: int, batch_size: int, why: str) -> ImportFailure:
    return ImportFailure(
        "unsupported_batch",
        f"the model was exported for batch size {size} only, and cannot be specialised to "
        f"{batch_size}: {why}; {ADVICE.format(size=size)}",
    )


def _close(found: Tensor, right: Tensor) -> bool:
    if not right.dtype.is_floating_point:
        return torch.equal(found, right)
    # Half of a type's digits, of the largest magnitude: a batch that is mixed up is wrong by more,
    # and how exact a Graph must be is decided when it is verified.
    tolerance = math.sqrt(torch.finfo(right.dtype).eps)
    found, right = found.double(), right.double()
    scale = right.nan_to_num(0, 0, 0).abs().max().item() if right.numel() else 0.0
    return torch.allclose(found, right, rtol=0, atol=tolerance * scale, equal_nan=True)
