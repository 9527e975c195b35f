"""The zoo through the importer's sandbox, as jobs take it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from workers import zoo
from workers.graph.importers import import_model, reference_outputs
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ImportFailure, ZooModel
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=200)


def test_a_model_of_numbers_and_indices_computes_what_the_original_does(tmp_path: Path) -> None:
    source = ZooModel("deepfm")
    model = import_model(source, 3, tmp_path, LIMITS)
    (expected,) = reference_outputs(source, 3, [5], tmp_path, LIMITS)
    (found,) = run_graph(model.graph, model.weights, random_inputs(model.graph, 5)).values()
    torch.testing.assert_close(found, expected["output_0"])
    assert {model.graph.values[name].dtype for name in model.graph.inputs} == {"float32", "int64"}


def test_a_job_s_sequence_length_is_the_model_s(tmp_path: Path) -> None:
    graph = import_model(ZooModel("t5_small"), 2, tmp_path, LIMITS, sequence_length=6).graph
    assert [graph.values[name].shape for name in graph.inputs] == [(2, 6), (2, 6)]
    assert graph.values[graph.outputs[0]].shape == (2, 6, 32128)


def test_a_sequence_length_that_a_model_cannot_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportFailure, match="'squeezenet' are no sequences") as raised:
        import_model(ZooModel("squeezenet"), 1, tmp_path, LIMITS, sequence_length=6)
    assert raised.value.kind == "unsupported_input"


def test_a_random_model_that_is_not_listed_can_be_imported(tmp_path: Path) -> None:
    name = "nasbench_8000"
    assert name not in zoo.names()
    graph = import_model(ZooModel(name), 1, tmp_path, LIMITS).graph
    assert graph.values[graph.outputs[0]].shape == (1, 10)
