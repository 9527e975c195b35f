"""T5-small (Raffel et al. 2020, Sections 2.1 and 3.7): 6 layers each way, 512 wide, 8 heads."""

from __future__ import annotations

from math import log, sqrt

import torch
from torch import Tensor, nn

VOCABULARY = 32128
LAYERS, WIDTH, HEADS, INNER = 6, 512, 8, 2048
BUCKETS, FARTHEST = 32, 128  # of relative positions: how many, and where the last one starts
EPSILON = 1e-6


class Norm(nn.Module):
    """Layer normalisation without mean and offset (Section 2.1)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        mean_square = x.square().mean(dim=-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(mean_square + EPSILON))

    def temper(self) -> None:
        """The factors that every parameter is given are those of a norm already."""


class Attention(nn.Module):
    """Attention without scaling and biases."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH, bias=False)
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor | None) -> Tensor:
        """Queries from ``x``, keys and values from ``memory``; ``bias`` is added to the scores."""
        query, key, value = (
            _heads(layer(source))
            for layer, source in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        scores = query @ key.transpose(2, 3)
        if bias is not None:
            scores = scores + bias
        read = torch.softmax(scores, dim=-1) @ value
        y: Tensor = self.output(read.transpose(1, 2).flatten(2))
        return y

    def temper(self) -> None:
        """What scaling the scores would do is in the queries' weights."""
        self.query.weight.div_(2 * sqrt(WIDTH // HEADS))


class PositionBias(nn.Module):
    """A learned number for each head and bucket of distances between key and query (Section 2.1).

    Without ``both_ways``, keys after the query are masked.
    """

    def __init__(self, *, both_ways: bool) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.numbers = nn.Embedding(BUCKETS, HEADS)

    def forward(self, length: int) -> Tensor:
        """(1, HEADS, length, length)."""
        distances = [[key - query for key in range(length)] for query in range(length)]
        buckets = [[bucket(d, both_ways=self.both_ways) for d in row] for row in distances]
        bias: Tensor = self.numbers(torch.tensor(buckets)).permute(2, 0, 1)[None]
        if self.both_ways:
            return bias
        after = [[-torch.inf if d > 0 else 0.0 for d in row] for row in distances]
        return bias + torch.tensor(after)


class EncoderLayer(nn.Module):
    """Attention and feed-forward network, each of the normalised input and added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.attention_norm = Norm()
        self.feed = Feed()

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        normal = self.attention_norm(x)
        y: Tensor = self.feed(x + self.attention(normal, normal, bias))
        return y


class DecoderLayer(nn.Module):
    """As EncoderLayer, with attention to the encoder's result in between."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.attention_norm = Norm()
        self.cross = Attention()
        self.cross_norm = Norm()
        self.feed = Feed()

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        normal = self.attention_norm(x)
        x = x + self.attention(normal, normal, bias)
        x = x + self.cross(self.cross_norm(x), memory, None)
        y: Tensor = self.feed(x)
        return y


class Feed(nn.Module):
    """x + project(ReLU(expand(norm(x))))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()
        self.expand = nn.Linear(WIDTH, INNER, bias=False)
        self.project = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, self.project(torch.relu(self.expand(self.norm(x)))))


class T5Small(nn.Module):
    """Source words (N, S) and target words (N, T) → scores of each next word (N, T, 32128).

    One pass of encoder and decoder. The embedding is also the output layer's weight.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder_bias = PositionBias(both_ways=True)
        self.encoder = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.encoder_norm = Norm()
        self.decoder_bias = PositionBias(both_ways=False)
        self.decoder = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        self.decoder_norm = Norm()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.words(source)
        bias = self.encoder_bias(source.shape[1])
        for layer in self.encoder:
            memory = layer(memory, bias)
        memory = self.encoder_norm(memory)
        x = self.words(target)
        bias = self.decoder_bias(target.shape[1])
        for layer in self.decoder:
            x = layer(x, memory, bias)
        x = self.decoder_norm(x) / sqrt(WIDTH)
        return nn.functional.linear(x, self.words.weight)


def bucket(distance: int, *, both_ways: bool) -> int:
    """The bucket of a key ``distance`` words after its query.

    Half of the buckets, or half of each direction's, hold one distance each; the others hold
    ranges that grow exponentially up to FARTHEST. In one direction, keys after the query share
    the bucket of distance 0.
    """
    buckets, first = BUCKETS, 0
    if both_ways:
        buckets //= 2
        first = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    single = buckets // 2
    if distance < single:
        return first + distance
    growth = log(distance / single) / log(FARTHEST / single)
    return first + min(single + int(growth * (buckets - single)), buckets - 1)


def _heads(x: Tensor) -> Tensor:
    """(N, L, WIDTH) → (N, HEADS, L, WIDTH / HEADS)."""
    return torch.unflatten(x, 2, (HEADS, -1)).transpose(1, 2)
