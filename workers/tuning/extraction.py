"""Which tensor programs a model is made of, and how often each occurs (DOPpler, Section 5.2,
"Model-level auto-tuning"). A program is tuned once, however often it occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isclose, prod, sqrt

from workers.graph.cost import flops as flops_of
from workers.graph.graph import Argument, Graph, Operator, TensorSpec, Unit, ValueRef
from workers.graph.operators import KINDS
from workers.tuning.program import ProgramError, TensorProgram
from workers.tuning.programs import catalog
from workers.tuning.programs.layouts import SPACE

Values = Mapping[str, TensorSpec]

_RELU = "aten.relu.default"
_DTYPE = "float32"
"""What every family that models are covered by computes in."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place of a Graph where a program is computed: by ``operators`` of ``unit``, from the values
    ``operands`` in the order of the program's inputs. Those and ``result`` have the elements of the
    program's tensors in the same order, but maybe another shape."""

    unit: str
    operators: tuple[str, ...]
    operands: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True)
class Extracted:
    """A program and where it occurs; ``flops`` are of one occurrence."""

    program: TensorProgram
    flops: int
    occurrences: tuple[Occurrence, ...]

    @property
    def total_flops(self) -> int:
        """Of all of its occurrences."""
        return self.flops * len(self.occurrences)


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Operators that no program computes, for one ``reason``, and their ``flops`` together."""

    reason: str
    operators: tuple[str, ...]
    flops: int


@dataclass(frozen=True, slots=True)
class ExtractedPrograms:
    """What a Graph of ``flops`` FLOPs is made of; programs and what they do not cover both begin
    with the most FLOPs. Operators without FLOPs, such as views, are in neither."""

    flops: int
    programs: tuple[Extracted, ...]
    uncovered: tuple[Uncovered, ...]

    def share(self, part: Extracted | Uncovered) -> float:
        """Its part of the model's FLOPs."""
        found = part.total_flops if isinstance(part, Extracted) else part.flops
        return found / self.flops

    @property
    def covered(self) -> float:
        """The programs' part of the model's FLOPs; none of a model that computes nothing."""
        return sum(program.total_flops for program in self.programs) / max(1, self.flops)


class _UnfitError(Exception):
    """An operator that no family computes; says why."""


@dataclass(frozen=True, slots=True)
class _Match:
    """A family with sizes that computes an operator, and the values that it reads."""

    family: str
    sizes: Mapping[str, int]
    operands: tuple[str, ...]


def extract(graph: Graph) -> ExtractedPrograms:
    """The programs that compute the graph's convolutions, products and attentions, each with a bias
    and a ReLU where they follow in the same Unit. Raises nothing: what is not covered is told."""
    occurrences: dict[TensorProgram, list[Occurrence]] = {}
    uncovered: dict[str, list[Operator]] = {}
    for unit in graph.units:
        taken: set[str] = set()
        for operator in unit.operators:
            if operator.name in taken:
                continue
            try:
                program, found = _occurrence(operator, unit, graph.values)
            except _UnfitError as error:
                uncovered.setdefault(str(error), []).append(operator)
            else:
                occurrences.setdefault(program, []).append(found)
                taken.update(found.operators)
    return ExtractedPrograms(
        graph.flops, _programs(occurrences), _sorted_uncovered(uncovered, graph.values)
    )


def _programs(found: Mapping[TensorProgram, list[Occurrence]]) -> tuple[Extracted, ...]:
    programs = [
        Extracted(program, catalog.flops(program), tuple(occurrences))
        for program, occurrences in found.items()
    ]
    return tuple(sorted(programs, key=lambda program: -program.total_flops))


def _sorted_uncovered(found: Mapping[str, list[Operator]], values: Values) -> tuple[Uncovered, ...]:
    groups = [
        Uncovered(
            reason,
            tuple(operator.name for operator in operators),
            sum(flops_of(operator, values) for operator in operators),
        )
        for reason, operators in found.items()
    ]
    return tuple(sorted((g for g in groups if g.flops), key=lambda group: -group.flops))


def _occurrence(operator: Operator, unit: Unit, values: Values) -> tuple[TensorProgram, Occurrence]:
    match = _match(operator, values)
    relu = _following_relu(operator, unit) if "relu" in _sizes_of(match.family) else None
    sizes = {**match.sizes, "relu": 1} if relu else match.sizes
    try:
        program = catalog.program(match.family, sizes)
    except ProgramError as error:
        raise _UnfitError(str(error)) from None
    computed_by = (operator, relu) if relu else (operator,)
    return program, Occurrence(
        unit.name,
        tuple(each.name for each in computed_by),
        match.operands,
        computed_by[-1].outputs[0],
    )


def _sizes_of(family: str) -> Mapping[str, int]:
    return next(iter(catalog.FAMILIES[family].workloads.values()))


def _following_relu(operator: Operator, unit: Unit) -> Operator | None:
    """The ReLU of the same Unit that alone reads the operator's result, if there is one."""
    (result,) = operator.outputs
    readers = [other for other in unit.operators if result in other.inputs]
    if result in unit.outputs or [reader.target for reader in readers] != [_RELU]:
        return None
    return readers[0]


def _match(operator: Operator, values: Values) -> _Match:
    """Raises _UnfitError if no family computes the operator."""
    if operator.target not in _MATCHERS:
        kind = KINDS[operator.target]
        raise _UnfitError(f"there is no family of tensor programs for operators of kind {kind!r}")
    for name in (*operator.inputs, *operator.outputs):
        if values[name].dtype != _DTYPE:
            raise _UnfitError(f"it computes in {values[name].dtype}, the families in {_DTYPE}")
    return _MATCHERS[operator.target](operator, values)


def _argument(operator: Operator, position: int, name: str, default: Argument) -> Argument:
    if position < len(operator.arguments):
        return operator.arguments[position]
    return dict(operator.keywords).get(name, default)


def _tensor(operator: Operator, position: int, name: str) -> str | None:
    """The value that is an argument, None if it is left out."""
    found = _argument(operator, position, name, None)
    return found.name if isinstance(found, ValueRef) else None


def _required(operator: Operator, position: int, name: str) -> str:
    found = _tensor(operator, position, name)
    if found is None:
        raise _UnfitError(f"argument {name} of {operator.target} is no tensor")
    return found


def _along(
    operator: Operator, position: int, what: str, space: str, default: int
) -> Iterator[tuple[str, int]]:
    """The sizes ``WHAT_AXIS`` of each dimension of space; a single number is of all of them."""
    found = _argument(operator, position, what, default)
    each = found if isinstance(found, tuple) else (found,)
    each = each * len(space) if len(each) == 1 else each
    for letter, size in zip(space, each, strict=True):
        if not isinstance(size, int):
            raise _UnfitError(f"{what} of {operator.target} is {found!r}, no integers")
        yield f"{what}_{SPACE[letter]}", size


def _with_bias(
    read: tuple[str, ...], bias: str | None, length: int, values: Values
) -> tuple[tuple[str, ...], int]:
    """What is read with the bias, if there is one, and the size ``bias``."""
    if bias is None:
        return read, 0
    if values[bias].shape != (length,):
        raise _UnfitError("what is added to it is not one number for each column or channel")
    return (*read, bias), 1


def _layer(operator: Operator, read: tuple[str, ...], space: str, values: Values) -> dict[str, int]:
    """The sizes that plain and transposed convolutions both have, without those of the output's
    channels; a single sample may have no batch dimension."""
    x, w = (values[name].shape for name in read)
    batch, channels, *extent = (1, *x) if len(x) == len(space) + 1 else x
    axes = [SPACE[letter] for letter in space]
    return {
        "batch": batch,
        "in_channels": channels,
        **dict(zip(axes, extent, strict=True)),
        **{f"kernel_{axis}": size for axis, size in zip(axes, w[2:], strict=True)},
        **dict(_along(operator, 3, "stride", space, 1)),
        **dict(_along(operator, 4, "padding", space, 0)),
        "relu": 0,
    }


def _groups(operator: Operator) -> int:
    found = _argument(operator, 6, "groups", 1)
    if not isinstance(found, int):
        raise _UnfitError(f"groups of {operator.target} are {found!r}, no integer")
    return found


def _convolution(operator: Operator, values: Values) -> _Match:
    read = (_required(operator, 0, "input"), _required(operator, 1, "weight"))
    out_channels, _, *kernel = values[read[1]].shape
    space, groups = "DHW"[-len(kernel) :], _groups(operator)
    operands, bias = _with_bias(read, _tensor(operator, 2, "bias"), out_channels, values)
    sizes = {
        **_layer(operator, read, space, values),
        **dict(_along(operator, 5, "dilation", space, 1)),
        "bias": bias,
    }
    channels = sizes["in_channels"]
    if len(space) == 2 and groups == 1:
        return _Match("conv2d_nchw", {**sizes, "out_channels": out_channels}, operands)
    if len(space) == 2 and groups == channels:
        multiplier = out_channels // channels
        return _Match("depthwise_conv2d", {**sizes, "multiplier": multiplier}, operands)
    family = {1: "conv1d_ncw", 2: "grouped_conv2d", 3: "conv3d_ncdhw"}[len(space)]
    return _Match(family, {**sizes, "out_channels": out_channels, "groups": groups}, operands)


def _transposed_convolution(operator: Operator, values: Values) -> _Match:
    read = (_required(operator, 0, "input"), _required(operator, 1, "weight"))
    _, per_group, *kernel = values[read[1]].shape
    space, groups = "DHW"[-len(kernel) :], _groups(operator)
    if any(dilation != 1 for _, dilation in _along(operator, 7, "dilation", space, 1)):
        raise _UnfitError("there is no family of dilated transposed convolutions")
    out_channels = per_group * groups
    operands, bias = _with_bias(read, _tensor(operator, 2, "bias"), out_channels, values)
    sizes = {
        **_layer(operator, read, space, values),
        **dict(_along(operator, 5, "output_padding", space, 0)),
        "out_channels": out_channels,
        "groups": groups,
        "bias": bias,
    }
    family = {1: "tconv1d_ncw", 2: "tconv2d_nchw", 3: "tconv3d_ncdhw"}[len(space)]
    return _Match(family, sizes, operands)


def _linear(operator: Operator, values: Values) -> _Match:
    """x Wᵀ + b, where all dimensions of x but its last are rows."""
    read = (_required(operator, 0, "input"), _required(operator, 1, "weight"))
    x, w = (values[name].shape for name in read)
    columns, inner = w if len(w) == 2 else (1, *w)
    operands, bias = _with_bias(read, _tensor(operator, 2, "bias"), columns, values)
    sizes = {"rows": prod(x[:-1]), "inner": inner, "columns": columns, "bias": bias, "relu": 0}
    return _Match("dense", sizes, operands)


def _addmm(operator: Operator, values: Values) -> _Match:
    """b + A B, where b has one number for each column."""
    read = (_required(operator, 1, "mat1"), _required(operator, 2, "mat2"))
    (rows, inner), (_, columns) = (values[name].shape for name in read)
    if any(_argument(operator, at, name, 1) != 1 for at, name in ((3, "beta"), (4, "alpha"))):
        raise _UnfitError("its product or what is added to it has a factor")
    operands, bias = _with_bias(read, _required(operator, 0, "self"), columns, values)
    sizes = {"rows": rows, "inner": inner, "columns": columns, "bias": bias, "relu": 0}
    return _Match("matmul", sizes, operands)


def _baddbmm(_operator: Operator, _values: Values) -> _Match:
    raise _UnfitError("there is no family of batched products that something is added to")


def _matmul(operator: Operator, values: Values) -> _Match:
    """A product of matrices, of as many pairs of them, or of many and one."""
    operands = (_required(operator, 0, "self"), _required(operator, 1, "other"))
    left, right = (values[name].shape for name in operands)
    if len(left) == 1:
        left = (1, *left)
    if len(right) == 1:
        right = (*right, 1)
    inner, columns = right[-2:]
    sizes = {"inner": inner, "columns": columns}
    if prod(right[:-2]) == 1:
        plain = {**sizes, "rows": prod(left[:-1]), "bias": 0, "relu": 0}
        return _Match("matmul", plain, operands)
    if left[:-2] != right[:-2]:
        raise _UnfitError("it broadcasts one of its operands over a batch")
    return _Match("batch_matmul", {**sizes, "batch": prod(left[:-2]), "rows": left[-2]}, operands)


def _attention(operator: Operator, values: Values) -> _Match:
    operands = tuple(
        _required(operator, position, name)
        for position, name in enumerate(("query", "key", "value"))
    )
    query, key, value = (values[name].shape for name in operands)
    if _argument(operator, 3, "attn_mask", None) is not None:
        raise _UnfitError("there is no family of attention with a mask")
    if _argument(operator, 5, "is_causal", False) is not False:
        raise _UnfitError("there is no family of causal attention")
    if _argument(operator, 4, "dropout_p", 0.0) != 0:
        raise _UnfitError("there is no family of attention with dropout")
    scale = dict(operator.keywords).get("scale")
    if isinstance(scale, int | float) and not isclose(scale, 1 / sqrt(query[-1])):
        raise _UnfitError(f"its scores are multiplied by {scale:g}, not by 1 / √{query[-1]}")
    if not query[:-2] == key[:-2] == value[:-2]:
        raise _UnfitError("its queries share keys or values")
    batch, *heads = query[:-2] or (1,)
    sizes = {
        "batch": batch,
        "heads": prod(heads),
        "queries": query[-2],
        "keys": key[-2],
        "head_size": query[-1],
        "value_size": value[-1],
    }
    return _Match("self_attention", sizes, operands)


_MATCHERS: Mapping[str, Callable[[Operator, Values], _Match]] = {
    "aten.conv1d.default": _convolution,
    "aten.conv2d.default": _convolution,
    "aten.conv3d.default": _convolution,
    "aten.conv_transpose1d.default": _transposed_convolution,
    "aten.conv_transpose2d.input": _transposed_convolution,
    "aten.conv_transpose3d.input": _transposed_convolution,
    "aten.linear.default": _linear,
    "aten.addmm.default": _addmm,
    "aten.mm.default": _matmul,
    "aten.bmm.default": _matmul,
    "aten.matmul.default": _matmul,
    "aten.baddbmm.default": _baddbmm,
    "aten.scaled_dot_product_attention.default": _attention,
}
