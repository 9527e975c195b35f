"""BERT-base, uncased (Devlin et al. 2019, Section 3): 12 layers, 768 wide, 12 heads."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

VOCABULARY, POSITIONS, SEGMENTS = 30522, 512, 2
LAYERS, WIDTH, HEADS, INNER = 12, 768, 12, 3072
EPSILON = 1e-12
MASKED = -10000.0  # added to the scores of what is no word


class Attention(nn.Module):
    """Scaled dot-product attention with HEADS heads (Vaswani et al. 2017, Section 3.2)."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (_heads(layer(x)) for layer in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) / sqrt(WIDTH // HEADS) + mask
        read = torch.softmax(scores, dim=-1) @ value
        y: Tensor = self.output(read.transpose(1, 2).flatten(2))
        return y


class Layer(nn.Module):
    """Attention and feed-forward network, each added to its input and then normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.attention_norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.expand = nn.Linear(WIDTH, INNER)
        self.project = nn.Linear(INNER, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=EPSILON)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x, mask))
        y: Tensor = self.norm(x + self.project(gelu(self.expand(x))))
        return y


class BertBase(nn.Module):
    """Words, segments and mask (1: a word), each (N, L) with L ≤ 512, to every word's features
    (N, L, 768) and the pooled features of the first (N, 768)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.segments = nn.Embedding(SEGMENTS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(self, words: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        positions = self.positions.weight[: words.shape[1]]
        x = self.norm(self.words(words) + self.segments(segments) + positions)
        penalty = (MASKED * torch.rsub(mask, 1))[:, None, None, :]
        for layer in self.layers:
            x = layer(x, penalty)
        return x, torch.tanh(self.pooler(x[:, 0]))


def _heads(x: Tensor) -> Tensor:
    """(N, L, WIDTH) → (N, HEADS, L, WIDTH / HEADS)."""
    return torch.unflatten(x, 2, (HEADS, -1)).transpose(1, 2)
