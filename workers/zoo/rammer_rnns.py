"""The three recurrent networks of Rammer's evaluation (its Table 1).

The table gives lengths, layers and hidden sizes. What it leaves open follows the benchmarks that
its authors released, and is named below. They hold four matrices per gate and cell where ours
holds two for all gates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu6

from workers.zoo.lstm import Cell, Stack, State

LSTM_HIDDEN, LSTM_LAYERS = 256, 10
SPEECH_HIDDEN, SPEECH_LAYERS = 256, 7
NMT_OUTPUTS, NMT_HIDDEN = 30, 128
NMT_ENCODER_LAYERS, NMT_DECODER_LAYERS = 8, 4

# Not in the paper's table
SPEECH_BINS = 171  # frequencies of the spectrogram
SPEECH_FILTERS = 32
SPEECH_CLASSES = 29  # letters, space, apostrophe, blank


class LstmTc(nn.Module):
    """Steps (N, 100, 256) → the top layer's last output (N, 256).

    Given: 10 layers, hidden size 256, input length 100. As released: inputs as wide as the layers,
    no embedding before and no classifier behind them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = Stack(LSTM_HIDDEN, LSTM_HIDDEN, LSTM_LAYERS)

    def forward(self, steps: Tensor) -> Tensor:
        outputs: list[Tensor]
        outputs, _ = self.layers(steps.unbind(dim=1))
        return outputs[-1]


class DeepSpeech2(nn.Module):
    """Spectrogram (N, 1, 300, 171) → scores (N, 75, 29).

    Given: input length 300, two convolutions, seven uni-directional LSTM layers, hidden size 256.
    As released: 171 frequencies, the kernels and strides of Amodei et al. (2016) with time first,
    which leaves 75 steps, ReLU6 before batch normalisation, 29 classes.
    """

    def __init__(self) -> None:
        super().__init__()
        filters = SPEECH_FILTERS
        self.first = nn.Conv2d(1, filters, (41, 11), stride=2, padding=(20, 5), bias=False)
        self.first_norm = nn.BatchNorm2d(filters)
        self.second = nn.Conv2d(
            filters, filters, (21, 11), stride=(2, 1), padding=(10, 5), bias=False
        )
        self.second_norm = nn.BatchNorm2d(filters)
        bins = (SPEECH_BINS + 1) // 2
        self.layers = Stack(filters * bins, SPEECH_HIDDEN, SPEECH_LAYERS)
        self.norm = nn.BatchNorm1d(SPEECH_HIDDEN)
        self.classifier = nn.Linear(SPEECH_HIDDEN, SPEECH_CLASSES)

    def forward(self, spectrogram: Tensor) -> Tensor:
        x = self.first_norm(relu6(self.first(spectrogram)))
        x = self.second_norm(relu6(self.second(x)))
        steps = x.permute(0, 2, 3, 1).flatten(2).unbind(dim=1)
        outputs: list[Tensor]
        outputs, _ = self.layers(steps)
        normal = self.norm(torch.stack(outputs, dim=2)).transpose(1, 2)
        scores: Tensor = self.classifier(normal)
        return scores


class Seq2Seq(nn.Module):
    """Embedded words (N, 100, 128) → the decoder's last output (N, 128).

    Given: 8 encoder layers over 100 words, 4 decoder layers for 30, hidden size 128, LSTMs in one
    direction. As released: no vocabulary; the decoder starts from the memory of the encoder's top
    layer and reads its own last output at each step, so that steps follow each other as in greedy
    decoding.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Stack(NMT_HIDDEN, NMT_HIDDEN, NMT_ENCODER_LAYERS)
        self.decoder = nn.ModuleList(
            Cell(NMT_HIDDEN, NMT_HIDDEN) for _ in range(NMT_DECODER_LAYERS)
        )

    def forward(self, words: Tensor) -> Tensor:
        final: State
        _, final = self.encoder(words.unbind(dim=1))
        x = final[1]
        states: list[State | None] = [None] * len(self.decoder)
        for _ in range(NMT_OUTPUTS):
            for layer, cell in enumerate(self.decoder):
                state: State = cell(x, states[layer])
                states[layer], x = state, state[0]
        return x
