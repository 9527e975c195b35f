"""The design space of a tensor program: every kernel that TVM's sketches describe.

TVM MetaSchedule's post-order-apply generator gives a few sketches: traces of scheduling
instructions of which some *sample*: how a loop is tiled, how far it is unrolled, where a block is
computed. Each of those is a decision with finitely many options. Not every point is a candidate:
an option may not exist beside the others, and a target's postprocessors refuse what it cannot run,
such as too many threads.

This module loads TVM, which takes seconds; ``points`` does not.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any

from workers.tuning.points import Decision, Option, Point, PointSpace
from workers.tuning.tuner import Candidate

try:
    from tvm import IRModule
    from tvm.error import InternalError
    from tvm.s_tir import Schedule, ScheduleError
    from tvm.s_tir.meta_schedule import SearchStrategy, TuneContext, _ffi_api, space_generator
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo
    from tvm.s_tir.meta_schedule.logging import get_logging_func
    from tvm.s_tir.schedule import Instruction, Trace
    from tvm.target import Target
    from tvm.tirx import PrimFunc
except ImportError as error:
    raise ImportError("tuning needs TVM: pip install 'plait[tvm]'") from error


class SpaceError(ValueError):
    """A program or target that has no design space here; says which, why and what to do."""


class DesignSpace(PointSpace):
    """The points of ``prim_func`` on ``target``, and the candidates that they are.

    ``target`` is a TVM target, or what makes one. Of an ``llvm`` target without ``num-cores`` it is
    1, since DOPpler measures kernels beside each other; of a ``cuda`` target without limits they
    are those that every GPU has. Deterministic. Raises SpaceError.
    """

    def __init__(self, prim_func: PrimFunc, target: str | Mapping[str, Any] | Target) -> None:
        self.target = tvm_target(target)
        self.module_before = _module(prim_func)
        self._context = self.context(None, seed=1)
        self.postprocessors = list(self._context.space_generator.postprocs)
        self.schedules: list[Schedule] = list(self._context.generate_design_space())
        """TVM's sketches, for its search strategies."""
        self._traces = [schedule.trace.simplified(True) for schedule in self.schedules]
        super().__init__([_decisions(self.module_before, trace) for trace in self._traces])

    def context(self, strategy: SearchStrategy | None, seed: int) -> TuneContext:
        """TVM's tuning context with one thread, so that ``seed`` (1 … 2³¹ - 1) tells everything.

        TuneContext's own constructor first parses every tensor intrinsic of every target, which
        takes longer (up to 30 s) than many a kernel's search. Here only programs wait for that
        which TVM has an intrinsic for; the rules for tensor cores, VNNI and the like match nothing
        of the others, but cannot be made without.
        """
        rules = self.target.kind.name
        if _may_tensorize(self.module_before):
            import_module("tvm.s_tir.tensor_intrin")
            rules = "from-target"
        context = TuneContext.__new__(TuneContext)
        context.__init_handle_by_constructor__(
            _ffi_api.TuneContext,
            self.module_before,
            self.target,
            space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules),
            strategy,
            "main",
            1,
            seed,
            get_logging_func(logging.getLogger(__name__)),
        )
        _ffi_api.TuneContextInitialize(context)
        return context

    def candidate(self, point: Point) -> Candidate | None:
        """The candidate there, or None: if an option does not exist beside the others (then TVM
        would take another, which is a point of its own), or if a postprocessor refuses it."""
        wanted = self.decisions(point)
        instructions = _sampling(self._traces[point[0]])
        try:
            schedule = _replayed(
                self.module_before,
                self._traces[point[0]],
                dict(zip(instructions, wanted, strict=True)),
            )
            if _taken(schedule.trace) != wanted:
                return None
            schedule.enter_postproc()
            if not all(postprocessor.apply(schedule) for postprocessor in self.postprocessors):
                return None
        except (ScheduleError, InternalError, ValueError):
            return None
        return candidate_of(schedule.trace)

    def module(self, candidate: Candidate) -> IRModule:
        """The candidate's kernel ``main``, ready to be built for the target."""
        return self.schedule(candidate).mod

    def schedule(self, candidate: Candidate) -> Schedule:
        """TVM's schedule of a candidate, whose trace was applied."""
        return _applied(self.module_before, candidate)


def scheduled(module: IRModule | PrimFunc, candidate: Candidate) -> IRModule:
    """``candidate`` applied to its program: what a process that only builds needs. Raises what TVM
    raises where the trace is another program's."""
    before = module if isinstance(module, IRModule) else _module(module)
    return _applied(before, candidate).mod


def _applied(module: IRModule, candidate: Candidate) -> Schedule:
    schedule = _schedule(module)
    Trace.apply_json_to_schedule(json.loads(candidate.trace), schedule)
    return schedule


def candidate_of(trace: Trace) -> Candidate:
    """A trace that was applied, postprocessing included, as a value."""
    found = trace.as_json()
    return Candidate(json.dumps(found, default=_number, separators=(",", ":")))


_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "llvm": {"num-cores": 1},
    # What CUDA guarantees a block of threads on every GPU.
    "cuda": {
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 48 * 1024,
        "thread_warp_size": 32,
    },
}


def tvm_target(target: str | Mapping[str, Any] | Target) -> Target:
    """A complete target: see DesignSpace. A string is the name of a kind, or of one of TVM's tags
    such as ``nvidia/nvidia-h100``. Raises SpaceError for another kind than llvm and cuda."""
    if isinstance(target, str) and target in _DEFAULTS:
        target = {"kind": target}
    if isinstance(target, Mapping):
        target = Target({**_DEFAULTS.get(str(target.get("kind")), {}), **target})
    elif isinstance(target, str):
        target = Target(target)
    if target.kind.name not in _DEFAULTS:
        raise SpaceError(f"no design space for {target.kind.name}; there are: llvm, cuda")
    return target


_LOCATION, _TILE, _CATEGORICAL = (
    "SampleComputeLocation",
    "SamplePerfectTile",
    "SampleCategorical",
)
_PROBES = 16
"""How often a sketch is applied with random tiles to see what its decisions may be; its decisions
on places are asked for the deepest and for inlining in turns."""
_DEEPEST = 1 << 20


def _decisions(module: IRModule, trace: Trace) -> tuple[Decision, ...]:
    """The sketch's decisions with their options.

    A tile's extent and a place's depth can depend on the decisions before, and are nowhere in the
    trace, so they are read from replays: TVM takes the deepest place there is where a deeper one
    is asked for.
    """
    sampling = _sampling(trace)
    for instruction in sampling:
        if instruction.kind.name not in (_TILE, _CATEGORICAL, _LOCATION):
            raise SpaceError(f"{instruction.kind.name} is no decision that is known here")
    probes = [
        _taken(_replayed(module, trace, _places(sampling, probe), seed=probe + 1).trace)
        for probe in range(_PROBES)
    ]
    return tuple(
        _decision(instruction, taken)
        for instruction, taken in zip(sampling, zip(*probes, strict=True), strict=True)
    )


def _places(sampling: Sequence[Instruction], probe: int) -> dict[Instruction, Option]:
    asked = -2 if probe % 4 == 0 else _DEEPEST
    return {each: asked for each in sampling if each.kind.name == _LOCATION}


def _decision(instruction: Instruction, taken: Sequence[Option]) -> Decision:
    if instruction.kind.name == _CATEGORICAL:
        return Decision.categorical([_number(value) for value in instruction.attrs[0]])
    if instruction.kind.name == _LOCATION:
        places = [place for place in taken if isinstance(place, int)]
        return Decision.location(range(min(-1, *places), max(places) + 1))
    parts, max_innermost = (int(_number(value)) for value in instruction.attrs)
    extents = sorted({prod(tile) for tile in taken if isinstance(tile, tuple)})
    if extents[0] < 1:
        raise SpaceError("a loop's length is not known: give every size of the program")
    return Decision.tile(extents, parts, max_innermost)


def _module(prim_func: PrimFunc) -> IRModule:
    named = prim_func.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
    return IRModule({"main": named})


def _may_tensorize(module: IRModule) -> bool:
    """Whether an argument has an element type that some of TVM's tensor intrinsics take."""
    arguments = ArgInfo.from_prim_func(module["main"])
    return any(str(argument.dtype) in ("float16", "int8", "uint8") for argument in arguments)


def _schedule(module: IRModule, seed: int = 1) -> Schedule:
    return Schedule(module, seed=seed, debug_mask="none", error_render_level="none")


def _replayed(
    module: IRModule, trace: Trace, decisions: Mapping[Instruction, Option], seed: int = 1
) -> Schedule:
    """The sketch applied with these decisions; what is not decided is sampled."""
    schedule = _schedule(module, seed)
    Trace(trace.insts, dict(decisions)).apply_to_schedule(schedule, remove_postproc=True)
    return schedule


def _sampling(trace: Trace) -> list[Instruction]:
    return [each for each in trace.insts if each.kind.name.startswith("Sample")]


def _taken(trace: Trace) -> tuple[Option, ...]:
    """The decisions that TVM took in fact."""
    return tuple(_option(trace.get_decision(each)) for each in _sampling(trace))


def _option(decision: Any) -> Option:
    if isinstance(decision, int):
        return decision
    if hasattr(decision, "value"):
        return int(decision.value)
    return tuple(int(_number(factor)) for factor in decision)


def _number(value: Any) -> Any:
    """TVM's numbers in a trace as Python's."""
    return getattr(value, "value", value)
