"""Which PyTorch is installed and how it is set, without importing it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

_ASSIGNMENT = re.compile(r"^(\w+)(?:\s*:[^=]+)?\s*=\s*'([^']*)'", re.MULTILINE)

_CUDNN_PACKAGES = ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12")

FLAG_DEFAULTS = {
    "matmul.allow_tf32": False,
    "cudnn.allow_tf32": True,
    "cudnn.benchmark": False,
    "cudnn.deterministic": False,
    "cudnn.enabled": True,
    "deterministic_algorithms": False,
    "matmul.fp16_reduced": True,
    "matmul.bf16_reduced": True,
}
"""PyTorch's switches that choose among kernels, with their values when it is imported."""


def torch_versions() -> dict[str, str]:
    """The versions of torch, of the CUDA that it was built for, and of cuDNN, where there are any.

    What pip calls ``2.11.0`` may call itself ``2.11.0+cu130``, so the package's own file is read.
    """
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    text = Path(spec.origin).with_name("version.py").read_text()
    said = dict(_ASSIGNMENT.findall(text))
    versions = {"torch": said["__version__"]} if "__version__" in said else {}
    if "cuda" in said:
        versions["torch_cuda"] = said["cuda"]
    for package in _CUDNN_PACKAGES:
        try:
            versions["cudnn"] = version(package)
            break
        except PackageNotFoundError:
            continue
    return versions


def torch_flags() -> Mapping[str, bool | str]:
    """The switches as they are now; as an import would set them while torch is not imported."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "are_deterministic_algorithms_enabled"):
        tf32 = os.environ.get("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE") == "1"
        return {**FLAG_DEFAULTS, "matmul.allow_tf32": tf32}
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    readers: dict[str, Callable[[], object]] = {
        "matmul.allow_tf32": lambda: torch.get_float32_matmul_precision() != "highest",
        "cudnn.allow_tf32": lambda: cudnn.allow_tf32,
        "cudnn.benchmark": lambda: cudnn.benchmark,
        "cudnn.deterministic": lambda: cudnn.deterministic,
        "cudnn.enabled": lambda: cudnn.enabled,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "matmul.fp16_reduced": lambda: matmul.allow_fp16_reduced_precision_reduction,
        "matmul.bf16_reduced": lambda: matmul.allow_bf16_reduced_precision_reduction,
    }
    return {name: _read(reader) for name, reader in readers.items()}


def _read(reader: Callable[[], object]) -> bool | str:
    """torch refuses to read a switch by its old name once it was set by its new one."""
    try:
        return bool(reader())
    except RuntimeError:
        return "set by fp32_precision"
