"""Recurrent layers of ONNX models: against torch, which exported them, and ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from support.onnx_nodes import computed
from support.onnx_runtime import by_onnx_runtime, one_node
from torch import Tensor, nn

from workers.graph.importers.onnx import OnnxModel
from workers.graph.importers.onnx.model_file import ModelData
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure

_STEPS, _BATCH, _INPUT, _HIDDEN = 5, 3, 4, 6
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _inputs(op_type: str, directions: int, **chosen: Tensor) -> dict[str, Tensor]:
    """Every input of a recurrent operator by name, in order; ``chosen`` replace or add some."""
    generator = torch.Generator().manual_seed(7)
    gates = _GATES[op_type] * _HIDDEN
    shapes = {
        "X": (_STEPS, _BATCH, _INPUT),
        "W": (directions, gates, _INPUT),
        "R": (directions, gates, _HIDDEN),
        "B": (directions, 2 * gates),
        "lengths": None,
        "h": (directions, _BATCH, _HIDDEN),
    }
    if op_type == "LSTM":
        shapes |= {"c": (directions, _BATCH, _HIDDEN), "P": (directions, 3 * _HIDDEN)}
    made = {
        name: torch.randn(shape, generator=generator) for name, shape in shapes.items() if shape
    }
    return {name: (made | chosen)[name] for name in shapes if name in made | chosen}


def _model(
    op_type: str, tensors: dict[str, Tensor], given: tuple[str, ...], **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, Tensor]]:
    """A model whose inputs are those of ``given``; the other tensors are its weights."""
    order = ["X", "W", "R", "B", "lengths", "h", *(["c", "P"] if op_type == "LSTM" else [])]
    names = [name if name in tensors else "" for name in order]
    outputs = ["Y", "Y_h", *(["Y_c"] if op_type == "LSTM" else [])]
    inputs = {name: tensors[name] for name in given}
    weights = {name: tensor for name, tensor in tensors.items() if name not in given}
    model = one_node(
        op_type, names, outputs, opset=14, given=inputs, constants=weights,
        hidden_size=_HIDDEN, **attributes,
    )  # fmt: skip
    return model, inputs


def _assert_same(model: onnx.ModelProto, inputs: dict[str, Tensor]) -> None:
    wanted = by_onnx_runtime(model, inputs)
    for found, expected in zip(computed(model, inputs), wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


_LENGTHS = torch.tensor([5, 2, 3], dtype=torch.int32)
_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@pytest.mark.parametrize("direction", _DIRECTIONS)
@pytest.mark.parametrize("op_type", _GATES)
@pytest.mark.parametrize("lengths", ["none", "constant", "computed"])
def test_every_direction_with_and_without_lengths(
    op_type: str, direction: str, lengths: str
) -> None:
    chosen = {} if lengths == "none" else {"lengths": _LENGTHS}
    tensors = _inputs(op_type, _DIRECTIONS[direction], **chosen)
    given = ("X", "lengths") if lengths == "computed" else ("X",)
    _assert_same(*_model(op_type, tensors, given, direction=direction))


def test_steps_that_no_sequence_has_are_left_out() -> None:
    short = torch.tensor([2, 1, 2], dtype=torch.int32)
    model, inputs = _model("RNN", _inputs("RNN", 1, lengths=short), ("X",))
    _assert_same(model, inputs)
    assert _targets(model)["aten.addmm.default"] == 2


@pytest.mark.parametrize("before", [0, 1])
def test_gru_resets_before_or_after_the_product(before: int) -> None:
    model, inputs = _model(
        "GRU", _inputs("GRU", 2), ("X",), direction="bidirectional", linear_before_reset=before
    )
    _assert_same(model, inputs)


@pytest.mark.parametrize("coupled", [0, 1])
@pytest.mark.parametrize("clip", [None, 0.4])
def test_lstm_clips_and_couples_its_gates(coupled: int, clip: float | None) -> None:
    attributes = {} if clip is None else {"clip": clip}
    tensors = _inputs("LSTM", 1)
    if coupled:
        del tensors["P"]
    _assert_same(*_model("LSTM", tensors, ("X", "h", "c"), input_forget=coupled, **attributes))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Affine", {"activation_alpha": [0.7], "activation_beta": [0.2]}),
        ("Elu", {}),
        ("Elu", {"activation_alpha": [0.7]}),
        ("HardSigmoid", {}),
        ("HardSigmoid", {"activation_alpha": [0.7], "activation_beta": [0.2]}),
        ("LeakyRelu", {}),
        ("LeakyRelu", {"activation_alpha": [0.7]}),
        ("Relu", {}),
        ("ScaledTanh", {"activation_alpha": [0.7], "activation_beta": [0.2]}),
        ("Sigmoid", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Tanh", {}),
        ("ThresholdedRelu", {"activation_alpha": [0.7]}),
    ],
)
def test_activations(name: str, parameters: dict[str, Any]) -> None:
    """Where the defaults are ONNX Runtime's own (Affine, …) only with parameters."""
    activations = ["Sigmoid", name]
    _assert_same(*_model("GRU", _inputs("GRU", 1), ("X",), activations=activations, **parameters))


def test_parameters_go_to_the_activations_that_have_some() -> None:
    """The one alpha is Elu's, though Sigmoid comes before it."""
    names = ["Sigmoid", "Elu", "Tanh", "Sigmoid", "LeakyRelu", "Tanh"]
    model, inputs = _model(
        "LSTM", _inputs("LSTM", 2), ("X",), direction="bidirectional", activations=names,
        activation_alpha=[0.3, 0.6],
    )  # fmt: skip
    _assert_same(model, inputs)


@pytest.mark.parametrize("op_type", _GATES)
def test_weights_may_be_computed(op_type: str) -> None:
    tensors = _inputs(op_type, 2)
    _assert_same(*_model(op_type, tensors, ("X", "W", "R", "B"), direction="bidirectional"))


@pytest.mark.parametrize("op_type", _GATES)
def test_the_batch_may_come_first(op_type: str) -> None:
    """``layout`` 1, which ONNX Runtime does not have: every tensor's first two axes swapped."""
    tensors = _inputs(op_type, 2, lengths=_LENGTHS)
    model, inputs = _model(op_type, tensors, ("X",), direction="bidirectional")
    y, *states = by_onnx_runtime(model, inputs)
    swapped = tensors | {
        name: tensors[name].transpose(0, 1).contiguous()
        for name in ("X", "h", "c")
        if name in tensors
    }
    model, inputs = _model(op_type, swapped, ("X",), direction="bidirectional", layout=1)
    batch_first, *batch_first_states = computed(model, inputs)
    torch.testing.assert_close(batch_first, y.permute(2, 0, 1, 3), rtol=1e-4, atol=1e-5)
    for found, state in zip(batch_first_states, states, strict=True):
        torch.testing.assert_close(found, state.transpose(0, 1), rtol=1e-4, atol=1e-5)


def test_the_input_is_multiplied_once_and_a_step_is_short() -> None:
    plain = {name: t for name, t in _inputs("LSTM", 1).items() if name != "P"}
    model, _ = _model("LSTM", plain, ("X",))
    targets = _targets(model)
    assert targets["aten.linear.default"] == 1
    steps = ("addmm.default", "sigmoid.default", "addcmul.default", "mul.Tensor", "tanh.default")
    assert [targets[f"aten.{name}"] / _STEPS for name in steps] == [1, 1, 1, 2, 2]


def test_an_unknown_activation_is_refused_by_name() -> None:
    model, inputs = _model("RNN", _inputs("RNN", 1), ("X",), activations=["Swoosh"])
    with pytest.raises(ImportFailure, match="'swoosh'; known are affine"):
        computed(model, inputs)


def test_too_many_steps_are_refused() -> None:
    model, inputs = _model("RNN", _inputs("RNN", 1, X=torch.zeros(10_001, _BATCH, 4)), ("X",))
    with pytest.raises(ImportFailure, match="10001 steps, which Plait unrolls"):
        computed(model, inputs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights:UserWarning")
@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU, nn.LSTM])
def test_layers_exported_by_torch(layer: type[nn.RNN | nn.GRU | nn.LSTM]) -> None:
    torch.manual_seed(3)
    module = layer(_INPUT, _HIDDEN, num_layers=2, bidirectional=True, batch_first=True).eval()
    x = torch.randn(_BATCH, _STEPS, _INPUT)
    program = torch.onnx.export(module, (x,), dynamo=True, verbose=False, input_names=["x"])
    assert program is not None
    model = program.model_proto
    with torch.no_grad():
        y, states = module(x)
    wanted = [y, *(states if isinstance(states, tuple) else (states,))]
    for found, expected in zip(computed(model, {"x": x}), wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def _targets(model: onnx.ModelProto) -> Counter[str]:
    """How often the model's Graph calls each operator."""
    data = ModelData(model, Path(), memoryview(b""), (), None)
    graph, _ = OnnxModel(data, Sizes(_STEPS)).graph()
    return Counter(operator.target for unit in graph.units for operator in unit.operators)
