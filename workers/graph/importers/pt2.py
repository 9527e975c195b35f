"""``torch.export`` programs to Graphs.

Loading a ``.pt2`` file executes code from it, so everything here that takes a path runs only in
the sandboxed child process.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from workers.graph.graph import (
    ITEM_SIZES,
    Argument,
    DtypeRef,
    Graph,
    Operator,
    TensorSpec,
    ValueRef,
)
from workers.graph.importers.source import ImportFailure
from workers.graph.operators import KINDS
from workers.graph.random_inputs import random_tensors
from workers.graph.units import operator_units

_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
# Arguments that say where a result lives, which the device decides.
_PLACEMENT = {"device", "layout", "pin_memory", "memory_format", "requires_grad"}


def load_program(path: Path) -> ExportedProgram:
    """Load a ``.pt2`` file. Executes code from it: only in the sandbox."""
    try:
        program = torch.export.load(path)
    except Exception as error:
        raise ImportFailure(
            "malformed",
            f"torch.export.load refuses the file: {type(error).__name__}: {error}; "
            "write it with torch.export.save of the same torch version "
            f"({torch.__version__.partition('+')[0]})",
        ) from error
    return program


def import_program(
    program: ExportedProgram, batch_size: int, name: str = "model"
) -> tuple[Graph, dict[str, Tensor]]:
    """Specialise ``program`` to ``batch_size`` and turn it into a Graph of one operator a Unit.

    Raises ImportFailure naming the operator or the input that cannot be imported.
    """
    functional = program.run_decompositions({})
    return _Importer(functional, batch_size).graph(name)


def run_original(
    program: ExportedProgram, batch_size: int, seeds: Iterable[int]
) -> list[dict[str, Tensor]]:
    """The original program's outputs on ``random_inputs`` of each seed, as ``output_0`` … in the
    order in which it returns them, which is the order of the Graph's outputs."""
    specs = {node.name: _input_spec(node, batch_size) for node in _user_inputs(program)}
    module = program.module()
    results = []
    for seed in seeds:
        with torch.inference_mode():
            inputs = random_tensors(specs, seed)
            found = module(*_in_the_call_s_form(program, list(inputs.values())))
        flat, _ = torch.utils._pytree.tree_flatten(found)
        results.append({f"output_{index}": tensor for index, tensor in enumerate(flat)})
    return results


def _user_inputs(program: ExportedProgram) -> list[fx.Node]:
    names = set(program.graph_signature.user_inputs)
    return [n for n in program.graph.nodes if n.op == "placeholder" and n.name in names]


def _input_spec(node: fx.Node, batch_size: int) -> TensorSpec:
    """The first dimension is the batch; any other dynamic one takes the size it was traced at."""
    example = node.meta.get("val")
    if not isinstance(example, Tensor):
        raise ImportFailure(
            "unsupported_input", f"input {node.name!r} is no tensor; export with tensors only"
        )
    shape = []
    for axis, size in enumerate(example.shape):
        if isinstance(size, int):
            if axis == 0 and size != batch_size:
                raise ImportFailure(
                    "unsupported_batch",
                    f"input {node.name!r} was exported with the fixed batch size {size}, but the "
                    f"job asks for {batch_size}; ask for {size}, or export with "
                    "dynamic_shapes={0: torch.export.Dim('batch')}",
                )
            shape.append(size)
        else:
            shape.append(batch_size if axis == 0 else int(size.node.hint))
    return TensorSpec(tuple(shape), _dtype(example.dtype))


def _in_the_call_s_form(program: ExportedProgram, flat: list[Tensor]) -> Sequence[Any]:
    """Positional arguments in the nesting that the program was exported with."""
    args, kwargs = torch.utils._pytree.tree_unflatten(flat, program.call_spec.in_spec)
    if kwargs:
        raise ImportFailure(
            "unsupported_input", "the model takes keyword arguments; export with positional ones"
        )
    return args


def _dtype(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in ITEM_SIZES:
        raise ImportFailure("unsupported_input", f"tensors of type {name} are not supported")
    return name


class _Importer:
    """Runs the program on fake tensors of the wanted batch size and writes down each operator.

    Symbolic sizes become numbers on the way, because every size is known when it is computed.
    """

    def __init__(self, program: ExportedProgram, batch_size: int) -> None:
        self._program, self._batch_size = program, batch_size
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
        inputs = tuple(node.name for node in _user_inputs(self._program))
        read = {value for operator in self._operators for value in operator.inputs} | {*outputs}
        weights = {name: tensor for name, tensor in self._weights.items() if name in read}
        unused = self._weights.keys() - weights.keys()
        graph = operator_units(
            name=name,
            inputs=inputs,
            outputs=outputs,
            weights=tuple(weights),
            values={name: spec for name, spec in self._values.items() if name not in unused},
            operators=self._operators,
        )
        return graph, weights

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
        state = {**self._program.state_dict, **self._program.constants}
        for given in self._program.graph_signature.input_specs:
            node = nodes[given.arg.name]
            if given.kind is InputKind.USER_INPUT:
                spec = _input_spec(node, self._batch_size)
                with self._fake:
                    tensor = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
            elif given.kind in _STATE:
                weight = state[str(given.target)].detach()
                self._weights[node.name] = weight
                tensor = self._fake.from_tensor(weight)
            else:
                raise ImportFailure(
                    "unsupported_input",
                    f"input {node.name!r} is a {given.kind.name.lower()}; only tensors are taken",
                )
            self._results[node] = tensor
            self._define(node, [node.name], [tensor])

    def _call(self, node: fx.Node) -> None:
        if node.target is python_operator.getitem:
            source, index = node.args
            self._results[node] = self._results[source][index]
            if source in self._names:
                self._names[node] = (self._names[source][index],)
            return
        result = self._results[node] = self._run(node)
        tensors = [result] if isinstance(result, Tensor) else result
        if not isinstance(tensors, (list, tuple)) or not isinstance(tensors[0], Tensor):
            return  # arithmetic on sizes, or an assertion about them: settled now
        target = str(node.target)
        if target not in KINDS:
            raise ImportFailure(
                "unsupported_operator",
                f"operator {node.name!r} is {target}, which Plait does not support",
                node.name,
            )
        single = isinstance(result, Tensor)
        names = [node.name] if single else [f"{node.name}.{i}" for i in range(len(tensors))]
        self._operators.append(
            Operator(
                name=node.name,
                target=target,
                arguments=tuple(self._argument(node, item) for item in node.args),
                keywords=tuple(
                    (key, self._argument(node, item))
                    for key, item in node.kwargs.items()
                    if key not in _PLACEMENT and item is not None
                ),
                outputs=tuple(names),
            )
        )
        self._define(node, names, tensors)

    def _run(self, node: fx.Node) -> Any:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._results.__getitem__)
        try:
            return node.target(*args, **kwargs)
        except Exception as error:
            raise ImportFailure(
                "unsupported_batch",
                f"operator {node.name!r} ({node.target}) does not work at batch "
                f"{self._batch_size}: {error}; export the model with a dynamic batch size",
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
            return DtypeRef(_dtype(item))
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        raise ImportFailure(
            "unsupported_operator",
            f"operator {node.name!r} takes a {type(item).__name__}, which Plait does not support",
            node.name,
        )

    def _output(self, item: Any) -> str:
        if not isinstance(item, fx.Node) or item not in self._names:
            raise ImportFailure("unsupported_input", f"the model returns {item!r}, not a tensor")
        return self._names[item][0]

    def _define(self, node: fx.Node, names: Sequence[str], tensors: Sequence[Tensor]) -> None:
        self._names[node] = tuple(names)
        for name, tensor in zip(names, tensors, strict=True):
            shape = tuple(int(size) for size in tensor.shape)
            self._values[name] = TensorSpec(shape, _dtype(tensor.dtype))
