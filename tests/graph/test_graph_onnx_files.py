"""ONNX files: where their tensors lie, the sizes they leave open, and what is wrong with them."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.onnx_models import MEMORY_BYTES, convolutions, model, opened, written

from workers.graph.importers import onnx_bundle
from workers.graph.importers.onnx import OnnxModel
from workers.graph.importers.onnx.wire import LARGE_BYTES, MARKER, WireError, slim
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs


def agrees(opened_model: OnnxModel) -> None:
    graph, weights = opened_model.graph()
    (expected,) = opened_model.run([1])
    found = run_graph(graph, weights, random_inputs(graph, 1))
    for index, name in enumerate(graph.outputs):
        torch.testing.assert_close(found[name], expected[f"output_{index}"], rtol=1e-4, atol=1e-4)


def refusal(proto: onnx.ModelProto, folder: Path, batch_size: int = 1) -> ImportFailure:
    with pytest.raises(ImportFailure) as failure:
        opened(written(proto, folder), batch_size).graph()
    return failure.value


def in_files(proto: onnx.ModelProto, folder: Path, location: str) -> onnx.ModelProto:
    """The model with every weight in a data file."""
    data, start = bytearray(), 0
    for tensor in proto.graph.initializer:
        content = numpy_helper.to_array(tensor).tobytes()
        data += content
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", start), ("length", len(content))):
            tensor.external_data.add(key=key, value=str(value))
        start += len(content)
    (folder / "weights.bin").write_bytes(data)
    return proto


def packed(folder: Path, *names: str) -> Path:
    path = folder / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.write(folder / name, name)
    return path


def test_large_tensors_stay_in_the_file() -> None:
    proto = convolutions()
    data = memoryview(proto.SerializeToString())
    found = slim(data)
    sizes = [len(tensor.raw_data) for tensor in proto.graph.initializer]
    assert [length for _, length in found.places] == [s for s in sizes if s > LARGE_BYTES]
    kept = onnx.ModelProto.FromString(found.message)
    for place, tensor in enumerate(t for t in kept.graph.initializer if t.metadata_props):
        assert (tensor.metadata_props[0].key, tensor.metadata_props[0].value) == (
            MARKER,
            str(place),
        )
        start, length = found.places[place]
        original = next(t for t in proto.graph.initializer if t.name == tensor.name)
        assert bytes(data[start : start + length]) == original.raw_data
        tensor.ClearField("metadata_props")
        tensor.raw_data = original.raw_data
    assert kept == proto


def test_a_tensor_in_a_subgraph_stays_in_the_file(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    weights = [generator.standard_normal((64, 64), np.float32) for _ in range(2)]
    branches = [
        helper.make_graph(
            [helper.make_node("MatMul", ["x", f"w{index}"], [f"y{index}"])],
            f"branch{index}",
            [],
            [onnx.ValueInfoProto(name=f"y{index}")],
            [numpy_helper.from_array(weight, f"w{index}")],
        )
        for index, weight in enumerate(weights)
    ]
    proto = model(
        [
            helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0),
            helper.make_node("Greater", ["t", "zero"], ["c"]),
            helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ],
        {"x": [1, 64]},
        ["y"],
        {"zero": np.zeros((), np.float32)},
    )
    assert len(slim(memoryview(proto.SerializeToString())).places) == 2
    for attribute in proto.graph.node[2].attribute:
        attribute.g.output[0].CopyFrom(
            helper.make_tensor_value_info(attribute.g.output[0].name, TensorProto.FLOAT, [1, 64])
        )
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64]))
    agrees(opened(written(proto, tmp_path)))


def test_messages_nested_too_deep_are_refused() -> None:
    slim(memoryview(_nested(10)))
    with pytest.raises(WireError, match="nested more than"):
        slim(memoryview(_nested(100)))


def _nested(depth: int) -> bytes:
    """A model of graphs in attributes of nodes of graphs: fields 7; 6, 5 and 1."""
    content = b""
    for _ in range(depth):
        for field in (6, 5, 1):
            content = bytes([field << 3 | 2]) + _length(content) + content
    return bytes([7 << 3 | 2]) + _length(content) + content


def _length(content: bytes) -> bytes:
    size, encoded = len(content), bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_an_open_batch_takes_any_size(tmp_path: Path, batch_size: int) -> None:
    found = opened(written(convolutions("batch"), tmp_path), batch_size)
    assert found.graph()[0].values["x"].shape[0] == batch_size
    agrees(found)


@pytest.mark.parametrize(("stated", "asked"), [(1, 5), (2, 6), (4, 1), (2, 5)])
def test_a_stated_batch_is_replaced_if_every_output_grows_with_it(
    tmp_path: Path, stated: int, asked: int
) -> None:
    agrees(opened(written(convolutions(stated), tmp_path), asked))


def test_a_batch_that_is_built_in_is_refused(tmp_path: Path) -> None:
    proto = model(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Reshape", ["r", "shape"], ["y"]),
        ],
        {"x": [1, 2, 3]},
        ["y"],
        {"shape": np.array([1, -1])},
    )
    failure = refusal(proto, tmp_path, 4)
    assert failure.kind == "unsupported_batch"
    assert "'y'" in failure.detail
    assert "ask for 1" in failure.detail


def test_a_sequence_length_without_a_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportFailure, match="no input of the model has an open dimension"):
        opened(written(convolutions("batch"), tmp_path), 1, sequence_length=8).graph()


def test_data_files_need_a_bundle(tmp_path: Path) -> None:
    proto = in_files(convolutions(), tmp_path, "weights.bin")
    failure = refusal(proto, tmp_path)
    assert failure.kind == "malformed"
    assert "'w1'" in failure.detail
    assert ".zip" in failure.detail


def test_a_bundle_brings_its_data_files(tmp_path: Path) -> None:
    written(in_files(convolutions(), tmp_path, "weights.bin"), tmp_path)
    bundle = packed(tmp_path, "model.onnx", "weights.bin")
    agrees(onnx_bundle.open_model(bundle, Sizes(1), MEMORY_BYTES))


@pytest.mark.parametrize(
    "location", ["/etc/hostname", "../weights.bin", "elsewhere.bin", "", "a/../../weights.bin"]
)
def test_a_bundle_reads_only_its_own_files(tmp_path: Path, location: str) -> None:
    written(in_files(convolutions(), tmp_path, location), tmp_path)
    bundle = packed(tmp_path, "model.onnx", "weights.bin")
    with pytest.raises(ImportFailure, match="not in the bundle"):
        onnx_bundle.open_model(bundle, Sizes(1), MEMORY_BYTES).graph()


def test_a_data_file_that_is_too_short_is_named(tmp_path: Path) -> None:
    written(in_files(convolutions(), tmp_path, "weights.bin"), tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"\0" * 100)
    bundle = packed(tmp_path, "model.onnx", "weights.bin")
    with pytest.raises(ImportFailure, match=r"'weights\.bin', which has 100"):
        onnx_bundle.open_model(bundle, Sizes(1), MEMORY_BYTES).graph()


@pytest.mark.parametrize("names", [[], ["model.onnx", "second.onnx"]])
def test_a_bundle_has_one_model(tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for name in names:
        written(convolutions(), tmp_path, name)
    bundle = packed(tmp_path, "notes.txt", *names)
    with pytest.raises(ImportFailure, match=r"exactly one \.onnx file"):
        onnx_bundle.open_model(bundle, Sizes(1), MEMORY_BYTES)


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x08\x07", b"PK\x03\x04" + b"\0" * 50])
def test_a_file_that_is_no_model_is_malformed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ImportFailure) as failure:
        opened(path).graph()
    assert failure.value.kind == "malformed"


@given(st.data())
def test_a_damaged_file_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever the bytes, there is a graph or an ImportFailure: nothing else escapes."""
    content = bytearray(convolutions().SerializeToString())
    header = len(content) - sum(len(t.raw_data) for t in convolutions().graph.initializer)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, header))
        content[place % len(content)] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(ImportFailure):
        opened(path).graph()


def test_an_operator_that_is_not_known_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Conjure", ["x"], ["y"], name="trick", domain="my.domain")
    failure = refusal(model([node], {"x": [1]}, ["y"], domains={"my.domain": 1}), tmp_path)
    assert failure.kind == "unsupported_operator"
    assert failure.operator == "Conjure trick"
    assert "my.domain" in failure.detail


@pytest.mark.parametrize("opset", [6, 99])
def test_a_version_that_is_not_known_says_how_to_convert(tmp_path: Path, opset: int) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    failure = refusal(model([node], {"x": [1]}, ["y"], opset=opset), tmp_path)
    assert str(opset) in failure.detail
    assert "convert_version" in failure.detail


def test_text_is_refused_by_the_inputs_name(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["words"], ["y"])
    proto = model([node], {"words": [1]}, ["y"], input_type=TensorProto.STRING)
    failure = refusal(proto, tmp_path)
    assert failure.kind == "unsupported_input"
    assert "'words'" in failure.detail
    assert "string" in failure.detail


def test_shapes_that_do_not_fit_name_the_node_and_the_shapes(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    failure = refusal(
        model([node], {"x": [1, 3]}, ["y"], {"w": np.zeros((4, 2), np.float32)}), tmp_path
    )
    assert failure.operator == "MatMul product"
    assert "float32[1, 3]" in failure.detail
    assert "float32[4, 2]" in failure.detail


def test_a_loop_on_data_says_what_must_be_known(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Relu", ["v"], ["w"]),
        ],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("i", "c", "v")],
        [onnx.ValueInfoProto(name=name) for name in ("d", "w")],
    )
    proto = model(
        [
            helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
            helper.make_node("Cast", ["m"], ["count"], to=TensorProto.INT64),
            helper.make_node("Loop", ["count", "", "x"], ["y"], body=body, name="forever"),
        ],
        {"x": [2]},
        ["y"],
    )
    failure = refusal(proto, tmp_path, 2)
    assert failure.operator == "Loop forever"
    assert "must be known" in failure.detail


def test_a_loop_that_is_counted_is_unrolled(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["v", "f"], ["w"]),
            helper.make_node("Mul", ["w", "w"], ["s"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [2]),
        ],
    )
    proto = model(
        [helper.make_node("Loop", ["count", "", "x"], ["y", "all"], body=body)],
        {"x": [2]},
        ["y", "all"],
        {"count": np.array(3)},
    )
    for name, shape in (("y", [2]), ("all", [3, 2])):
        index = ["y", "all"].index(name)
        proto.graph.output[index].CopyFrom(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        )
    found = opened(written(proto, tmp_path), 2)
    agrees(found)
    assert [o.target for o in found.graph()[0].operators].count("aten.mul.Tensor") == 3


def test_a_function_of_the_model_is_expanded(tmp_path: Path) -> None:
    function = helper.make_function(
        "mine", "Scaled", ["a"], ["b"],
        [
            helper.make_node("Constant", [], ["k"], value_float=0.0),
            helper.make_node("LeakyRelu", ["a"], ["t"]),
            helper.make_node("Add", ["t", "k"], ["b"]),
        ],
        [helper.make_opsetid("", 20)],
        attributes=["alpha"],
    )  # fmt: skip
    function.node[1].attribute.add(
        name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="alpha"
    )
    proto = model(
        [helper.make_node("Scaled", ["x"], ["y"], domain="mine", alpha=0.5)],
        {"x": [3]},
        ["y"],
        functions=[function],
        domains={"mine": 1},
    )
    graph, weights = opened(written(proto, tmp_path), 3).graph()
    found = run_graph(graph, weights, {"x": torch.tensor([-2.0, 0.0, 4.0])})
    torch.testing.assert_close(found["y"], torch.tensor([-1.0, 0.0, 4.0]))


def test_outputs_keep_their_names_and_order(tmp_path: Path) -> None:
    """Also those that are an input, a weight, or the same value as another one."""
    weight = np.arange(3, dtype=np.float32)
    proto = model(
        [
            helper.make_node("Relu", ["x"], ["late"]),
            helper.make_node("Identity", ["late"], ["again"]),
            helper.make_node("Neg", ["x"], ["early"]),
            helper.make_node("Identity", ["w"], ["weight_out"]),
            helper.make_node("Identity", ["x"], ["input_out"]),
        ],
        {"x": [3]},
        ["early", "late", "again", "weight_out", "input_out"],
        {"w": weight},
    )
    graph, weights = opened(written(proto, tmp_path), 3).graph()
    assert graph.outputs == ("early", "late", "again", "weight_out", "input_out")
    x = torch.tensor([-1.0, 0.0, 2.0])
    found = run_graph(graph, weights, {"x": x})
    for name, tensor in zip(
        graph.outputs, (-x, x.relu(), x.relu(), torch.from_numpy(weight), x), strict=True
    ):
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)
