"""Tensor programs that are built and measured in a moment, and sources of kernels that end in
every way there is: real kernels, wrong ones too."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.tuning.program import TensorProgram
from workers.tuning.programs import catalog
from workers.tuning.targets import KernelTarget

if TYPE_CHECKING:
    import tvm

    from workers.tuning.space import DesignSpace


def small_matmul(n: int = 16) -> TensorProgram:
    return catalog.program("matmul", {"rows": n, "inner": n, "columns": n})


def small_space(program: TensorProgram, target: KernelTarget) -> DesignSpace:
    from workers.tuning.space import DesignSpace

    return DesignSpace(catalog.family_of(program).prim_func(dict(program.sizes)), target.tvm())


@dataclass(frozen=True)
class Untuned:
    """The program as it was written."""

    program: TensorProgram

    def module(self) -> tvm.IRModule:
        import tvm

        family = catalog.family_of(self.program)
        return tvm.IRModule({"main": self.function(family.prim_func(dict(self.program.sizes)))})

    def function(self, prim_func: Any) -> Any:
        return prim_func.with_attr("global_symbol", "main")


@dataclass(frozen=True)
class Tampered(Untuned):
    """Something else happens before the program is computed, or instead of it."""

    how: str = ""

    def function(self, prim_func: Any) -> Any:
        from tvm import tirx

        named = super().function(prim_func)
        if self.how == "wrong":
            return named.with_body(tirx.Evaluate(0))
        words = {
            "crash": ("raise", signal.SIGSEGV.value),
            "hang": ("sleep", 3600),
            "missing": ("no_such_function_anywhere", 0),
        }[self.how]
        call = tirx.call_extern("int32", *words)
        return named.with_body(tirx.SeqStmt([tirx.Evaluate(call), named.body]))


@dataclass(frozen=True)
class Greedy(Untuned):
    """Instead of the program, something of the same arguments that needs 1 GiB in between."""

    def function(self, prim_func: Any) -> Any:
        from tvm import te

        a, b = (te.placeholder((16, 16), name=name) for name in "ab")
        large = te.compute((1 << 14, 1 << 14), lambda i, j: a[i % 16, j % 16] * b[j % 16, i % 16])
        end = te.compute((16, 16), lambda i, j: large[i * 1023, j * 1023])
        return super().function(te.create_prim_func([a, b, end]))


@dataclass(frozen=True)
class Misbuilt(Untuned):
    """Something happens in the process that builds it."""

    how: str = ""

    def module(self) -> tvm.IRModule:
        if self.how == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.how == "hang":
            time.sleep(3600)
        if self.how == "hoard":
            hoard = bytearray(1 << 30)
            time.sleep(3600)
            del hoard
        if self.how == "memory":
            raise MemoryError
        if self.how == "disk":
            with Path("/dev/full").open("wb", buffering=0) as full:
                full.write(b"kernel")
        if self.how == "raise":
            raise ValueError("no such intrinsic")
        return super().module()
