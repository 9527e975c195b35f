"""What the Units of a stage to be merged have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workers.graph.graph import Graph, Operator, Unit
from workers.graph.operators import KINDS, is_kernel_free
from workers.graph.passes.pointwise import is_pointwise
from workers.graph.passes.rename import substituted
from workers.schedules.layers import Layer, read_layer
from workers.schedules.merged_layer import layer_differences, misfit

_LAYERS = ("conv", "linear", "matmul", "attention")


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A Unit taken apart: what precedes its layer, the pointwise operators on its result, and the
    views besides."""

    unit: Unit
    before: tuple[Operator, ...]
    layer: Layer
    after: tuple[Operator, ...]
    views: tuple[Operator, ...]

    @property
    def stages(self) -> tuple[str, ...]:
        """The layer's result and what ``after`` makes of it, all of one shape."""
        return (*self.layer.operator.outputs, *(o.outputs[0] for o in self.after))

    def needs(self, value: str) -> bool:
        """Whether a value is read apart from that of other Units."""
        return value in self.unit.outputs or any(value in o.inputs for o in self.views)


def read_units(graph: Graph, units: Sequence[str]) -> list[Anatomy] | str:
    """The Units taken apart, or why they cannot be merged. Raises GraphError for an unknown one."""
    if len(set(units)) < len(units):
        return "a unit is named twice"
    if len(units) < 2:
        return "there is nothing to merge one unit with"
    found = []
    for name in units:
        anatomy = take_apart(graph.unit(name), graph)
        if isinstance(anatomy, str):
            return f"unit {name!r} cannot be merged: {anatomy}"
        found.append(anatomy)
    for other in found[1:]:
        for difference in differences(found[0], other, graph):
            return difference
    return misfit([anatomy.layer for anatomy in found], graph) or found


def differences(first: Anatomy, other: Anatomy, graph: Graph) -> Iterator[str]:
    """Why two Units cannot be merged, whatever the frames of their layers; nothing if they can."""
    both = f"units {first.unit.name!r} and {other.unit.name!r}"
    if _form(first.before) != _form(other.before):
        yield f"{both} compute different things before their layers"
        return
    renamed = _renaming(first.before, other.before)
    if renamed.get(other.layer.source, other.layer.source) != first.layer.source:
        yield f"{both} read {first.layer.source!r} and {other.layer.source!r}"
    yield from layer_differences(first.layer, other.layer, graph)
    if _form(first.after, first.stages) != _form(other.after, other.stages):
        yield (
            f"{both} compute different things from the results of their layers:"
            f" {_targets(first.after)} and {_targets(other.after)}"
        )


def take_apart(unit: Unit, graph: Graph) -> Anatomy | str:
    """The Unit taken apart, or why it cannot be merged with any other, in words."""
    layers = [o for o in unit.operators if KINDS[o.target] in _LAYERS]
    if len(layers) != 1:
        return f"it has {len(layers)} layers, not one"
    layer = read_layer(layers[0], graph)
    if isinstance(layer, str):
        return layer
    needed = set(layers[0].inputs)
    before: list[Operator] = []
    for operator in reversed(unit.operators):
        if needed.intersection(operator.outputs):
            needed.update(operator.inputs)
            before.insert(0, operator)
    computed_before = {name for operator in before for name in operator.outputs}
    after, views = [], []
    on_result = set(layers[0].outputs)
    viewable = {*layers[0].outputs, *graph.inputs, *graph.weights}
    for operator in unit.operators:
        if operator is layers[0] or operator in before:
            continue
        if is_pointwise(operator) and operator.inputs and on_result.issuperset(operator.inputs):
            on_result.update(operator.outputs)
            after.append(operator)
        elif is_kernel_free(operator.target) and viewable.issuperset(operator.inputs):
            views.append(operator)
        else:
            return (
                f"{operator.target} of {operator.name!r} is neither a pointwise operator on the"
                " layer's result alone nor a view of it"
            )
        viewable.update(operator.outputs)
    for name in unit.outputs:
        if name in computed_before:
            return f"{name!r}, which it computes before its layer, is read elsewhere"
    return Anatomy(unit, tuple(before), layer, tuple(after), tuple(views))


def _form(operators: Sequence[Operator], known: Iterable[str] = ()) -> list[object]:
    """The operators with the values that they compute, and those ``known``, numbered: equal for
    operators that compute the same."""
    number = {name: f"#{position}" for position, name in enumerate(known)}
    form: list[object] = []
    for operator in operators:
        for name in operator.outputs:
            number.setdefault(name, f"#{len(number)}")

        def name_of(value: str) -> str:
            return number.get(value, value)

        form.append(
            (
                operator.target,
                [substituted(argument, name_of) for argument in operator.arguments],
                [(key, substituted(argument, name_of)) for key, argument in operator.keywords],
            )
        )
    return form


def _renaming(to: Sequence[Operator], of: Sequence[Operator]) -> dict[str, str]:
    """The values that ``of`` computes, by the names of those that the equal ``to`` does."""
    return {
        name: other
        for operator, same in zip(of, to, strict=True)
        for name, other in zip(operator.outputs, same.outputs, strict=True)
    }


def _targets(operators: Sequence[Operator]) -> str:
    return ", ".join(operator.target for operator in operators) or "nothing"
