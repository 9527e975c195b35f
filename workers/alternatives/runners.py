"""The alternatives themselves, in the sandbox: an original made ready, run, and timed; and what is
delivered, likewise."""

from __future__ import annotations

import gc
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from workers.alternatives.catalog import Kind
from workers.alternatives.originals import Arguments, OnnxOriginal, Original, TorchOriginal
from workers.graph.graph import TensorSpec
from workers.graph.random_inputs import random_tensors

_SEED = 0


class UnfitError(Exception):
    """A model that this alternative cannot run; the message says why."""


class Runner(ABC):
    """An original that is called again and again with the inputs that were given last."""

    @abstractmethod
    def give(self, tensors: Sequence[Tensor]) -> None:
        """Inputs, in order, for the calls that follow: put where the model reads them."""

    @abstractmethod
    def call(self) -> Any:
        """Call the model once, as its user would."""

    @abstractmethod
    def tensors(self, found: Any) -> list[Tensor]:
        """What a call returned, as tensors on the CPU in the order of the outputs."""

    def wait(self) -> None:
        """Until the device has done what was called."""
        return

    def run(self) -> list[Tensor]:
        with torch.inference_mode():
            return self.tensors(self.call())

    def time(self, repeats: int) -> list[float]:
        """The latency in ms of each of as many calls back to back; dropping the outputs is no part
        of them, and neither is collecting garbage."""
        latencies = []
        gc.disable()
        try:
            with torch.inference_mode():
                self.wait()
                for _ in range(repeats):
                    start = perf_counter_ns()
                    found = self.call()
                    self.wait()
                    latencies.append((perf_counter_ns() - start) / 1e6)
                    del found
        finally:
            gc.enable()
        return latencies


class TorchRunner(Runner):
    """Eager PyTorch, and ``torch.compile`` in the modes ``default`` and ``max-autotune``."""

    def __init__(self, original: TorchOriginal, mode: str | None, device: str) -> None:
        self._device = torch.device(device)
        module = original.module.to(self._device)
        self._module = module if mode is None else torch.compile(module, mode=mode)
        self._arguments = original.arguments
        self._given: Arguments = ((), {})
        self.give(_examples(original.specs))

    def give(self, tensors: Sequence[Tensor]) -> None:
        self._given = self._arguments([tensor.to(self._device) for tensor in tensors])

    def call(self) -> Any:
        positional, keywords = self._given
        return self._module(*positional, **keywords)

    def tensors(self, found: Any) -> list[Tensor]:
        return _only_tensors(torch.utils._pytree.tree_leaves(found), Tensor.cpu)

    def wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


class OnnxRunner(Runner):
    """ONNX Runtime with all of its optimisations, on ``threads`` threads; in its parallel execution
    mode, as many nodes at once."""

    def __init__(self, original: OnnxOriginal, parallel: bool, threads: int, device: str) -> None:
        import onnxruntime  # noqa: PLC0415  # optional

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        if parallel:
            options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
            options.inter_op_num_threads = threads
        provider = "CPUExecutionProvider"
        settings: dict[str, str] = {}
        if device != "cpu":
            provider = "CUDAExecutionProvider"
            settings = {"device_id": device.partition(":")[2] or "0"}
            if provider not in onnxruntime.get_available_providers():
                raise UnfitError(
                    "this ONNX Runtime cannot use the GPU; install the package onnxruntime-gpu"
                )
        self._session = onnxruntime.InferenceSession(
            str(original.path), options, providers=[(provider, settings)]
        )
        self._names = list(original.specs)
        self._given: dict[str, Any] = {}
        self.give(_examples(original.specs))

    def give(self, tensors: Sequence[Tensor]) -> None:
        self._given = {
            name: tensor.numpy() for name, tensor in zip(self._names, tensors, strict=True)
        }

    def call(self) -> Any:
        return self._session.run(None, self._given)

    def tensors(self, found: Any) -> list[Tensor]:
        return _only_tensors(found, torch.from_numpy)


class DeliveredRunner(Runner):
    """An artifact, unpacked, as whoever downloads it runs it: on tensors, or with ``arrays`` on
    those of NumPy."""

    def __init__(self, folder: Path, arrays: bool) -> None:
        spec = importlib.util.spec_from_file_location("delivered", folder / "run.py")
        if spec is None or spec.loader is None:
            raise UnfitError(f"there is no run.py in {folder}")
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        self._model = program.load(folder, "cpu")
        self._arrays = arrays
        self._given: Sequence[Any] = ()
        self.give(list(self._model.random_inputs(_SEED).values()))

    def give(self, tensors: Sequence[Tensor]) -> None:
        self._given = [tensor.numpy() for tensor in tensors] if self._arrays else tensors

    def call(self) -> Any:
        return self._model(*self._given)

    def tensors(self, found: Any) -> list[Tensor]:
        if self._model.notes:  # it does not run as it was tuned
            raise UnfitError("; ".join(self._model.notes))
        convert = torch.from_numpy if self._arrays else Tensor.cpu
        return _only_tensors([found[name] for name in self._model.outputs], convert)


def run_delivered(folder: Path, arrays: bool) -> Runner:
    """An artifact's model, ready to be called. Raises UnfitError if it runs otherwise than it was
    tuned."""
    runner = DeliveredRunner(folder, arrays)
    runner.run()
    return runner


def make_runner(kind: Kind, original: Original, threads: int, device: str) -> Runner:
    """The alternative, ready to be called: whatever it does at its first call is done."""
    runner: Runner
    if isinstance(original, OnnxOriginal):
        runner = OnnxRunner(original, kind.parallel, threads, device)
    else:
        runner = TorchRunner(original, kind.mode, device)
    runner.run()
    return runner


def _examples(specs: Mapping[str, TensorSpec]) -> list[Tensor]:
    return list(random_tensors(specs, _SEED).values())


def _only_tensors(leaves: Sequence[Any], convert: Callable[[Any], Tensor]) -> list[Tensor]:
    found = []
    for number, leaf in enumerate(leaves):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise UnfitError(f"output {number} is a {type(leaf).__name__} and no tensor")
        found.append(convert(leaf))
    return found
