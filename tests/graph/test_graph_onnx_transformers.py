"""BERT and T5 as the ``transformers`` package builds them, exported by torch to ONNX."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from workers.graph.importers.onnx import open_model
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

os.environ.setdefault("HF_HUB_OFFLINE", "1")
MEMORY_BYTES = 4 << 30


class _Bert(nn.Module):
    def __init__(self) -> None:
        from transformers import BertConfig, BertModel  # takes seconds

        super().__init__()
        config = BertConfig(
            vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=128,
        )  # fmt: skip
        self.model = BertModel(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        found: Any = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return found.last_hidden_state, found.pooler_output


class _T5(nn.Module):
    def __init__(self) -> None:
        from transformers import T5Config, T5ForConditionalGeneration

        super().__init__()
        config = T5Config(
            vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
            decoder_start_token_id=0,
            attn_implementation="eager",  # torch cannot export the other with open lengths
        )  # fmt: skip
        self.model = T5ForConditionalGeneration(config)

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        found: Any = self.model(
            input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False
        )
        logits: Tensor = found.logits
        return logits


MODELS = {"bert": _Bert, "t5": _T5}


@pytest.fixture(scope="module", params=MODELS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model and its ONNX file, with open batch and sequence dimensions."""
    torch.manual_seed(0)
    model = MODELS[request.param]().eval()
    path = tmp_path_factory.mktemp("transformers") / f"{request.param}.onnx"
    example = torch.zeros(2, 12, dtype=torch.int64), torch.ones(2, 12, dtype=torch.int64)
    names = [name for name in model.forward.__annotations__ if name != "return"]
    shapes = {name: {0: "batch", 1: f"{name}_length"} for name in names}
    torch.onnx.export(
        model, example, path, dynamo=True, external_data=False, verbose=False, input_names=names,
        dynamic_shapes=shapes,
    )  # fmt: skip
    return model, path


@pytest.mark.parametrize(("batch_size", "length"), [(1, 7), (3, 20)])
def test_an_exported_transformer_computes_what_the_original_does(
    exported: Any, batch_size: int, length: int
) -> None:
    model, path = exported
    graph, weights = open_model(path, Sizes(batch_size, length), MEMORY_BYTES).graph()
    inputs = random_inputs(graph, 5)
    assert all(tensor.shape == (batch_size, length) for tensor in inputs.values())
    found = run_graph(graph, weights, inputs)
    with torch.inference_mode():
        expected = model(*inputs.values())
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for name, tensor in zip(graph.outputs, wanted, strict=True):
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)


def test_the_reference_agrees(exported: Any) -> None:
    model, path = exported
    opened = open_model(path, Sizes(2, 9), MEMORY_BYTES)
    graph, _ = opened.graph()
    (reference,) = opened.run([5])
    with torch.inference_mode():
        expected = model(*random_inputs(graph, 5).values())
    first = expected[0] if isinstance(expected, tuple) else expected
    torch.testing.assert_close(reference["output_0"], first, rtol=1e-4, atol=1e-4)


def test_a_length_that_nobody_gave_is_asked_for(exported: Any) -> None:
    _, path = exported
    with pytest.raises(ImportFailure, match="sequence_length") as failure:
        open_model(path, Sizes(1), MEMORY_BYTES).graph()
    assert "input_ids" in failure.value.detail
