"""Calls that stand for several operators of a Unit, as data: what a kernel provider chose.

A provider describes a Unit's calls, the interpreter makes functions of them, and an artifact
carries them to its ``run.py``. Nothing here needs torch, and nothing holds a tensor: a weight that
a library wants in its own layout is told by the recipe that packs it (``Packed``). An artifact is
data from elsewhere, so only what is in ``CALLS`` and ``PACKINGS`` is ever called.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.graph.graph import Argument, Graph, Operator, Unit, references

CALLS = frozenset(
    {
        "mkldnn._convolution_pointwise.default",
        "mkldnn._linear_pointwise.default",
        "aten.cudnn_convolution_relu.default",
        "aten.cudnn_convolution_add_relu.default",
        "aten._addmm_activation.default",
    }
)
CHANNELS_LAST, TRANSPOSED = "channels_last", "transposed"
PACKINGS = frozenset(
    {
        "mkldnn._reorder_convolution_weight.default",
        "mkldnn._reorder_linear_weight.default",
        CHANNELS_LAST,
        TRANSPOSED,
    }
)
"""What makes a weight ready: operators of oneDNN, the same values channels last, or their view with
rows and columns exchanged. oneDNN packs for as many threads as the calling thread may use."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The weight of that name after ``recipe(weight, *arguments)``, once."""

    weight: str
    recipe: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class FusedCall:
    """One call of ``target`` in place of ``operators``, of which only the last one's ``output`` is
    read by others. It stands where the last one stood."""

    operators: tuple[str, ...]
    target: str
    arguments: tuple[Argument | Packed, ...]
    output: str
    keywords: tuple[tuple[str, Argument], ...] = ()

    @property
    def name(self) -> str:
        """The target and, of oneDNN's, what is fused to it: its first text argument."""
        plain = self.target.removesuffix(".default")
        fused = next((text for text in self.arguments if isinstance(text, str)), None)
        return f"{plain}({fused})" if fused else plain

    @property
    def weights(self) -> tuple[str, ...]:
        """The weights that are packed for it."""
        return tuple(item.weight for item in self.arguments if isinstance(item, Packed))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The values that it is given as they are."""
        plain = [item for item in self.arguments if not isinstance(item, Packed)]
        plain += [value for _, value in self.keywords]
        return tuple(dict.fromkeys(name for item in plain for name in references(item)))


@dataclass(frozen=True, slots=True)
class UnitKernels:
    """What computes a Unit: ``calls`` for some of its operators, which share none, and the others
    one by one, for which the weights ``channels_last`` are laid out so."""

    calls: tuple[FusedCall, ...] = ()
    channels_last: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.calls or self.channels_last)


PLAIN = UnitKernels()


def only_reader(graph: Graph, unit: Unit, value: str) -> Operator | None:
    """The operator of the Unit that alone reads ``value``, if nobody outside does."""
    if value in unit.outputs or value in graph.outputs:
        return None
    readers = [operator for operator in unit.operators if value in operator.inputs]
    return readers[0] if len(readers) == 1 else None
