"""What a simulated device really computes: the Units' values, on the CPU, in a given order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from workers.devices.base import DeviceError
from workers.graph.graph import Graph
from workers.schedules.lifetimes import lifetimes
from workers.schedules.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from workers.graph.interpreter import CompiledUnit


class PlanRunner:
    """Runs Units one by one in whatever order it is told to. A Unit that comes before one whose
    result it reads fails, as a wrong Plan should."""

    def __init__(self, graph: Graph, weights: Mapping[str, Tensor]) -> None:
        from workers.graph.interpreter import compile_unit  # noqa: PLC0415  # torch, when needed

        self._graph = graph
        self._constants = {name: weights[name] for name in graph.outputs if name in graph.weights}
        self._units: dict[str, CompiledUnit] = {
            unit.name: compile_unit(graph, unit, weights) for unit in graph.units
        }

    def run(
        self,
        inputs: Mapping[str, Tensor],
        order: Sequence[str],
        names: Sequence[str],
        keep: bool,
        between: Callable[[], None],
    ) -> dict[str, Tensor]:
        """The values ``names`` after the Units of ``order``; ``between`` is called before each.
        Without ``keep``, values are dropped once all their readers have run."""
        import torch  # noqa: PLC0415  # torch, when needed

        values: dict[str, Tensor] = {**self._constants}
        values.update((name, inputs[name]) for name in self._graph.inputs)
        readers = Counter(name for unit in self._graph.units for name in set(unit.inputs))
        readers.update(names)
        with torch.inference_mode():
            for unit in order:
                between()
                compiled = self._units[unit]
                try:
                    results = compiled.function(*(values[name] for name in compiled.inputs))
                except KeyError as error:
                    raise DeviceError(
                        f"unit {unit!r} failed: it reads {error.args[0]!r}, which is not computed"
                    ) from error
                except Exception as error:
                    raise DeviceError(f"unit {unit!r} failed: {error}") from error
                values.update(zip(compiled.outputs, results, strict=True))
                if not keep:
                    self._drop(unit, readers, values)
        return {name: values[name] for name in names}

    def _drop(self, unit: str, readers: Counter[str], values: dict[str, Tensor]) -> None:
        compiled = self._units[unit]
        for name in set(compiled.inputs):
            readers[name] -= 1
        for name in {*compiled.inputs, *compiled.outputs}:
            if readers[name] <= 0:
                values.pop(name, None)


def check_weights(graph: Graph, weights: Mapping[str, Tensor]) -> None:
    """Raises DeviceError naming a Unit that a given weight of the wrong shape would make fail.
    Weights that are not given are not checked."""
    for unit in graph.units:
        for name in unit.weights:
            spec = graph.values[name]
            if name in weights and tuple(weights[name].shape) != spec.shape:
                raise DeviceError(
                    f"unit {unit.name!r} failed: weight {name!r} is {tuple(weights[name].shape)},"
                    f" graph {graph.name!r} has {spec.shape}"
                )


def peak_bytes(plan: Plan, graph: Graph, spans: Sequence[tuple[float, float]]) -> int:
    """The most bytes that inputs and computed values take at one moment, if each is kept from the
    start of the launch that computes it to the end of the last one that reads it; views take none.

    ``spans`` are (start, end) of each launch. Inputs are the caller's and there all along.
    """
    end_of_all = max((end for _, end in spans), default=0.0)
    changes: list[tuple[float, int, int]] = []
    for life in lifetimes(plan, graph):
        users = [number for number in range(len(spans)) if life.users >> number & 1]
        last = end_of_all if life.returned else max(spans[number][1] for number in users)
        # At one moment, what starts is there before what ends has gone.
        changes += [(spans[life.maker][0], 0, life.nbytes), (last, 1, -life.nbytes)]
    levels = accumulate(change for _, _, change in sorted(changes))
    given = sum(graph.values[name].nbytes for name in graph.inputs)
    return given + max(levels, default=0)
