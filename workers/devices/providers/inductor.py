"""The provider ``inductor``: each Unit compiled by TorchInductor, once for each structure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar

import torch
from torch import Tensor

from workers.devices.base import DeviceError
from workers.devices.cpu_facts import read_cpu
from workers.devices.providers.base import KernelProvider
from workers.devices.providers.inductor_code import (
    InductorCode,
    Kernel,
    compile_program,
    compiler,
    load,
)
from workers.devices.providers.kernel_cache import KernelCache, default_root
from workers.devices.providers.unit_program import UnitProgram, program_of
from workers.graph.graph import Graph, Unit, ValueRef
from workers.graph.interpreter import CompiledUnit
from workers.graph.signature import signature

_FORMAT = 1
_ALIGNMENT = 16
"""Bytes: what code for a GPU assumes of its arguments' addresses."""

# The compiler keeps its settings and its folder in the process: one Unit is compiled at a time.
_COMPILING = RLock()
_LOADED: dict[str, Kernel] = {}


class InductorProvider(KernelProvider):
    """Compiles what is neither loaded in this process nor in ``cache``; ``compiled`` counts that.

    Weights are arguments of what is compiled, so that Units which differ in weights only share it.
    It is called directly, without the guards of ``torch.compile``: a Unit's shapes are fixed.
    """

    name: ClassVar[str] = "inductor"

    def __init__(self, device: str, cache: KernelCache | None = None) -> None:
        super().__init__(device)
        self._cache = cache or KernelCache(default_root())
        self.compiled = 0

    def compile(
        self, graph: Graph, unit: Unit, weights: Mapping[str, Tensor], threads: int
    ) -> CompiledUnit:
        program = program_of(graph, unit)
        laid_out = _laid_out(program, weights)
        key = self._key(program, threads)
        try:
            with _COMPILING:
                if key not in _LOADED:
                    _LOADED[key] = self._kernel(key, program, laid_out, threads)
                kernel = _LOADED[key]
        except Exception as error:
            reason = (str(error).strip() or repr(error)).splitlines()[0]
            raise DeviceError(
                f"unit {unit.name!r} cannot be compiled by inductor: {reason}"
            ) from error
        constants = [laid_out[name] for name in program.weights]
        prepare = Tensor.contiguous if self._on_cpu else _contiguous_and_aligned
        return CompiledUnit(
            unit.name,
            program.inputs,
            unit.outputs,
            _call(kernel, prepare, len(program.inputs), constants),
            kernel=f"inductor.{key}",
        )

    @property
    def _on_cpu(self) -> bool:
        return torch.device(self.device).type == "cpu"

    def _key(self, program: UnitProgram, threads: int) -> str:
        """What the code depends on: the Unit's structure, and what it is made for and with."""
        where = read_cpu().fingerprint
        if not self._on_cpu:
            properties = torch.cuda.get_device_properties(self.device)
            where = f"{properties.name} {properties.major}.{properties.minor}"
        structure = signature(program.graph, [program.graph.index[program.unit.name]])
        parts = (_FORMAT, structure, threads, torch.__version__, where, _compiler_settings())
        return blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    def _kernel(
        self, key: str, program: UnitProgram, weights: Mapping[str, Tensor], threads: int
    ) -> Kernel:
        if (entry := self._cache.find(key)) is not None:
            try:
                return self._load(*entry)
            except Exception:  # what is whole but does not load is made again
                self._cache.drop(key)
        self.compiled += 1
        try:
            self._compile(key, program, weights, threads)
        except (ImportError, OSError):
            # The compiler takes what it finds in its folder for whole, which it need not be.
            shutil.rmtree(self._cache.build)
            self._compile(key, program, weights, threads)
        stored = self._cache.find(key)
        if stored is None:
            raise OSError("the kernel cache does not keep what is written there")
        return self._load(*stored)

    def _compile(
        self, key: str, program: UnitProgram, weights: Mapping[str, Tensor], threads: int
    ) -> None:
        """Compile, and put what loading needs into the cache."""
        at_once = len(os.sched_getaffinity(0)) if self._on_cpu else 1
        with compiler(self._cache.build, threads, at_once):
            code = compile_program(program, weights, self.device)

            def fill(entry: Path) -> None:
                for path in (code.module, *code.libraries.values()):
                    shutil.copy2(path, entry / path.name)

            notes = {
                "module": code.module.name,
                "libraries": {name: path.name for name, path in code.libraries.items()},
            }
            self._cache.store(key, notes, fill)

    def _load(self, folder: Path, notes: Mapping[str, Any]) -> Kernel:
        libraries = {name: folder / file for name, file in notes["libraries"].items()}
        with compiler(self._cache.build, threads=1):
            return load(InductorCode(folder / notes["module"], libraries))


def _laid_out(program: UnitProgram, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The Unit's weights as its code reads them: those of convolutions channels last, where the
    code would otherwise bring them at every call."""
    convolved = {
        argument.name
        for operator in program.unit.operators
        if operator.target == "aten.conv2d.default"
        for argument in operator.arguments[1:2]
        if isinstance(argument, ValueRef)
    }
    return {
        name: weights[name].contiguous(memory_format=torch.channels_last)
        if name in convolved
        else weights[name].contiguous()
        for name in program.weights
    }


def _call(
    kernel: Kernel, prepare: Callable[[Tensor], Tensor], inputs: int, weights: list[Tensor]
) -> Callable[..., tuple[Tensor, ...]]:
    """The kernel as a function of the inputs alone."""
    if inputs == 1:

        def of_one(only: Tensor) -> tuple[Tensor, ...]:
            return tuple(kernel([prepare(only), *weights]))

        return of_one

    def of_several(*values: Tensor) -> tuple[Tensor, ...]:
        return tuple(kernel([*map(prepare, values), *weights]))

    return of_several


def _contiguous_and_aligned(tensor: Tensor) -> Tensor:
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % _ALIGNMENT else tensor


def _compiler_settings() -> str:
    """Environment variables that change the code which the compiler makes."""
    return " ".join(f"{name}={os.environ.get(name)}" for name in ("CXX", "ATEN_CPU_CAPABILITY"))
