"""Run and time this kernel, which Plait tuned with TVM: the ``run.py`` of its zip.

    python run.py                     random inputs, prints the shapes of the outputs
    python run.py --inputs in.npz     the program's inputs by their names
    python run.py --outputs out.npz   saves the outputs by their names
    python run.py --bench             the median of many calls

From Python: ``from run import load; kernel = load(); outputs = kernel(*inputs)``.

Needs NumPy and apache-tvm, on a machine like the one it was compiled for (``program.json``).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# The kernel is of one thread; TVM's pool would only pin this one to a core.
os.environ.setdefault("TVM_NUM_THREADS", "1")
os.environ.setdefault("TVM_BIND_THREADS", "0")

import numpy as np

HERE = Path(__file__).resolve().parent
ENTRY = "main"
ALIGNMENT = 64
"""Bytes; generated code assumes as much of its arguments."""
BENCH_S = 1.0

Array = Any


def load(folder: Path = HERE) -> Callable[..., list[Array]]:
    """The kernel as a function of NumPy arrays in the order of ``program.json``, which gives its
    outputs. Raises SystemExit where TVM is missing."""
    run, _ = _opened(folder)
    return run


def _opened(folder: Path) -> tuple[Callable[..., list[Array]], dict[str, Any]]:
    program = json.loads((folder / "program.json").read_text())
    library = str(folder / "kernel.so")
    if program["target"]["kind"] == "cuda":
        return _on_gpu(program, library), program
    return _on_cpu(program, library), program


def _on_cpu(program: dict[str, Any], library: str) -> Callable[..., list[Array]]:
    found = find_spec("tvm")
    if found is None or found.origin is None:
        sys.exit("this needs TVM: pip install apache-tvm")
    # A kernel needs the runtime alone, which loads much faster than the compiler.
    import tvm_ffi  # noqa: PLC0415  # missing where TVM is, which is told above

    runtime = Path(found.origin).parent / "lib" / "libtvm_runtime.so"
    ctypes.CDLL(str(runtime), ctypes.RTLD_GLOBAL)
    kernel = tvm_ffi.load_module(library)[ENTRY]

    def run(*inputs: Array) -> list[Array]:
        given = [_aligned(array) for array in _checked(program, inputs)]
        outputs = [_empty(spec) for spec in program["outputs"]]
        kernel(*(tvm_ffi.from_dlpack(array) for array in (*given, *outputs)))
        return outputs

    return run


def _on_gpu(program: dict[str, Any], library: str) -> Callable[..., list[Array]]:
    try:
        import tvm  # noqa: PLC0415  # a CPU needs less
    except ImportError:
        sys.exit("this needs TVM: pip install apache-tvm")
    gpu = tvm.cuda(0)
    if not gpu.exist:
        sys.exit("TVM finds no GPU here")
    kernel = tvm.runtime.load_module(library)[ENTRY]

    def run(*inputs: Array) -> list[Array]:
        given = [tvm.runtime.tensor(array, gpu) for array in _checked(program, inputs)]
        outputs = [tvm.runtime.tensor(_empty(spec), gpu) for spec in program["outputs"]]
        kernel(*given, *outputs)
        gpu.sync()
        return [tensor.numpy() for tensor in outputs]

    return run


def random_inputs(program: dict[str, Any], seed: int = 0) -> list[Array]:
    """Inputs that the program can be called with."""
    generator = np.random.default_rng(seed)
    return [
        generator.integers(-128, 128, spec["shape"]).astype(spec["dtype"])
        if np.issubdtype(spec["dtype"], np.integer)
        else generator.standard_normal(spec["shape"]).astype(spec["dtype"])
        for spec in program["inputs"]
    ]


def _checked(program: dict[str, Any], inputs: tuple[Array, ...]) -> list[Array]:
    wanted = program["inputs"]
    if len(inputs) != len(wanted):
        raise ValueError(f"the kernel has {len(wanted)} inputs, {len(inputs)} were given")
    for spec, array in zip(wanted, inputs, strict=True):
        if list(array.shape) != spec["shape"] or str(array.dtype) != spec["dtype"]:
            raise ValueError(
                f"{spec['name']} is {spec['dtype']} of {spec['shape']}, not {array.dtype} of"
                f" {list(array.shape)}"
            )
    return list(inputs)


def _empty(spec: dict[str, Any]) -> Array:
    dtype = np.dtype(spec["dtype"])
    size = int(np.prod(spec["shape"], dtype=np.int64)) * dtype.itemsize
    room = np.empty(size + ALIGNMENT, np.uint8)
    first = -room.ctypes.data % ALIGNMENT
    return room[first : first + size].view(dtype).reshape(spec["shape"])


def _aligned(array: Array) -> Array:
    if array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = _empty({"dtype": str(array.dtype), "shape": array.shape})
    copy[...] = array
    return copy


def _bench(run: Callable[..., list[Array]], inputs: list[Array]) -> str:
    """The median in ms of calls for a second, arguments and outputs made anew in each."""
    run(*inputs)
    taken: list[float] = []
    began = time.perf_counter()
    while time.perf_counter() - began < BENCH_S or len(taken) < 2:
        start = time.perf_counter()
        run(*inputs)
        taken.append((time.perf_counter() - start) * 1e3)
    return f"{statistics.median(taken):.4f} ms, the median of {len(taken)} calls"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=Path)
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--bench", action="store_true")
    given = parser.parse_args()
    run, program = _opened(HERE)
    inputs = random_inputs(program)
    if given.inputs:
        with np.load(given.inputs) as archive:
            missing = {spec["name"] for spec in program["inputs"]} - set(archive.files)
            if missing:
                sys.exit(f"{given.inputs} lacks {', '.join(sorted(missing))}")
            inputs = [archive[spec["name"]] for spec in program["inputs"]]
    outputs = run(*inputs)
    lines = [f"{spec['name']}: {spec['dtype']} of {spec['shape']}" for spec in program["outputs"]]
    if given.outputs:
        named = {spec["name"]: out for spec, out in zip(program["outputs"], outputs, strict=True)}
        np.savez(given.outputs, **named)
    if given.bench:
        lines.append(_bench(run, inputs))
        lines.append(f"{program['latency_ms']:.4f} ms when it was tuned, of the kernel alone")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
