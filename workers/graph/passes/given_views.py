"""Views of what is given, one for each reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from workers.graph.graph import Graph, Operator, TensorSpec
from workers.graph.operators import is_kernel_free
from workers.graph.passes.randomness import is_random
from workers.graph.passes.rename import substituted
from workers.graph.units import operator_units


def copy_given_views(graph: Graph) -> Graph:
    """Give each operator its own copy of the views that it reads of inputs and weights.

    Before: ``t(x) → v``, ``mm(v, w) → p``, ``mm(w, v) → q``. After: ``t(x) → v``, ``mm(v, w) → p``,
    ``t(x) → v.1``, ``mm(w, v.1) → q``.

    A view costs nothing, a copy that is kept (``clone``) hardly more, and each must be in a Unit.
    Shared by two Units it would be in one of them, which the other would wait for without need.
    """
    given, returned = {*graph.inputs, *graph.weights}, frozenset(graph.outputs)
    views: dict[str, Operator] = {}  # by the values that they compute
    for operator in graph.operators:
        free = is_kernel_free(operator.target) and not is_random(operator)
        if free and given.issuperset(operator.inputs):
            views.update(dict.fromkeys(operator.outputs, operator))
            given.update(operator.outputs)
    if not views:
        return graph
    copies = _Copies(graph, views)
    for operator in graph.operators:
        if views.get(operator.outputs[0]) is not operator or returned.intersection(
            operator.outputs
        ):
            copies.add_reader(operator)
    return operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=graph.weights,
        values=copies.values,
        operators=copies.operators,
    )


class _Copies:
    """The new graph's operators: each view under its own name once, under new names after that."""

    def __init__(self, graph: Graph, views: Mapping[str, Operator]) -> None:
        self._views = views
        self._times: Counter[str] = Counter()
        self.values: dict[str, TensorSpec] = dict(graph.values)
        self.operators: list[Operator] = []

    def add_reader(self, operator: Operator) -> None:
        """Add the operator after the views that it reads. A view that the graph returns counts as
        a reader of what it views, and keeps its name."""
        self._times[operator.name] += 1
        own: dict[str, str] = {}
        self.operators.append(self._rewritten(operator, own))

    def _rewritten(self, operator: Operator, own: dict[str, str]) -> Operator:
        """The operator reading its own copies; ``own`` holds their names."""
        for name in operator.inputs:
            if name in self._views and name not in own:
                self._add_view(self._views[name], own)

        def name_of(value: str) -> str:
            return own.get(value, value)

        return replace(
            operator,
            arguments=tuple(substituted(argument, name_of) for argument in operator.arguments),
            keywords=tuple((key, substituted(a, name_of)) for key, a in operator.keywords),
        )

    def _add_view(self, view: Operator, own: dict[str, str]) -> None:
        copy = self._rewritten(view, own)
        number = self._times[view.name]
        self._times[view.name] += 1
        if number:
            copy = self._renamed(copy, number)
        own.update(zip(view.outputs, copy.outputs, strict=True))
        self.values.update(
            (new, self.values[old]) for old, new in zip(view.outputs, copy.outputs, strict=True)
        )
        self.operators.append(copy)

    def _renamed(self, view: Operator, number: int) -> Operator:
        suffix = f".{number}"
        while any(name + suffix in self.values for name in (view.name, *view.outputs)):
            suffix += "_"
        return replace(
            view,
            name=view.name + suffix,
            outputs=tuple(name + suffix for name in view.outputs),
        )
