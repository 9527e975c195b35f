"""An exported program, specialised to its inputs' shapes, as a Graph."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from workers.graph.graph import Argument, DtypeRef, Graph, Operator, TensorSpec, ValueRef
from workers.graph.importers.canonical import REWRITTEN, canonical
from workers.graph.importers.known_numbers import NotKnownError, known_value
from workers.graph.importers.program_inputs import ProgramInputs, dtype_name
from workers.graph.importers.source import ImportFailure
from workers.graph.operators import KINDS
from workers.graph.units import operator_units

_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
# Arguments that say where and how a result lies in memory, which the device decides.
_PLACEMENT = {"device", "layout", "pin_memory", "memory_format", "requires_grad"}
# A Graph says nothing of strides, by which a view may be refused at other sizes than exported.
_BY_VALUE: Mapping[Any, Any] = {torch.ops.aten.view.default: torch.ops.aten.reshape.default}
# The argument that makes an allowed operator draw random numbers.
_RANDOM_IF = {
    "aten.scaled_dot_product_attention.default": "dropout_p",
    "aten.dropout.default": "train",
}

Adapt = Callable[[fx.Node, Sequence[Any]], Sequence[Any]]
"""From a call and the arguments that it gets now, to the arguments that it shall have instead of
its own: nodes where they depend on other calls."""


def _unchanged(node: fx.Node, _: Sequence[Any]) -> Sequence[Any]:
    return node.args


def program_graph(
    program: ExportedProgram, inputs: ProgramInputs, name: str, adapt: Adapt = _unchanged
) -> tuple[Graph, dict[str, Tensor]]:
    """The Graph of a functional ``program``, one operator a Unit, and its weights on the CPU.

    The program runs on fake tensors and each operator is written down, so that symbolic sizes
    become numbers on the way. Raises ImportFailure naming the operator or the input that a Graph
    cannot hold.
    """
    return _Recorder(program, inputs, adapt).graph(name)


def functional(program: ExportedProgram) -> ExportedProgram:
    """The program without in-place operators, and with those that Plait does not know decomposed
    into those that it does, where torch has a decomposition."""
    known = KINDS.keys() | REWRITTEN
    decompositions: Mapping[Any, Any] = dict(torch.export.default_decompositions())
    table = {op: decompose for op, decompose in decompositions.items() if str(op) not in known}
    try:
        result: ExportedProgram = program.run_decompositions(table)
    except Exception as error:
        raise ImportFailure(
            "malformed", f"torch cannot decompose the program: {type(error).__name__}: {error}"
        ) from error
    return result


class _Recorder:
    def __init__(self, program: ExportedProgram, inputs: ProgramInputs, adapt: Adapt) -> None:
        self._program, self._inputs, self._adapt = program, inputs, adapt
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._results: dict[fx.Node, Any] = {}
        self._names: dict[fx.Node, tuple[str, ...]] = {}
        self._values: dict[str, TensorSpec] = {}
        self._operators: list[Operator] = []
        self._weights: dict[str, Tensor] = {}

    def graph(self, name: str) -> tuple[Graph, dict[str, Tensor]]:
        self._refuse_changed_state()
        self._define_placeholders()
        outputs: tuple[str, ...] = ()
        with self._fake:
            for node in self._program.graph.nodes:
                if node.op == "call_function":
                    self._call(node)
                elif node.op == "output":
                    outputs = tuple(self._output(item) for item in node.args[0])
                elif node.op != "placeholder":
                    raise ImportFailure(
                        "unsupported_operator",
                        f"the model uses {node.target!r} (control flow or a custom object), which "
                        "Plait does not support",
                        node.name,
                    )
        if not self._operators or not outputs:
            raise ImportFailure("malformed", "the model computes nothing: it has no operators")
        graph = operator_units(
            name=name,
            inputs=tuple(self._inputs.tensors),
            outputs=outputs,
            weights=tuple(self._weights),
            values=self._values,
            operators=self._operators,
        )
        return graph, {weight: self._weights[weight] for weight in graph.weights}

    def _refuse_changed_state(self) -> None:
        for output in self._program.graph_signature.output_specs:
            if output.kind is not OutputKind.USER_OUTPUT:
                raise ImportFailure(
                    "unsupported_operator",
                    f"the model changes its state ({output.kind.name.lower()} of "
                    f"{output.target!r}); export it in eval mode and without caches",
                )

    def _define_placeholders(self) -> None:
        nodes = {n.name: n for n in self._program.graph.nodes if n.op == "placeholder"}
        for given in self._program.graph_signature.input_specs:
            node = nodes[given.arg.name]
            if node.name in self._inputs.constants:
                self._results[node] = self._inputs.constants[node.name]
                continue
            if given.kind is InputKind.USER_INPUT:
                spec = self._inputs.tensors[node.name]
                with self._fake:
                    tensor = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
            else:
                self._weights[node.name] = weight = self._weight(given)
                tensor = self._fake.from_tensor(weight)
            self._results[node] = tensor
            self._define(node, [node.name], [tensor])

    def _weight(self, given: InputSpec) -> Tensor:
        state: Mapping[str, Any] = {**self._program.state_dict, **self._program.constants}
        weight = state.get(str(given.target))
        if given.kind not in _STATE or not isinstance(weight, Tensor):
            raise ImportFailure(
                "unsupported_input",
                f"{given.target!r} is a {given.kind.name.lower()}; only tensors are supported",
            )
        if weight.layout is not torch.strided:
            raise ImportFailure("unsupported_input", f"weight {given.target!r} is not dense")
        return weight.detach().cpu()

    def _call(self, node: fx.Node) -> None:
        if node.target is python_operator.getitem:
            source, index = node.args
            assert isinstance(source, fx.Node)  # noqa: S101  # a result of several is one node
            assert isinstance(index, int)  # noqa: S101
            self._results[node] = self._results[source][index]
            if source in self._names:
                self._names[node] = (self._names[source][index],)
            return
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), self._results.__getitem__)
        given = self._adapt(node, arguments)
        if given is not node.args:
            arguments = fx.node.map_arg(tuple(given), self._results.__getitem__)
        if isinstance(node.target, OpOverload):
            _refuse_unknown(node, node.target)
            _refuse_random(node, node.target, arguments, keywords)
        result = self._results[node] = self._run(node, arguments, keywords)
        tensors = [result] if isinstance(result, Tensor) else result
        if not isinstance(tensors, (list, tuple)) or not any(
            isinstance(tensor, Tensor) for tensor in tensors
        ):
            return  # arithmetic on sizes, or an assertion about them: settled now
        single = isinstance(result, Tensor)
        names = [node.name] if single else [f"{node.name}.{i}" for i in range(len(tensors))]
        target, positional = canonical(str(node.target), given, tensors[0].dim())
        if target not in KINDS:
            raise _unsupported(node)
        self._operators.append(
            Operator(
                name=node.name,
                target=target,
                arguments=tuple(self._argument(node, item) for item in positional),
                keywords=tuple(
                    (key, self._argument(node, item))
                    for key, item in node.kwargs.items()
                    if key not in _PLACEMENT and item is not None
                ),
                outputs=tuple(names),
            )
        )
        self._define(node, names, tensors)

    def _run(self, node: fx.Node, arguments: Any, keywords: Any) -> Any:
        function = _BY_VALUE.get(node.target, node.target)
        assert callable(function)  # noqa: S101  # what call_function means
        try:
            return function(*arguments, **keywords)
        except DataDependentOutputException as error:
            try:
                return known_value(node, self._results, self._weights)
            except NotKnownError:
                raise _depends_on_data(node) from error
        except DynamicOutputShapeException as error:
            raise _depends_on_data(node) from error
        except Exception as error:
            sizes = {name: list(spec.shape) for name, spec in self._inputs.tensors.items()}
            raise ImportFailure(
                "unsupported_batch",
                f"operator {node.name!r} ({node.target}) does not work with inputs of the shape "
                f"{sizes}: {error}",
                node.name,
            ) from error

    def _argument(self, node: fx.Node, item: Any) -> Argument:
        if isinstance(item, fx.Node):
            found = self._results[item]
            if isinstance(found, Tensor):
                return ValueRef(self._names[item][0])
            return self._argument(node, found)
        if isinstance(item, (list, tuple)):
            return tuple(self._argument(node, part) for part in item)
        if isinstance(item, torch.dtype):
            return DtypeRef(dtype_name(item, f"an argument of operator {node.name!r}"))
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        raise ImportFailure(
            "unsupported_operator",
            f"operator {node.name!r} ({node.target}) takes a {type(item).__name__}, which Plait "
            "does not support",
            node.name,
        )

    def _output(self, item: Any) -> str:
        if not isinstance(item, fx.Node) or item not in self._names:
            raise ImportFailure(
                "unsupported_input",
                f"the model returns {item!r} among its results; let it return tensors only",
            )
        return self._names[item][0]

    def _define(self, node: fx.Node, names: Sequence[str], tensors: Sequence[Tensor]) -> None:
        self._names[node] = tuple(names)
        for name, tensor in zip(names, tensors, strict=True):
            shape = tuple(int(size) for size in tensor.shape)
            self._values[name] = TensorSpec(shape, dtype_name(tensor.dtype, f"value {name!r}"))


def _refuse_unknown(node: fx.Node, operator: OpOverload) -> None:
    computes = any("Tensor" in str(result.type) for result in operator._schema.returns)
    if computes and str(operator) not in KINDS and str(operator) not in REWRITTEN:
        raise _unsupported(node)


def _refuse_random(
    node: fx.Node, operator: OpOverload, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> None:
    if torch.Tag.nondeterministic_seeded not in operator.tags:
        return
    names = [argument.name for argument in operator._schema.arguments]
    given = {**dict(zip(names, arguments, strict=False)), **keywords}
    if given.get(_RANDOM_IF[str(operator)]):
        raise ImportFailure(
            "unsupported_operator",
            f"operator {node.name!r} ({operator}) draws random numbers; export the model in eval "
            "mode",
            node.name,
        )


def _depends_on_data(node: fx.Node) -> ImportFailure:
    return ImportFailure(
        "unsupported_operator",
        f"what operator {node.name!r} ({node.target}) returns depends on the data, and Plait needs "
        "every shape and number to be known before",
        node.name,
    )


def _unsupported(node: fx.Node) -> ImportFailure:
    return ImportFailure(
        "unsupported_operator",
        f"operator {node.name!r} is {node.target}, which Plait does not support",
        node.name,
    )
