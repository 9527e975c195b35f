"""If, Loop and Scan, taken apart at import; and sequences of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Item, Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
)
from workers.graph.importers.onnx.operators.slicing import sliced
from workers.graph.importers.onnx.recorder import Value

MOST_ITERATIONS = 10_000


@onnx_operator_with_outputs("If")
def _if(n: Node) -> Sequence[Item]:
    """The branch that a constant condition takes; otherwise both, and an element-wise choice
    between them, which needs both to give the same shapes."""
    branches = n.get("then_branch"), n.get("else_branch")
    if n[0].constant:
        return n.run(branches[0] if bool(n.known(0).reshape(-1)[0].item()) else branches[1], ())
    chosen = []
    condition = n.reshape(n[0], [])
    for taken, other in zip(*(n.run(branch, ()) for branch in branches), strict=True):
        if not isinstance(taken, Value) or not isinstance(other, Value):
            raise n.refuse("its branches give sequences, and its condition depends on the data")
        if (taken.shape, taken.dtype) != (other.shape, other.dtype):
            raise n.refuse(
                f"its branches give {list(taken.shape)} and {list(other.shape)}, so that its "
                f"condition ({n[0].name}) must be known when the model is imported"
            )
        chosen.append(n.call("where.self", condition, taken, other))
    return chosen


@onnx_operator_with_outputs("Loop")
def _loop(n: Node) -> Sequence[Item]:
    """Unrolled: iterations are counted, and conditions known, when the model is imported."""
    body = n.get("body")
    limit = None if n.optional(0) is None else int(n.known(0).reshape(-1)[0].item())
    condition: Value | None = n.optional(1)
    carried: list[Item] = list(n.items[2:])
    scanned: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    iteration = 0
    while limit is None or iteration < limit:
        if condition is not None and not _known_condition(n, condition):
            break
        if iteration == MOST_ITERATIONS:
            raise n.refuse(f"it runs more than {MOST_ITERATIONS} times")
        given = condition if condition is not None else Value(torch.tensor(True))
        again, *results = n.run(body, [n.constant(iteration, torch.int64), given, *carried])
        if not isinstance(again, Value):
            raise n.refuse("the condition that its body gives is no tensor")
        condition = again
        carried = results[: len(carried)]
        for rows, result in zip(scanned, results[len(carried) :], strict=True):
            if not isinstance(result, Value):
                raise n.refuse("its body scans sequences")
            rows.append(result)
        iteration += 1
    return [*carried, *(_stacked(n, rows, index) for index, rows in enumerate(scanned))]


def _known_condition(n: Node, condition: Value) -> bool:
    if not condition.constant:
        raise n.refuse(
            f"its condition ({condition.name}) must be known when the model is imported, but it is "
            "computed from the model's inputs; only loops that are known to end can be scheduled"
        )
    return bool(condition.tensor.reshape(-1)[0].item())


def _stacked(n: Node, rows: Sequence[Value], index: int) -> Value:
    if not rows:
        raise n.refuse(f"it never runs, so that the shape of its scan output {index} is not known")
    return n.call("stack.default", list(rows), 0)


@onnx_operator_with_outputs("Scan", since=9)
def _scan(n: Node) -> Sequence[Item]:
    """Unrolled along the scanned axes."""
    body = n.get("body")
    count = n.integer("num_scan_inputs")
    state: list[Item] = list(n.items[: len(n.items) - count])
    scanned = n.inputs[len(state) :]
    axes = n.integers("scan_input_axes", [0] * count)
    backwards = n.integers("scan_input_directions", [0] * count)
    axes = [n.on(axis, value.rank) for axis, value in zip(axes, scanned, strict=True)]
    steps = scanned[0].shape[axes[0]]
    rows: list[list[Value]] = [[] for _ in range(len(body.output) - len(state))]
    for step in range(steps):
        slices = [
            n.call("select.int", value, axis, steps - 1 - step if back else step)
            for value, axis, back in zip(scanned, axes, backwards, strict=True)
        ]
        results = n.run(body, [*state, *slices])
        state = results[: len(state)]
        for kept, result in zip(rows, results[len(state) :], strict=True):
            if not isinstance(result, Value):
                raise n.refuse("its body scans sequences")
            kept.append(result)
    out_axes = n.integers("scan_output_axes", [0] * len(rows))
    out_back = n.integers("scan_output_directions", [0] * len(rows))
    outputs = []
    for kept, axis, back in zip(rows, out_axes, out_back, strict=True):
        if not kept:
            raise n.refuse("it never runs, so that the shapes of its scan outputs are not known")
        place = n.on(axis, kept[0].rank + 1)
        outputs.append(n.call("stack.default", kept[::-1] if back else kept, place))
    return [*state, *outputs]


@onnx_operator_with_outputs("Scan", since=8)
def _batched_scan(n: Node) -> Sequence[Item]:
    """The form of version 8: every value has a batch in front, and sequences may be shorter."""
    if n.items[0] is not None:
        raise n.refuse("sequences of several lengths, as Scan had them in version 8")
    body = n.get("body")
    count = n.integer("num_scan_inputs")
    values = tuple(n[index] for index in range(1, len(n.items)))
    backwards = n.integers("directions", [0] * count)
    batch = values[0].shape[0]
    found: list[list[Value]] = []
    for index in range(batch):
        samples = [n.call("select.int", value, 0, index) for value in values]
        state: list[Item] = list(samples[: len(samples) - count])
        rows: list[list[Value]] = [[] for _ in range(len(body.output) - len(state))]
        scanned = samples[len(state) :]
        steps = scanned[0].shape[0]
        for step in range(steps):
            slices = [
                n.call("select.int", value, 0, steps - 1 - step if back else step)
                for value, back in zip(scanned, backwards, strict=True)
            ]
            results = n.run(body, [*state, *slices])
            state = results[: len(state)]
            for kept, result in zip(rows, results[len(state) :], strict=True):
                assert isinstance(result, Value)  # noqa: S101  # version 8 has no sequences
                kept.append(result)
        stacked = [n.call("stack.default", kept, 0) for kept in rows]
        found.append([*(item for item in state if isinstance(item, Value)), *stacked])
    return [n.call("stack.default", list(column), 0) for column in zip(*found, strict=True)]


@onnx_operator("SequenceConstruct")
def _sequence_construct(n: Node) -> tuple[Value, ...]:
    return n.inputs


@onnx_operator("SequenceEmpty")
def _sequence_empty(n: Node) -> tuple[Value, ...]:
    return ()


@onnx_operator("SequenceAt")
def _sequence_at(n: Node) -> Value:
    return n.sequence(0)[int(n.known(1).item())]


@onnx_operator("SequenceLength")
def _sequence_length(n: Node) -> Value:
    return n.constant(len(n.sequence(0)), torch.int64)


@onnx_operator("SequenceInsert")
def _sequence_insert(n: Node) -> tuple[Value, ...]:
    items = list(n.sequence(0))
    place = len(items) if n.optional(2) is None else int(n.known(2).item())
    items.insert(place, n[1])
    return tuple(items)


@onnx_operator("SequenceErase")
def _sequence_erase(n: Node) -> tuple[Value, ...]:
    items = list(n.sequence(0))
    del items[-1 if n.optional(1) is None else int(n.known(1).item())]
    return tuple(items)


@onnx_operator("ConcatFromSequence")
def _concat_from_sequence(n: Node) -> Value:
    items = list(n.sequence(0))
    if n.integer("new_axis", 0):
        return n.call("stack.default", items, n.axis("axis", items[0].rank + 1))
    return n.call("cat.default", items, n.axis("axis", items[0].rank))


@onnx_operator("SplitToSequence")
def _split_to_sequence(n: Node) -> tuple[Value, ...]:
    x = n[0]
    axis = n.axis("axis", x.rank, 0)
    size = x.shape[axis]
    if n.optional(1) is None:
        parts = [sliced(n, x, axis, place, place + 1) for place in range(size)]
        if n.integer("keepdims", 1):
            return tuple(parts)
        shape = [length for index, length in enumerate(x.shape) if index != axis]
        return tuple(n.reshape(part, shape) for part in parts)
    given = n.known(1)
    step = int(given.item()) if given.dim() == 0 else 0
    lengths = (
        n.known_ints(1)
        if given.dim()
        else [min(step, size - place) for place in range(0, size, step)]
    )
    parts, place = [], 0
    for length in lengths:
        parts.append(sliced(n, x, axis, place, place + length))
        place += length
    return tuple(parts)


@onnx_operator("OptionalHasElement")
def _optional_has_element(n: Node) -> Value:
    return Value(torch.tensor(bool(n.items) and n.items[0] is not None))


@onnx_operator("OptionalGetElement", "Optional")
def _optional_get_element(n: Node) -> Item:
    if not n.items or n.items[0] is None:
        raise n.refuse("an optional value that is not there")
    return n.items[0]
