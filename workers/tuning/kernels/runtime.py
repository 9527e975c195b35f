"""TVM's runtime in a measuring process: what calls kernels, without the compiler."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ONE_THREAD = {
    "TVM_NUM_THREADS": "1",
    # TVM's thread pool would pin the thread that calls it, in every process to the same core.
    "TVM_BIND_THREADS": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""A kernel runs in the thread that measures it, whose clock then misses nothing of it."""


@cache
def load_cpu() -> Any:
    """``tvm_ffi`` with TVM's runtime library. It takes a quarter of the memory and a third of the
    time of ``import tvm``, and there are as many such processes as candidates in flight. Raises
    RuntimeError where TVM is missing."""
    os.environ.update(ONE_THREAD)
    found = find_spec("tvm")
    if found is None or found.origin is None:
        raise RuntimeError("running kernels needs TVM: pip install 'plait[tvm]'")
    with without_torch():
        import tvm_ffi  # noqa: PLC0415  # an optional extra
    ctypes.CDLL(str(Path(found.origin).parent / "lib/libtvm_runtime.so"), ctypes.RTLD_GLOBAL)
    return tvm_ffi


@cache
def load_cuda() -> Any:
    """``tvm_ffi`` with all of TVM, as what runs kernels on a GPU is in several libraries."""
    os.environ.update(ONE_THREAD)
    with without_torch():
        import tvm  # noqa: F401, PLC0415  # an optional extra
        import tvm_ffi  # noqa: PLC0415

    return tvm_ffi


@contextmanager
def without_torch() -> Iterator[None]:
    """TVM imports torch where it finds it, for tensors that nobody passes here, which takes most of
    its time and memory. Whoever wants torch later in this process can have it."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # how an import is refused
    try:
        yield
    finally:
        del sys.modules["torch"]
