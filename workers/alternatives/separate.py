"""A model in a process of its own, run and timed from here."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from workers.alternatives.catalog import AlternativeError
from workers.alternatives.process import Process
from workers.graph.graph import Graph
from workers.graph.importers.sandbox import Place

LEAST_PATIENCE_S = 30.0

_OUTPUTS = "outputs.safetensors"
_HEADER_BYTES = 1 << 20
_PATIENCE = 20


class SeparateModel:
    """A model in a process of its own: an alternative, or what is delivered. All that it says is
    suspect.

    The process times itself, with its own clock around each call: what passes through the pipes is
    not counted. A hostile model can therefore lie about its time. Latencies that are no positive
    numbers, or take longer together than the round trip that this side clocks, are refused; what is
    left is to claim to be faster than it is, which makes its owner's own alternative win and gives
    back what the owner had. Outputs are compared with the reference by whoever verifies; here they
    are only held to the shapes and types that ``graph`` says, and are never larger.

    Every method raises AlternativeError. After one nothing more can be had from it.
    """

    def __init__(
        self,
        name: str,
        process: Process,
        place: Place,
        graph: Graph,
        patience: float,
        what: str = "timed",
    ) -> None:
        self.name, self._what = name, what
        self._process, self._place, self._graph = process, place, graph
        self._patience = patience
        self._given: tuple[Tensor, ...] = ()
        self._files = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of its figures should know."""
        return (f"{self._what} by its own clock, in a process of its own",)

    @property
    def isolation(self) -> tuple[str, ...]:
        """The layers in force before the process touched the model."""
        return self._process.isolation

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run once and return the graph's outputs by name."""
        self._give(inputs)
        path = self._place.scratch / _OUTPUTS
        with self._explained():
            self._process.ask({"do": "run", "file": path.name}, self._patience)
            found = _tensors(path, self._graph)
        return dict(zip(self._graph.outputs, found, strict=True))

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        """Run ``repeats`` times back to back; the latency of each run in ms. No warm-up."""
        tensors = tuple(inputs[name] for name in self._graph.inputs)
        known = len(tensors) == len(self._given)
        if not known or any(a is not b for a, b in zip(tensors, self._given, strict=True)):
            self._give(inputs)
        with self._explained():
            answer, elapsed = self._process.ask(
                {"do": "time", "repeats": repeats}, self._patience * repeats
            )
            latencies = _latencies(answer.get("latencies"), repeats, elapsed)
        self._patience = max(LEAST_PATIENCE_S, _PATIENCE * elapsed / 1e3 / repeats)
        return latencies

    def close(self) -> None:
        """End the process. Safe to call twice."""
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _give(self, inputs: Mapping[str, Tensor]) -> None:
        """Hand the inputs over in a folder that the process cannot write to."""
        from safetensors.torch import save_file  # noqa: PLC0415  # optional

        with self._explained():
            self._process.refuse_if_ended()
        tensors = tuple(inputs[name] for name in self._graph.inputs)
        self._files += 1
        path = self._place.given / f"inputs-{self._files}.safetensors"
        save_file(
            {
                f"input_{number}": tensor.detach().cpu().contiguous().clone()
                for number, tensor in enumerate(tensors)
            },
            path,
        )
        with self._explained():
            self._process.ask({"do": "give", "file": path.name}, LEAST_PATIENCE_S)
        path.unlink()
        self._given = tensors

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with named(self.name):
            try:
                yield
            except BaseException:
                self.close()
                raise


@contextmanager
def named(name: str) -> Iterator[None]:
    """Whose errors they are."""
    try:
        yield
    except AlternativeError as error:
        raise AlternativeError(f"{name}: {error}") from error


def _latencies(said: Any, repeats: int, elapsed_ms: float) -> list[float]:
    if not isinstance(said, list) or len(said) != repeats:
        raise AlternativeError(f"it was asked for {repeats} latencies and gave something else")
    if not all(type(value) is float and math.isfinite(value) and value > 0 for value in said):
        raise AlternativeError("it gave latencies that are no positive numbers")
    if math.fsum(said) > elapsed_ms:
        raise AlternativeError(
            f"it claims {math.fsum(said):.3f} ms for what took {elapsed_ms:.3f} ms with the way "
            "there and back"
        )
    return said


def _tensors(path: Path, graph: Graph) -> list[Tensor]:
    """The outputs in the file, if they are what the graph's are."""
    from safetensors import SafetensorError  # noqa: PLC0415  # optional
    from safetensors.torch import load  # noqa: PLC0415

    specs = graph.specs(graph.outputs)
    try:
        found: dict[str, Tensor] = load(_content(path, sum(s.nbytes for s in specs)))
    except (SafetensorError, ValueError, KeyError) as error:
        raise AlternativeError(f"its outputs cannot be read ({error})") from error
    tensors = []
    for number, spec in enumerate(specs):
        tensor = found.get(f"output_{number}")
        if tensor is None or len(found) != len(specs):
            raise AlternativeError(f"it gave {len(found)} outputs; the model has {len(specs)}")
        if tuple(tensor.shape) != spec.shape or tensor.dtype != getattr(torch, spec.dtype):
            raise AlternativeError(
                f"its output {number} is {tensor.dtype} of shape {tuple(tensor.shape)}, and the "
                f"imported model's is torch.{spec.dtype} of shape {spec.shape}"
            )
        tensors.append(tensor)
    return tensors


def _content(path: Path, nbytes: int) -> bytes:
    """All of a file that its writer may still change: opened once, then looked at, then read."""
    try:
        place = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise AlternativeError(f"its outputs cannot be opened ({error.strerror})") from error
    limit = nbytes + _HEADER_BYTES
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise AlternativeError("its outputs are not in a plain file")
        with os.fdopen(place, "rb", closefd=False) as file:
            content = file.read(limit + 1)
    finally:
        os.close(place)
    if len(content) > limit:
        raise AlternativeError(f"its outputs take over {limit} bytes; {nbytes} were expected")
    return content
