"""Which operators run back to back as one Unit."""

from __future__ import annotations

import heapq

from workers.graph.graph import Graph, ValueRef
from workers.graph.operators import KINDS, is_kernel_free
from workers.graph.passes.gathering import Gathering
from workers.graph.passes.given_views import copy_given_views
from workers.graph.passes.granularity import Granularity
from workers.graph.passes.pointwise import is_pointwise
from workers.graph.passes.separable import is_depthwise, is_pointwise_convolution
from workers.graph.units import leading_operator, regroup

_ONE_RESULT = ("conv", "linear", "matmul")
_TAKES_SUMS = ("normalization", "softmax")
_TAKES_ONE_VALUE = ("conv", "reduction")
_SEVERAL_RESULTS = ("normalization", "reduction", "elementwise", "activation")


def fuse(
    graph: Graph, granularity: Granularity = Granularity.FUSED, *, residual: bool = False
) -> Graph:
    """Group the graph's operators into Units; any grouping that the graph had is given up.

    Before: ``permute(x) → p``, ``conv(p) → c``, ``relu(c) → r``, ``flatten(r) → f``,
    ``softmax(f) → y``. After: Unit ``conv`` = {permute, conv, relu, flatten}, Unit ``softmax``.

    At every granularity an operator without a kernel joins the Unit that computes what it reads,
    or, if that is given, the one that reads it. ``fused`` besides, in this order:

    1. *Separable convolution*: a depthwise convolution joins the 1 x 1 convolution that alone reads
       it, with nothing between them.
    2. *Epilogue*: pointwise operators join the convolution, product, normalisation, reduction or
       pointwise operator whose result they read, as far as all else that they read is that Unit's
       too or given. A layer takes them only if nothing else reads the result of the layer itself,
       which then need not be stored. What is not a convolution or product also takes operators that
       read older values, from Units that it needs anyway; with ``residual``, those do too.
       Without, the sum at the end of a residual branch is a Unit, as in IOS's Table 1.
    3. *Prologue*: pointwise operators on one value join the convolution (IOS's ReLU-SepConv) or
       reduction that alone reads them. So do sums of several values if the convolution is
       separable, as at RandWire's nodes, or if it is a normalisation, softmax, concatenation
       (NASNet's cells) or pointwise Unit that alone reads them.

    ``block`` then makes one Unit of every run of Units in which each is read by the next alone and
    reads the one before alone.

    Units never wait for each other in a circle, and layers that could run side by side still can:
    every step is one of the two moves of Gathering.
    """
    graph = copy_given_views(graph)
    gathering = Gathering(graph)
    fusion = _Fusion(graph, gathering, residual)
    fusion.attach_views()
    if granularity is not Granularity.OPERATOR:
        fusion.join_separable_convolutions()
        fusion.join_epilogues()
        fusion.join_prologues()
    fusion.attach_given_views()
    if granularity is Granularity.BLOCK:
        _join_runs(gathering)
    return regroup(graph, gathering.groups())


class _Fusion:
    """The steps of ``fuse``. Groups and operators are positions in the graph."""

    def __init__(self, graph: Graph, gathering: Gathering, residual: bool) -> None:
        self._graph, self._gathering, self._residual = graph, gathering, residual
        self._operators = graph.operators
        self._position = {operator.name: i for i, operator in enumerate(graph.operators)}
        self._separable: set[int] = set()

    def attach_views(self) -> None:
        """An operator without a kernel reads one value, so that it may always follow."""
        for position, operator in enumerate(self._operators):
            sources = self._gathering.sources(position)
            if is_kernel_free(operator.target) and sources:
                self._gathering.join(position, max(sources))

    def attach_given_views(self) -> None:
        """One that reads a given value has one reader, which it may precede, or none; then it goes
        to the Unit that will be the first."""
        anchors = self._gathering.anchors()
        first = self._first(anchors)
        for position in reversed(anchors):
            if is_kernel_free(self._operators[position].target):
                sinks = self._gathering.sinks(position) or first
                if sinks:
                    self._gathering.join(position, min(sinks))

    def _first(self, anchors: list[int]) -> set[int]:
        """Of the groups with kernels that wait for no other, the one that leads first; or none."""
        standing = {}
        views = {a for a in anchors if is_kernel_free(self._operators[a].target)}
        for anchor in anchors:
            if anchor not in views and self._gathering.sources(anchor) <= views:
                members = sorted(self._gathering.members(anchor))
                leading = leading_operator([self._operators[member] for member in members])
                standing[self._position[leading.name]] = anchor
        return {standing[min(standing)]} if standing else set()

    def join_separable_convolutions(self) -> None:
        """A depthwise convolution precedes the 1 x 1 convolution that is its one reader."""
        gathering, values = self._gathering, self._graph.values
        for position, operator in enumerate(self._operators):
            if not is_depthwise(operator, values) or gathering.members(position) != [position]:
                continue
            readers = gathering.readers(position)
            if len(readers) != 1 or gathering.returns(position):
                continue
            (reader,) = readers
            mixing = self._operators[reader]
            if is_pointwise_convolution(mixing, values) and mixing.arguments[0] == ValueRef(
                operator.outputs[0]
            ):
                gathering.join(position, reader)
                self._separable.add(reader)

    def join_epilogues(self) -> None:
        for anchor in range(len(self._operators)):
            if self._gathering.anchor(anchor) == anchor:
                for position in self._epilogue(anchor):
                    self._gathering.join(position, anchor)

    def _epilogue(self, anchor: int) -> list[int]:
        """The pointwise operators that follow the group, in order; none if it takes none."""
        gathering = self._gathering
        several = self._is_pointwise(anchor) or self._kind(anchor) in _SEVERAL_RESULTS
        if not several and self._kind(anchor) not in _ONE_RESULT:
            return []
        stored = self._is_pointwise(anchor)
        if not stored and gathering.returns(anchor):
            return []
        inside = {anchor}
        waiting = sorted(gathering.readers(anchor))
        seen = set(waiting)
        while waiting:
            position = heapq.heappop(waiting)
            others = gathering.sources(position) - inside
            allowed = (several or self._residual) and all(
                gathering.depends(anchor, other) for other in others
            )
            alone = gathering.anchor(position) == position
            if alone and self._is_pointwise(position) and (not others or allowed):
                inside.add(position)
                for reader in gathering.readers(position) - seen:
                    seen.add(reader)
                    heapq.heappush(waiting, reader)
            elif not stored and anchor in gathering.sources(gathering.anchor(position)):
                return []
        return sorted(inside - {anchor})

    def join_prologues(self) -> None:
        for anchor in reversed(self._gathering.anchors()):
            sinks = self._gathering.sinks(anchor)
            if len(sinks) == 1 and self._is_pointwise(anchor):
                (sink,) = sinks
                if not self._gathering.returns(anchor) and self._takes(sink, anchor):
                    self._gathering.join(anchor, sink)

    def _takes(self, sink: int, anchor: int) -> bool:
        """Whether the pointwise group ``anchor`` precedes the group ``sink``, its one reader."""
        if self._is_pointwise(sink) or sink in self._separable or self._kind(sink) in _TAKES_SUMS:
            return True
        if self._kind(sink) in _TAKES_ONE_VALUE:
            return len(self._gathering.sources(anchor)) <= 1
        return self._kind(sink) == "concat" and self._sums(anchor)

    def _sums(self, anchor: int) -> bool:
        """Whether an operator of the group combines two computed values, be they one value."""
        given = {*self._graph.inputs, *self._graph.weights}
        return any(
            sum(isinstance(a, ValueRef) and a.name not in given for a in operator.arguments) > 1
            for operator in (self._operators[m] for m in self._gathering.members(anchor))
        )

    def _kind(self, anchor: int) -> str:
        return KINDS[self._operators[anchor].target]

    def _is_pointwise(self, anchor: int) -> bool:
        return is_pointwise(self._operators[anchor])


def _join_runs(gathering: Gathering) -> None:
    """Join each group to the one before it if that is all it reads and that has no other reader."""
    sources = {anchor: gathering.sources(anchor) for anchor in gathering.anchors()}
    sinks = {anchor: gathering.sinks(anchor) for anchor in sources}
    for anchor, before in sources.items():
        if len(before) == 1:
            (source,) = before
            if sinks[source] == {anchor}:
                gathering.join(anchor, gathering.anchor(source))
