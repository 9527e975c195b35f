"""Recurrent layers, unrolled over time, which is static.

What the input contributes to the gates of all steps is one product of matrices before the first
step; a step is then one product with the state and a few elementwise operators. The directions
share nothing but the input, so they can run beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.gate_functions import GateFunction, gate_functions
from workers.graph.importers.onnx.operators.registry import onnx_operator_with_outputs
from workers.graph.importers.onnx.recorder import Value
from workers.graph.importers.source import ImportFailure

State = tuple[Value, ...]
Step = Callable[[State, State], State]
"""From what the input contributes to a step, and the state before it, to the state after it."""

_MOST_STEPS = 10_000
_BACKWARD = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass(frozen=True)
class _Direction:
    """One direction's part of a layer, its gates one below the other.

    ``weight`` is (gates · hidden, input), ``recurrence`` (gates · hidden, hidden), the biases
    (gates · hidden); ``initial`` are the states before the first step, each (batch, hidden).
    """

    backward: bool
    weight: Value
    recurrence: Value
    bias: Value | None
    recurrent_bias: Value | None
    initial: State
    activations: tuple[GateFunction, ...]
    peepholes: tuple[Value, ...] = ()


@onnx_operator_with_outputs("RNN")
def _rnn(n: Node) -> Sequence[Value]:
    def step(d: _Direction) -> Step:
        recurrence = _transposed(n, d.recurrence)
        return lambda x, state: (
            d.activations[0](n.call("addmm.default", x[0], state[0], recurrence)),
        )

    hidden = n.integer("hidden_size", n[2].shape[-1])
    return _layer(n, _directions(n, hidden, ("tanh",)), [hidden], step)


@onnx_operator_with_outputs("LSTM")
def _lstm(n: Node) -> Sequence[Value]:
    hidden = n.integer("hidden_size", n[2].shape[-1])
    directions = _directions(n, hidden, ("sigmoid", "tanh", "tanh"), cell=True)
    return _layer(n, directions, [4 * hidden], lambda d: _lstm_step(n, d, hidden))


def _lstm_step(n: Node, d: _Direction, hidden: int) -> Step:
    """One step; the gates are in ONNX's order: input, output, forget, cell."""
    recurrence = _transposed(n, d.recurrence)
    gate, candidate, squash = d.activations
    coupled = bool(n.integer("input_forget", 0))

    def split(gates: Value, old: Value) -> tuple[Value, Value, Value, Value]:
        if not d.peepholes:  # one activation for three gates
            three, new = n.call_all("split_with_sizes.default", gates, [3 * hidden, hidden], 1)
            i, o, f = n.call_all("split_with_sizes.default", gate(three), [hidden] * 3, 1)
            return i, o, f, candidate(new)
        i, o, f, new = n.call_all("split_with_sizes.default", gates, [hidden] * 4, 1)
        i = gate(n.call("addcmul.default", i, d.peepholes[0], old))
        f = gate(n.call("addcmul.default", f, d.peepholes[2], old))
        return i, o, f, candidate(new)

    def step(x: State, state: State) -> State:
        h, old = state
        i, o, f, new = split(n.call("addmm.default", x[0], h, recurrence), old)
        if coupled:
            f = n.call("rsub.Scalar", i, 1)
        cell = n.call("addcmul.default", n.call("mul.Tensor", f, old), i, new)
        if d.peepholes:
            o = gate(n.call("addcmul.default", o, d.peepholes[1], cell))
        return n.call("mul.Tensor", o, squash(cell)), cell

    return step


@onnx_operator_with_outputs("GRU")
def _gru(n: Node) -> Sequence[Value]:
    hidden = n.integer("hidden_size", n[2].shape[-1])
    directions = _directions(n, hidden, ("sigmoid", "tanh"))
    reset_last = bool(n.integer("linear_before_reset", 0))
    if not reset_last:
        directions = [_with_one_bias(n, d) for d in directions]
    step = _gru_step_reset_last if reset_last else _gru_step
    return _layer(n, directions, [2 * hidden, hidden], lambda d: step(n, d, hidden))


def _gru_step(n: Node, d: _Direction, hidden: int) -> Step:
    """Resets the state before its product; gates in ONNX's order: update, reset, hidden."""
    gate, candidate = d.activations
    gates, inner = _rows(n, d.recurrence, [2 * hidden, hidden])
    gates, inner = _transposed(n, gates), _transposed(n, inner)

    def step(x: State, state: State) -> State:
        (h,) = state
        both = gate(n.call("addmm.default", x[0], h, gates))
        z, r = n.call_all("split_with_sizes.default", both, [hidden] * 2, 1)
        reset = n.call("mul.Tensor", r, h)
        new = candidate(n.call("addmm.default", x[1], reset, inner))
        return (n.call("lerp.Tensor", new, h, z),)

    return step


def _gru_step_reset_last(n: Node, d: _Direction, hidden: int) -> Step:
    """Resets the product of the state, so that all gates' products are one."""
    gate, candidate = d.activations

    def step(x: State, state: State) -> State:
        (h,) = state
        product = n.call("linear.default", h, d.recurrence, d.recurrent_bias)
        gates, inner = n.call_all("split_with_sizes.default", product, [2 * hidden, hidden], 1)
        both = gate(n.call("add.Tensor", x[0], gates))
        z, r = n.call_all("split_with_sizes.default", both, [hidden] * 2, 1)
        new = candidate(n.call("addcmul.default", x[1], r, inner))
        return (n.call("lerp.Tensor", new, h, z),)

    return step


def _layer(
    n: Node,
    directions: Sequence[_Direction],
    parts: Sequence[int],
    step: Callable[[_Direction], Step],
) -> Sequence[Value]:
    """All directions' outputs: of every step, then the last of each state.

    ``parts`` are the widths into which the input's contribution is split before the steps. With
    ``layout`` 1 the batch comes first in every tensor, else the time or the directions do.
    """
    batch_first = n.integer("layout", 0)
    time = 1 if batch_first else 0
    x = n[0]
    if not x.shape[time]:
        raise n.refuse("a sequence of no steps; export the model with a longer one")
    if x.shape[time] > _MOST_STEPS:
        raise ImportFailure(
            "too_large",
            f"a sequence of {x.shape[time]} steps, which Plait unrolls; at most {_MOST_STEPS} are "
            "supported: export the model with shorter ones",
        )
    mask = _mask(n, x.shape[time], x.shape[1 - time])
    histories, lasts = [], []
    for direction in directions:
        hidden, last = _unrolled(n, direction, parts, step(direction), mask, time)
        stacked = n.call("stack.default", hidden, time)
        if mask is not None:  # past the end of a sequence the output is zero
            inside = _swapped(n, mask) if batch_first else mask
            stacked = n.call("where.self", inside, stacked, n.constant(0, x.dtype))
        histories.append(stacked)
        lasts.append(last)
    states = [n.call("stack.default", list(group), time) for group in zip(*lasts, strict=True)]
    return n.call("stack.default", histories, 2 if batch_first else 1), *states


def _unrolled(
    n: Node, d: _Direction, parts: Sequence[int], step: Step, mask: Value | None, time: int
) -> tuple[list[Value], State]:
    """The hidden state after each step, in order of time, and the last states.

    A sequence that has ended, or backwards has not begun, keeps its state.
    """
    projected = n.call("linear.default", n[0], d.weight, d.bias)
    pieces = [projected]
    if len(parts) > 1:
        pieces = list(n.call_all("split_with_sizes.default", projected, list(parts), 2))
    inputs = list(zip(*(n.call_all("unbind.int", piece, time) for piece in pieces), strict=True))
    running = None if mask is None else n.call_all("unbind.int", mask, 0)
    hidden: list[Value] = [d.initial[0]] * len(inputs)
    state, label = d.initial, n.recorder.label
    for place in reversed(range(len(inputs))) if d.backward else range(len(inputs)):
        n.recorder.label = f"{label}.{'backward' if d.backward else 'forward'}.{place}"
        active = None if running is None else running[place]
        if active is not None and active.constant:
            if not active.tensor.any():
                hidden[place] = state[0]
                continue
            active = None if active.tensor.all() else active
        new = step(inputs[place], state)
        if active is not None:
            new = tuple(
                n.call("where.self", active, after, before)
                for after, before in zip(new, state, strict=True)
            )
        state = new
        hidden[place] = state[0]
    n.recorder.label = label
    return hidden, state


def _mask(n: Node, steps: int, batch: int) -> Value | None:
    """Whether each sequence has each step, as (steps, batch, 1); None if all have all."""
    lengths = n.optional(4)
    if lengths is None or (lengths.constant and bool((lengths.tensor >= steps).all())):
        return None
    places = Value(torch.arange(steps, dtype=lengths.dtype).reshape(steps, 1, 1))
    return n.call("lt.Tensor", places, n.reshape(lengths, [1, batch, 1]))


def _directions(
    n: Node, hidden: int, activations: Sequence[str], *, cell: bool = False
) -> list[_Direction]:
    """The parts of the node's directions, with ``activations`` unless it names others."""
    name = n.text("direction", "forward")
    if name not in _BACKWARD:
        raise n.refuse(f"the direction {name!r}; known are {', '.join(_BACKWARD)}")
    backward = _BACKWARD[name]
    if n[1].shape[0] != len(backward):
        raise n.refuse(f"weights of {n[1].shape[0]} directions for a {name} layer")
    functions = gate_functions(n, list(activations) * len(backward))
    batch = n[0].shape[0 if n.integer("layout", 0) else 1]
    found = []
    for place, is_backward in enumerate(backward):
        bias, peepholes = _of(n, n.optional(3), place), _of(n, n.optional(7), place)
        gates = n[1].shape[1]
        biases = (None, None) if bias is None else _rows(n, bias, [gates, gates])
        direction = _Direction(
            backward=is_backward,
            weight=_part(n, n[1], 0, place),
            recurrence=_part(n, n[2], 0, place),
            bias=biases[0],
            recurrent_bias=biases[1],
            initial=tuple(
                _initial(n, index, place, [batch, hidden]) for index in ([5, 6] if cell else [5])
            ),
            activations=tuple(next(functions) for _ in activations),
            peepholes=() if peepholes is None else tuple(_rows(n, peepholes, [hidden] * 3)),
        )
        found.append(direction if n.op_type == "GRU" else _with_one_bias(n, direction))
    return found


def _with_one_bias(n: Node, d: _Direction) -> _Direction:
    """Both biases added up, for steps that only ever see their sum."""
    if d.bias is None or d.recurrent_bias is None:
        return d
    total = _named(n.call("add.Tensor", d.bias, d.recurrent_bias), d.bias)
    return replace(d, bias=total, recurrent_bias=None)


def _initial(n: Node, index: int, place: int, shape: Sequence[int]) -> Value:
    given = n.optional(index)
    if given is None:
        return Value(torch.zeros(tuple(shape), dtype=n[0].dtype), f"{n.recorder.label}.initial")
    return _part(n, given, 1 if n.integer("layout", 0) else 0, place)


def _of(n: Node, value: Value | None, place: int) -> Value | None:
    return None if value is None else _part(n, value, 0, place)


def _part(n: Node, value: Value, axis: int, place: int) -> Value:
    """One direction's part of a tensor; as a weight it keeps the name."""
    part = n.call("select.int", value, axis, place)
    return _named(part, value, str(place)) if value.shape[axis] > 1 else _named(part, value)


def _rows(n: Node, value: Value, sizes: Sequence[int]) -> list[Value]:
    parts = n.call_all("split_with_sizes.default", value, list(sizes), 0)
    return [_named(part, value, str(place)) for place, part in enumerate(parts)]


def _transposed(n: Node, value: Value) -> Value:
    return _named(n.call("t.default", value), value)


def _swapped(n: Node, value: Value) -> Value:
    return n.call("transpose.int", value, 0, 1)


def _named(part: Value, whole: Value, suffix: str = "") -> Value:
    if not part.constant or whole.name is None:
        return part
    return Value(part.tensor.contiguous(), ".".join(filter(None, (whole.name, suffix))))
