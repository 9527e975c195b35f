"""What an ONNX model computes according to others: ONNX Runtime, or ONNX's own evaluator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workers.graph.importers.source import ImportFailure

_Run = Callable[[Mapping[str, Any]], Any]


def reference(path: Path) -> Callable[[Mapping[str, Tensor]], list[Tensor]]:
    """A function of the model's inputs by name to its outputs in order.

    ONNX Runtime runs the model if it is installed and knows all of its operators; otherwise the
    evaluator of the ``onnx`` package, which defines what operators mean and takes its time. Raises
    ImportFailure if neither can.
    """
    run = _onnx_runtime(path) or _evaluator(path)

    def outputs(inputs: Mapping[str, Tensor]) -> list[Tensor]:
        try:
            found = run({name: tensor.numpy() for name, tensor in inputs.items()})
        except Exception as error:
            raise ImportFailure(
                "malformed", f"the model does not run: {type(error).__name__}: {error}"
            ) from error
        return [torch.from_numpy(array) for array in found]

    return outputs


def _onnx_runtime(path: Path) -> _Run | None:
    try:
        import onnxruntime  # noqa: PLC0415  # optional, and slow to import
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = os.cpu_count() or 1
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # whatever it cannot load, the evaluator may
        return None
    return lambda inputs: session.run(None, dict(inputs))


def _evaluator(path: Path) -> _Run:
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415

    try:
        evaluator = ReferenceEvaluator(str(path))
    except Exception as error:
        raise ImportFailure(
            "unsupported_operator",
            "neither ONNX Runtime nor ONNX's own evaluator can run the model, so a schedule could "
            f"not be verified: {type(error).__name__}: {error}",
        ) from error
    return lambda inputs: evaluator.run(None, dict(inputs))
