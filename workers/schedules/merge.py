"""Operator merge (IOS, Section 3): the Units of a stage become one, which reads its input once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workers.graph.graph import Argument, Graph, GraphError, Operator, TensorSpec, Unit, ValueRef
from workers.graph.operators import KINDS
from workers.graph.passes.rename import substituted
from workers.graph.units import make_unit
from workers.schedules.anatomy import Anatomy, read_units
from workers.schedules.merged_layer import MergedWeight, merged_layer
from workers.schedules.schedule import Schedule, ScheduleError, Stage, StageSchedule

if TYPE_CHECKING:
    from torch import Tensor

_LONGEST_NAME = 120


@dataclass(frozen=True)
class MergedGraph:
    """A schedule without stages to be merged, the graph that it is for, and the weights of that
    graph which the original lacks."""

    schedule: Schedule
    graph: Graph
    weights: Mapping[str, MergedWeight]


@dataclass(frozen=True)
class Merged:
    """A schedule without stages to be merged, with the graph and the weights that it is for."""

    schedule: Schedule
    graph: Graph
    weights: Mapping[str, Tensor]


def merge_stages(schedule: Schedule, graph: Graph, weights: Mapping[str, Tensor]) -> Merged:
    """``merge_graph`` with the weights that the new graph needs: its own by their old names, and
    the merged ones, made on the device and with the type of their parts."""
    merged = merge_graph(schedule, graph)
    return Merged(
        schedule=merged.schedule,
        graph=merged.graph,
        weights={
            name: _paste(merged.weights[name], weights) if name in merged.weights else weights[name]
            for name in merged.graph.weights
        },
    )


def merge_graph(schedule: Schedule, graph: Graph) -> MergedGraph:
    """Rewrite each stage of strategy ``merge`` into one Unit.

    Before: Units {``conv2d(x, a) → c``, ``relu(c) → r``} and {``conv2d(x, b) → d``,
    ``relu(d) → s``}. After: one Unit {``conv2d(x, ab) → e``, ``relu(e) → t``,
    ``split_with_sizes(t) → r, s``}. Values that other Units read keep their names, so that no other
    Unit changes, and the stage names the new Unit.

    The results are the same up to rounding as long as inputs are finite: the zeros around a
    smaller kernel make NaN of an infinity. A schedule without such stages is returned as it is,
    and so is its graph. Raises ScheduleError, naming the stage, if its Units cannot be merged.
    """
    if not isinstance(schedule, StageSchedule):
        return MergedGraph(schedule, graph, {})
    rewriting = _Rewriting(graph)
    stages = [
        stage if stage.strategy != "merge" else rewriting.merge(stage, number)
        for number, stage in enumerate(schedule.stages)
    ]
    if not rewriting.units:
        return MergedGraph(schedule, graph, {})
    return MergedGraph(
        replace(schedule, stages=tuple(stages)), rewriting.graph(), dict(rewriting.weights)
    )


class _Rewriting:
    """A graph while Units of it are replaced."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._taken = {*graph.values, *graph.index, *(o.name for o in graph.operators)}
        self._values: dict[str, TensorSpec] = dict(graph.values)
        self._weights = set(graph.weights)
        self._names: dict[MergedWeight, str] = {}
        self._merged: set[str] = set()
        self.units: dict[str, Unit] = {}
        """The new Units, by the first of those that they replace."""
        self.weights: dict[str, MergedWeight] = {}

    def merge(self, stage: Stage, number: int) -> Stage:
        """Make one Unit of the stage; the stage of that Unit alone."""
        names = stage.units
        try:
            found = read_units(self._graph, names)
        except GraphError as error:
            raise ScheduleError(f"stage {number}: {error}") from error
        if isinstance(found, str):
            raise ScheduleError(f"stage {number} cannot be merged: {found}")
        for name in names:
            if name in self._merged:
                raise ScheduleError(f"stage {number}: unit {name!r} is in the schedule twice")
        unit = self._unit(found)
        self.units[min(names, key=self._graph.index.__getitem__)] = unit
        self._merged.update(names)
        return Stage(((unit.name,),), threads=stage.threads if len(stage.threads) == 1 else ())

    def graph(self) -> Graph:
        """The new graph: each new Unit stands where the first of those that it replaces stood. All
        of them read the same values, so that these are computed by then."""
        graph = self._graph
        units = [
            self.units.get(unit.name, unit)
            for unit in graph.units
            if unit.name in self.units or unit.name not in self._merged
        ]
        read = {name for unit in units for name in unit.weights}.union(graph.outputs)
        weights = [name for name in (*graph.weights, *self.weights) if name in read]
        defined = [*graph.inputs, *weights]
        defined += [name for unit in units for o in unit.operators for name in o.outputs]
        return replace(
            graph,
            weights=tuple(weights),
            values={name: self._values[name] for name in defined},
            units=tuple(units),
        )

    def _unit(self, found: Sequence[Anatomy]) -> Unit:
        first = found[0]
        names = [anatomy.unit.name for anatomy in found]
        joined = "+".join(names)
        name = self._new(joined if len(joined) <= _LONGEST_NAME else f"{names[0]}+{len(names) - 1}")
        layer = merged_layer([anatomy.layer for anatomy in found], self._graph)
        weight = self._weight(f"{name}.weight", layer.weight)
        bias = None if layer.bias is None else self._weight(f"{name}.bias", layer.bias)
        self._values[name] = layer.result
        operators = [*first.before, layer.operator(name, weight, bias)]
        whole = {first.stages[0]: name}
        operators += [self._widened(o, whole, layer.result.shape) for o in first.after]
        for position, value in enumerate(first.stages):
            if any(anatomy.needs(anatomy.stages[position]) for anatomy in found):
                operators.append(
                    Operator(
                        self._new(f"{whole[value]}.split"),
                        "aten.split_with_sizes.default",
                        (ValueRef(whole[value]), layer.sizes, layer.axis),
                        (),
                        tuple(anatomy.stages[position] for anatomy in found),
                    )
                )
        for anatomy in found:
            operators += [_of_any_strides(view) for view in anatomy.views]
        return make_unit(
            operators,
            self._values,
            self._weights,
            {value for anatomy in found for value in anatomy.unit.outputs},
        )

    def _widened(
        self, operator: Operator, whole: dict[str, str], shape: tuple[int, ...]
    ) -> Operator:
        """The operator on the merged layer's result instead of a part of it; ``whole`` has the
        names of the values so far, and then its own."""
        value = operator.outputs[0]
        name = self._new(f"{next(iter(whole.values()))}.{KINDS[operator.target]}")

        def name_of(other: str) -> str:
            return whole.get(other, other)

        def wide(argument: Argument) -> Argument:
            return substituted(argument, name_of)

        new = replace(
            operator,
            name=name,
            arguments=tuple(wide(argument) for argument in operator.arguments),
            keywords=tuple((key, wide(argument)) for key, argument in operator.keywords),
            outputs=(name,),
        )
        whole[value] = name
        self._values[name] = TensorSpec(shape, self._graph.values[value].dtype)
        return new

    def _weight(self, name: str, weight: MergedWeight) -> str:
        """What the weight is called: an unrolled network merges the same weights over and over."""
        if weight not in self._names:
            name = self._names[weight] = self._new(name)
            self.weights[name] = weight
            self._values[name] = weight.spec
            self._weights.add(name)
        return self._names[weight]

    def _new(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _of_any_strides(view: Operator) -> Operator:
    """A part of the merged result has gaps between its rows, which ``view`` does not take."""
    if view.target in ("aten.view.default", "aten._unsafe_view.default"):
        return replace(view, target="aten.reshape.default")
    return view


def _paste(merged: MergedWeight, weights: Mapping[str, Tensor]) -> Tensor:
    parts = [weights[paste.weight] for paste in merged.pastes]
    whole = parts[0].new_zeros(merged.spec.shape)
    for paste, part in zip(merged.pastes, parts, strict=True):
        whole[
            tuple(
                slice(start, start + size) for start, size in zip(paste.at, part.shape, strict=True)
            )
        ] = part
    return whole
