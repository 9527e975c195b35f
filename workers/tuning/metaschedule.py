"""TVM's own tuning with our processes: a builder and a runner for ``ms.tune_tir`` and the like.

::

    from tvm.s_tir import meta_schedule as ms
    from workers.tuning.metaschedule import open_parallel

    with open_parallel(["cpu"]) as (builder, runner):
        ms.tune_tir(module, target, work_dir, 64, builder=builder, runner=runner)

TVM calls both with whole batches, one after the other, so that here building does not overlap
measuring. It gives no reference: results are not checked. Importing this module loads TVM.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tvm.ir import save_json
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import (
    PyRunner,
    PyRunnerFuture,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)

from workers.measure.effort import USUAL, Effort
from workers.measure.parallel.doppler import DopplerMeasurer
from workers.measure.parallel.pool import WorkerPool
from workers.measure.parallel.react import ReactPolicy
from workers.measure.parallel.rounds import SubjectMeasurer, Taken
from workers.tuning.kernels.arguments import UnknownArguments
from workers.tuning.kernels.build import BuildOrder
from workers.tuning.kernels.pool import BuildPool, Built
from workers.tuning.kernels.source import ModuleSource
from workers.tuning.kernels.subject import KernelSubject
from workers.tuning.program import TensorSpec
from workers.tuning.recording import usable_cores
from workers.tuning.targets import KernelTarget, target


@derived_object
class ParallelBuilder(PyBuilder):  # type: ignore[misc]  # TVM has no types
    """Builds by the processes of ``pool``; each library is in a folder of its own within
    ``folder``, as TVM removes that folder once it was measured."""

    def __init__(self, pool: BuildPool, folder: Path) -> None:
        super().__init__()
        self.pool, self.folder, self.numbers = pool, folder, count()

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """As TVM's interface says. Raises BuildError where nothing can be built any more."""
        futures = self.pool.build([self._order(given) for given in build_inputs])
        return [_built(future.result()) for future in futures]

    def _order(self, given: BuilderInput) -> BuildOrder:
        folder = self.folder / str(next(self.numbers))
        folder.mkdir(parents=True)
        source = ModuleSource(save_json(given.mod))
        return BuildOrder(source, _target(given.target), folder / "kernel.so")


@derived_object
class ParallelRunner(PyRunner):  # type: ignore[misc]  # TVM has no types
    """Runs by ``measurer``: what it tells a tuner is what TVM is told."""

    def __init__(self, measurer: SubjectMeasurer) -> None:
        super().__init__()
        self.measurer = measurer

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """As TVM's interface says; the futures are done already."""
        subjects = [
            KernelSubject(Path(str(given.artifact_path)), _arguments(given))
            for given in runner_inputs
        ]
        taken = self.measurer.measure(subjects)
        return [_Done(one) for one in taken if one is not None]


@derived_object
class _Done(PyRunnerFuture):  # type: ignore[misc]  # TVM has no types
    def __init__(self, taken: Taken) -> None:
        super().__init__()
        self.taken = taken

    def done(self) -> bool:
        return True

    def result(self) -> RunnerResult:
        if self.taken.failure is not None:
            return RunnerResult(None, f"{self.taken.failure.value}: {self.taken.reason}")
        return RunnerResult([self.taken.latency_ms / 1e3], None)


@contextmanager
def open_parallel(
    devices: Sequence[str],
    degree: int = 0,
    builders: int = 0,
    effort: Effort = USUAL,
    policy: ReactPolicy | None = None,
) -> Iterator[tuple[Any, Any]]:
    """A builder and a runner with processes of their own, which end with the context. At most
    ``degree`` candidates are measured at once on each device, and ``builders`` processes build; 0
    stands for the cores of this machine."""
    folder = Path(tempfile.mkdtemp(prefix="plait-kernels-"))
    load = "load_cuda" if any(device.startswith("cuda") for device in devices) else "load_cpu"
    try:
        with (
            closing(BuildPool(builders or usable_cores())) as builds,
            closing(WorkerPool(devices, f"workers.tuning.kernels.runtime:{load}")) as pool,
        ):
            limits = policy or ReactPolicy(max_dp=degree or usable_cores())
            measurer = DopplerMeasurer(pool, effort, limits, alone=builds.paused)
            yield ParallelBuilder(builds, folder), ParallelRunner(measurer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _built(built: Built) -> BuilderResult:
    if built.failure is not None:
        return BuilderResult(None, f"{built.failure.value}: {built.reason}")
    return BuilderResult(str(built.library), None)


def _target(given: Any) -> KernelTarget:
    return target(_plain(given.export()))


def _plain(value: Any) -> Any:
    """TVM's containers as Python's."""
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "items"):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    return getattr(value, "value", value)


def _arguments(given: RunnerInput) -> UnknownArguments:
    infos = [info.as_json() for info in given.args_info]
    return UnknownArguments(
        tuple(
            TensorSpec(str(place), tuple(int(extent) for extent in shape), str(dtype))
            for place, (_, dtype, shape) in enumerate(infos)
        )
    )
