"""Whole ONNX networks against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from workers.graph.importers.onnx import open_model
from workers.graph.importers.opened import Sizes
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NETWORKS = sorted(path.stem for path in LIGHT.glob("light_*.onnx"))
MEMORY_BYTES = 8 << 30
# Over 200 MB of weights, nearly all of them in linear layers: long to make, little to learn.
LARGE = {"light_bvlc_alexnet", "light_vgg19", "light_zfnet512"}


def agrees(path: Path, batch_size: int = 1) -> None:
    """The Graph's outputs are those of ONNX Runtime, up to rounding."""
    model = open_model(path, Sizes(batch_size), MEMORY_BYTES)
    graph, weights = model.graph()
    (expected,) = model.run([3])
    found = run_graph(graph, weights, random_inputs(graph, 3))
    for index, name in enumerate(graph.outputs):
        wanted = expected[f"output_{index}"]
        scale = float(wanted.abs().max())
        torch.testing.assert_close(found[name], wanted, rtol=1e-4, atol=1e-5 * scale)


def test_there_are_nine_networks() -> None:
    assert len(NETWORKS) == 9


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_as_it_is_shipped(name: str) -> None:
    agrees(LIGHT / f"{name}.onnx")


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - LARGE))
def test_a_network_with_weights_that_differ(name: str, tmp_path: Path) -> None:
    """As shipped, every weight of a tensor is the same number, and so is every output."""
    model = onnx.load(LIGHT / f"{name}.onnx")
    shapes = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    generator = np.random.default_rng(0)
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = tuple(int(size) for size in shapes[node.input[0]])
        value = _weight(generator, shape)
        tensor = numpy_helper.from_array(value, node.output[0])
        kept.append(helper.make_node("Constant", [], list(node.output), value=tensor))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    agrees(path)


def _weight(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Weights that keep the scale of what they multiply; positive, so that variances are valid."""
    if len(shape) < 2:
        return generator.uniform(0.5, 1.0, shape).astype(np.float32)
    fan_in = max(int(np.prod(shape[1:])), 1)
    return generator.standard_normal(shape, np.float32) * np.float32(fan_in**-0.5)
