"""Building one candidate: TVM's module to a shared library, with its source if that is wanted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from workers.tuning.kernels.source import Source
from workers.tuning.targets import KernelTarget

if TYPE_CHECKING:
    import tvm

ENTRY = "main"
"""The function to call in a library."""

_NOW = ["-Wl,-z,now"]
"""A symbol that is missing then fails the loading of a library, and not its process later on."""


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """``source`` compiled for ``target`` into ``library``, whose folder exists. With
    ``keep_source`` the scheduled TIR is left beside it as ``.tir.py``, and what TVM generated from
    it as ``.cu`` or, for a CPU, LLVM's ``.ll``."""

    source: Source
    target: KernelTarget
    library: Path
    keep_source: bool = False


def build(order: BuildOrder) -> tuple[Path, ...]:
    """Compile and link; the paths of the sources that were kept. Called in a building process."""
    from tvm.driver import build as compiled  # noqa: PLC0415  # an optional extra
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: PLC0415

    module = order.source.module()
    # As TVM's own builder does: a layout that was rewritten is the caller's, not the kernel's.
    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    if order.target.kind == "cuda":
        _prefer_nvcc()
    library = compiled(module, target=order.target.tvm())
    devices = list(_cuda_modules(library))
    for number, device in enumerate(devices):
        _prove_cuda(device, order, number)
    # What TVM writes before it links goes to the same disk, where a lack of space is noticed.
    with TemporaryDirectory(dir=order.library.parent) as workspace:
        library.export_library(str(order.library), workspace_dir=workspace, options=_NOW)
    return tuple(_kept(order, module, library, devices)) if order.keep_source else ()


def _prefer_nvcc() -> None:
    """TVM compiles by NVRTC unless told otherwise, for which it needs NVIDIA's bindings. Importing
    its compiler registers it."""
    if find_spec("cuda") is None:
        os.environ.setdefault("TVM_CUDA_COMPILE_MODE", "nvcc")
    import_module("tvm.support.nvcc")


def _cuda_modules(library: tvm.runtime.Module) -> Iterator[tvm.runtime.Module]:
    for imported in library.imports:
        if imported.kind == "cuda":
            yield imported


def _prove_cuda(device: tvm.runtime.Module, order: BuildOrder, number: int) -> None:
    """Where TVM sees no GPU it exports the source without compiling it. Then compile it here, so
    that what does not compile is known at once; the cubin stays beside the library."""
    import tvm  # noqa: PLC0415  # an optional extra
    from tvm.support.nvcc import compile_cuda  # noqa: PLC0415

    if tvm.cuda(0).exist or which("nvcc") is None:
        return
    with order.target.tvm():
        binary = compile_cuda(
            device.inspect_source(),
            target_format="cubin",
            arch=order.target.architecture,
            compiler="nvcc",
        )
    order.library.with_suffix(f".{number}.cubin").write_bytes(bytes(binary))


def _kept(
    order: BuildOrder,
    module: tvm.IRModule,
    library: tvm.runtime.Module,
    devices: list[tvm.runtime.Module],
) -> Iterator[Path]:
    texts = {".tir.py": module.script()}
    if devices:
        texts[".cu"] = "\n".join(device.inspect_source() for device in devices)
    else:
        texts[".ll"] = library.inspect_source("ll")
    for suffix, text in texts.items():
        path = order.library.with_suffix(suffix)
        path.write_text(text)
        yield path
