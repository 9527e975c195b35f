"""The same small torch models written in every format that can be imported."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim

from workers.graph.importers.declared import ENTRY, SEQUENCE

ENDINGS = {"onnx": ".onnx", "onnx.zip": ".zip", "pt2": ".pt2", "torchscript": ".pt"}
Words = Sequence[str | None]
"""The name of each dimension of the input that is open, or None."""


class Tokens(nn.Module):
    """(batch, sequence) of token ids to (batch, sequence, 4), with every step seeing all others."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.weight = nn.Parameter(torch.randn(8, 4))

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.embedding(tokens) @ self.weight
        return scores.softmax(1) * scores


class Ordered(nn.Module):
    """Outputs in an order that is neither the alphabet's nor the computation's, one of them
    twice."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        first, second = x + 1, x * 2
        return second, first, second, first - second


class Nothing(nn.Module):
    """No operators at all."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def write(file_format: str, model: nn.Module, example: Tensor, words: Words, path: Path) -> Path:
    """Write ``model`` to ``path``. Without ``words`` it is exported for the example's sizes."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        _WRITERS[file_format](model.eval(), example, words, path)
    return path


def _dims(words: Words) -> tuple[Mapping[int, Dim]] | None:
    dims = {axis: Dim(word) for axis, word in enumerate(words) if word}
    return (dims,) if dims else None


def _exported(model: nn.Module, example: Tensor, words: Words, path: Path) -> None:
    program = torch.export.export(model, (example,), dynamic_shapes=_dims(words))
    torch.export.save(program, path)


def _traced(model: nn.Module, example: Tensor, words: Words, path: Path) -> None:
    trace: Callable[..., torch.jit.ScriptModule] = torch.jit.trace
    module = trace(model, (example,))
    extra = {}
    if SEQUENCE in words:
        (name,) = [argument.name for argument in module.forward.schema.arguments[1:]]
        shape = [word or size for word, size in zip(words, example.shape, strict=True)]
        dtype = str(example.dtype).removeprefix("torch.")
        extra = {ENTRY: json.dumps({name: {"shape": shape, "dtype": dtype}})}
    module.save(path, _extra_files=extra)


def _onnx(model: nn.Module, example: Tensor, words: Words, path: Path) -> None:
    torch.onnx.export(
        model,
        (example,),
        path,
        dynamo=True,
        external_data=False,
        verbose=False,
        dynamic_shapes=_dims(words),
    )


def _bundle(model: nn.Module, example: Tensor, words: Words, path: Path) -> None:
    """The weights in a file of their own, which an ONNX model names."""
    folder = path.with_suffix("")
    folder.mkdir()
    torch.onnx.export(
        model,
        (example,),
        folder / "model.onnx",
        dynamo=True,
        external_data=True,
        verbose=False,
        dynamic_shapes=_dims(words),
    )
    with zipfile.ZipFile(path, "w") as bundle:
        for file in sorted(folder.iterdir()):
            bundle.write(file, f"model/{file.name}")


_WRITERS: Mapping[str, Callable[[nn.Module, Tensor, Words, Path], None]] = {
    "onnx": _onnx,
    "onnx.zip": _bundle,
    "pt2": _exported,
    "torchscript": _traced,
}
