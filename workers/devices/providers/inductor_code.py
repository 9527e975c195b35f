"""TorchInductor's code for a Unit: made once, loaded without the compiler.

All that depends on TorchInductor's inner parts is here. Its process-wide settings are changed
while ``compiler`` is entered, which is for one thread at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import CDLL
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from workers.devices.providers.unit_program import UnitProgram

Kernel = Callable[[list[Tensor]], Sequence[Tensor]]
"""Takes inputs and weights in a list, which it empties, and returns the outputs."""

# TorchInductor's own binding keeps the interpreter lock while a kernel in C++ runs, so that the
# streams of a CPU would take turns.
_CALL_WITHOUT_LOCK = """
    auto arguments = std::make_tuple({});
    struct Unlocked {{
        PyThreadState* state = PyEval_SaveThread();
        ~Unlocked() {{ PyEval_RestoreThread(state); }}
    }};
    {{
        Unlocked unlocked;
        std::apply(kernel, arguments);
    }}
    Py_RETURN_NONE;
"""


@dataclass(frozen=True, slots=True)
class InductorCode:
    """The Python module that calls a Unit's kernels, and the libraries of those in C++ by the
    names under which the module asks for them. Triton keeps those of a GPU itself."""

    module: Path
    libraries: Mapping[str, Path]


@contextmanager
def compiler(folder: Path, threads: int, at_once: int = 1) -> Iterator[None]:
    """TorchInductor set up for one Unit on ``threads`` threads; it writes into ``folder``, and
    compiles ``at_once`` kernels in C++ at a time."""
    # It takes seconds to import, and most processes never need it.
    from torch._inductor import config  # noqa: PLC0415
    from torch._inductor.codecache import CppPythonBindingsCodeCache  # noqa: PLC0415

    settings = {
        "compile_threads": at_once,  # where there is Triton, more would be processes that stay
        "fx_graph_cache": False,
        "cpp.threads": threads,
        "cpp.vec_isa_ok": True,  # /proc/cpuinfo says so; compiling a program to see takes seconds
    }
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    call = CppPythonBindingsCodeCache.call_entry_function
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    CppPythonBindingsCodeCache.cache_clear()  # so that a Unit's kernels alone are found in it
    CppPythonBindingsCodeCache.call_entry_function = _CALL_WITHOUT_LOCK
    try:
        with config.patch(settings):
            yield
    finally:
        CppPythonBindingsCodeCache.call_entry_function = call
        CppPythonBindingsCodeCache.cache_clear()
        if before is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


def compile_program(
    program: UnitProgram, weights: Mapping[str, Tensor], device: str
) -> InductorCode:
    """Compile for weights of these strides; the code lies in the compiler's folder. Needs
    ``compiler`` to be entered; raises whatever TorchInductor does."""
    from torch._inductor.codecache import (  # noqa: PLC0415
        CppPythonBindingsCodeCache,
        get_path,
    )
    from torch._inductor.compile_fx import compile_fx_inner  # noqa: PLC0415
    from torch._inductor.decomposition import select_decomp_table  # noqa: PLC0415
    from torch._inductor.output_code import CompiledFxGraph  # noqa: PLC0415

    module, parameters = program.trace(weights, device, select_decomp_table())
    with torch.no_grad():
        compiled = compile_fx_inner(module, parameters)
    if not isinstance(compiled, CompiledFxGraph) or compiled.cache_key is None:
        raise TypeError(f"it was compiled to a {type(compiled).__name__}, which cannot be kept")
    if compiled.constants:
        raise ValueError(f"its code has constants: {', '.join(compiled.constants)}")
    return InductorCode(
        Path(get_path(compiled.cache_key, "py")[2]),
        {name: Path(get_path(name, "main.so")[2]) for name in CppPythonBindingsCodeCache.cache},
    )


def load(code: InductorCode) -> Kernel:
    """Run the module, which finds its kernels loaded and compiles nothing. Needs ``compiler`` to
    be entered; raises ImportError or OSError where the files are not what they should be."""
    from torch._inductor.codecache import (  # noqa: PLC0415
        CppPythonBindingsCodeCache,
        PyCodeCache,
    )

    known = CppPythonBindingsCodeCache.cache
    for name, path in code.libraries.items():
        library = CppPythonBindingsCodeCache._load_library(str(path), name)
        known[name] = partial(_itself, library)
    # With attributes, even none, the module is not kept for others that ask for its path.
    loaded = PyCodeCache.load_by_key_path(code.module.stem, str(code.module), attrs={})
    if len(known) > len(code.libraries):
        raise ImportError("the module asks for kernels that are not beside it")
    kernel: Kernel = loaded.call
    return kernel


def _itself(library: CDLL | ModuleType) -> CDLL | ModuleType:
    return library
