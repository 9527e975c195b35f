"""What kernels are built from: anything picklable that gives TVM's module in another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from workers.tuning.program import TensorProgram
from workers.tuning.programs.catalog import family_of
from workers.tuning.tuner import Candidate

if TYPE_CHECKING:
    import tvm


class Source(Protocol):
    """Sent to a building process."""

    def module(self) -> tvm.IRModule:
        """What to compile: one function ``main``, scheduled already. Whatever it raises is why the
        candidate does not compile."""
        ...


@dataclass(frozen=True, slots=True)
class TracedSource:
    """A candidate of a program's design space."""

    program: TensorProgram
    candidate: Candidate

    def module(self) -> tvm.IRModule:
        from workers.tuning.space import scheduled  # noqa: PLC0415  # loads TVM

        if "Tensorize" in self.candidate.trace:
            # It registers what such a trace names, which takes seconds that others need not wait.
            import tvm.s_tir.tensor_intrin  # noqa: F401, PLC0415

        sizes = dict(self.program.sizes)
        return scheduled(family_of(self.program).prim_func(sizes), self.candidate)


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """A module that was scheduled elsewhere, as TVM writes it to JSON."""

    json: str

    def module(self) -> tvm.IRModule:
        from tvm.ir import load_json  # noqa: PLC0415  # an optional extra

        return load_json(self.json)
