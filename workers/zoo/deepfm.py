"""DeepFM (Guo et al. 2017, Figure 1 and Section 3.1) for data such as Criteo's.

From the paper: 13 numeric and 26 categorical fields, latent vectors of 10, three layers of 400.
Ours: 10,000 values in each categorical field, as if hashed; the paper does not say how many it has.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

NUMERIC, CATEGORICAL, VALUES = 13, 26, 10_000
LATENT, HIDDEN = 10, 400


class DeepFM(nn.Module):
    """Numbers (N, 13) and categories (N, 26), each below VALUES → click probability (N, 1).

    The field ``i`` of a category has rows ``i * VALUES`` onwards of the shared tables.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numeric_weights = nn.Linear(NUMERIC, 1)
        self.category_weights = nn.Embedding(CATEGORICAL * VALUES, 1)
        self.numeric_vectors = nn.Embedding(NUMERIC, LATENT)
        self.category_vectors = nn.Embedding(CATEGORICAL * VALUES, LATENT)
        self.deep = nn.Sequential(
            nn.Linear((NUMERIC + CATEGORICAL) * LATENT, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, 1),
        )  # fmt: skip
        self.register_buffer("first_rows", torch.arange(CATEGORICAL) * VALUES)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        rows = categories + self.get_buffer("first_rows")
        vectors = torch.cat(
            [numbers[:, :, None] * self.numeric_vectors.weight, self.category_vectors(rows)], dim=1
        )
        first = self.numeric_weights(numbers) + self.category_weights(rows).sum(dim=1)
        # All pairs' products at once (Rendle 2010, Lemma 3.1): half of square of sum less sum of
        # squares.
        pairs = vectors.sum(dim=1).square() - vectors.square().sum(dim=1)
        second = pairs.sum(dim=1, keepdim=True) / 2
        return torch.sigmoid(first + second + self.deep(vectors.flatten(1)))

    def temper(self) -> None:
        """700 pairs must not saturate the sigmoid."""
        self.category_weights.weight.mul_(0.1)
        for vectors in (self.numeric_vectors, self.category_vectors):
            vectors.weight.mul_(0.1)
