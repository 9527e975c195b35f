"""Models that other packages have, too, against those, with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from workers.zoo import bert, t5
from workers.zoo.initialise import initialise
from workers.zoo.lstm import Stack

LAYERS = 2


def word_indices(high: int, length: int, seed: int) -> Tensor:
    return torch.randint(0, high, (3, length), generator=torch.Generator().manual_seed(seed))


def load(model: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """``model`` with all of these weights and no others, but for those that it keeps twice."""
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= {
        "lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
        "embeddings.position_ids", "embeddings.token_type_ids",
    }  # fmt: skip
    return model.eval()


def renamed(weights: dict[str, Tensor], names: dict[str, str]) -> dict[str, Tensor]:
    """Each weight under the name that replacing ``names`` in its own, in that order, makes."""
    found = {}
    for name, weight in weights.items():
        new = name
        for old, replacement in names.items():
            new = new.replace(old, replacement)
        found[new] = weight
    return found


def test_bert_computes_what_the_transformers_package_does(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(bert, "LAYERS", LAYERS)
    monkeypatch.setattr(bert, "VOCABULARY", 99)
    ours = bert.BertBase().eval()
    initialise(ours, 0)
    config = transformers.BertConfig(
        vocab_size=99, num_hidden_layers=LAYERS, attn_implementation="eager"
    )
    names = {
        "words.": "embeddings.word_embeddings.", "positions.": "embeddings.position_embeddings.",
        "segments.": "embeddings.token_type_embeddings.", "attention_norm.": "aaaa.",
        "expand.": "intermediate.dense.", "project.": "output.dense.",
        "attention.query": "attention.self.query", "attention.key": "attention.self.key",
        "attention.value": "attention.self.value", "attention.output.": "attention.output.dense.",
        "pooler.": "pooler.dense.", "norm.": "output.LayerNorm.", "layers.": "encoder.layer.",
        "aaaa.": "attention.output.LayerNorm.",
    }  # fmt: skip
    weights = renamed(dict(ours.state_dict()), names)
    for part in ("weight", "bias"):
        weights[f"embeddings.LayerNorm.{part}"] = weights.pop(f"output.LayerNorm.{part}")
    theirs = load(transformers.BertModel(config), weights)
    words, segments = word_indices(99, 20, 1), word_indices(2, 20, 2)
    mask = torch.ones(3, 20, dtype=torch.int64)
    mask[1, 12:] = 0
    with torch.inference_mode():
        features, pooled = ours(words, segments, mask)
        expected = theirs(input_ids=words, token_type_ids=segments, attention_mask=mask)
    torch.testing.assert_close(features, expected.last_hidden_state, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(pooled, expected.pooler_output, rtol=1e-4, atol=1e-4)


def test_t5_computes_what_the_transformers_package_does(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(t5, "LAYERS", LAYERS)
    monkeypatch.setattr(t5, "VOCABULARY", 99)
    ours = t5.T5Small().eval()
    initialise(ours, 0)
    config = transformers.T5Config(
        vocab_size=99, num_layers=LAYERS, num_decoder_layers=LAYERS, d_model=512, d_kv=64,
        d_ff=2048, num_heads=8, tie_word_embeddings=True,
    )  # fmt: skip
    feed = {"encoder": 1, "decoder": 2}
    weights = {"shared.weight": ours.words.weight}
    for side, last in feed.items():
        bias = getattr(ours, f"{side}_bias").numbers.weight
        weights[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = bias
        weights[f"{side}.final_layer_norm.weight"] = getattr(ours, f"{side}_norm").weight
        names = {
            "attention.": "layer.0.SelfAttention.", "attention_norm.": "layer.0.layer_norm.",
            "cross.": "layer.1.EncDecAttention.", "cross_norm.": "layer.1.layer_norm.",
            "feed.norm.": f"layer.{last}.layer_norm.",
            "feed.expand.": f"layer.{last}.DenseReluDense.wi.",
            "feed.project.": f"layer.{last}.DenseReluDense.wo.",
            "query.": "q.", "key.": "k.", "value.": "v.", "output.": "o.",
        }  # fmt: skip
        for number, layer in enumerate(getattr(ours, side)):
            for name, weight in renamed(dict(layer.state_dict()), names).items():
                weights[f"{side}.block.{number}.{name}"] = weight
    theirs = load(transformers.T5ForConditionalGeneration(config), weights)
    theirs.tie_weights()
    source, target = word_indices(99, 150, 1), word_indices(99, 140, 2)
    with torch.inference_mode():
        scores = ours(source, target)
        expected = theirs(input_ids=source, decoder_input_ids=target, use_cache=False).logits
    torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-3)


def test_an_lstm_computes_what_torch_s_does() -> None:
    """torch keeps the gates as input, forget, cell, output; ours has the cell's last."""
    inputs, hidden, layers, steps = 5, 4, 3, 7
    ours = Stack(inputs, hidden, layers)
    initialise(ours, 0)
    theirs = nn.LSTM(inputs, hidden, layers, batch_first=True)

    def ordered(weight: Tensor) -> Tensor:
        enter, keep, leave, candidate = weight.chunk(4)
        return torch.cat([enter, keep, candidate, leave])

    with torch.no_grad():
        for number, layer in enumerate(ours.layers):
            cell = layer.cell
            getattr(theirs, f"weight_ih_l{number}").copy_(ordered(cell.reads.weight))
            getattr(theirs, f"weight_hh_l{number}").copy_(ordered(cell.recalls.weight))
            getattr(theirs, f"bias_ih_l{number}").copy_(ordered(cell.reads.bias))
            getattr(theirs, f"bias_hh_l{number}").zero_()
        x = torch.randn(2, steps, inputs, generator=torch.Generator().manual_seed(0))
        outputs, (_, memory) = ours(x.unbind(dim=1))
        expected, (_, memories) = theirs(x)
    torch.testing.assert_close(torch.stack(outputs, dim=1), expected)
    torch.testing.assert_close(memory, memories[-1])
