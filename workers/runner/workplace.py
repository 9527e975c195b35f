"""What a job works with, and what its steps hand to each other."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

from backend.jobs.schemas import Provider
from backend.settings import Settings
from workers.devices.base import Device
from workers.graph.graph import Graph
from workers.graph.importers.sandbox import SandboxLimits
from workers.measure.profile_index import ProfileIndex
from workers.runner.quiet import NoisePolicy
from workers.runner.recorder import Recorder
from workers.schedulers.base import SearchResult
from workers.schedules.merge import Merged
from workers.schedules.plan import Plan
from workers.schedules.schedule import ScheduleKey, StageSchedule

if TYPE_CHECKING:
    from torch import Tensor

    from workers.measure.serial import Measurer


@dataclass(frozen=True, slots=True)
class Skipped:
    """What takes no part, and why, in words for the job's user."""

    contender: str
    reason: str


BASELINE = "sequential"
"""The schedule that every job measures and that wins unless another one is really faster."""


def keep_kernels(settings: Settings) -> None:
    """Let devices keep the kernels that they compile among this service's own data, unless
    PLAIT_KERNEL_CACHE names another place: it is code, and the import sandbox never sees it."""
    os.environ.setdefault("PLAIT_KERNEL_CACHE", str(settings.home / "kernels"))


def calm_numpy() -> None:
    """Keep NumPy's linear algebra, which schedulers use, to the calling thread: further threads
    would spin for a while after each call, beside what is measured. PyTorch has its own."""
    ThreadpoolController().select(prefix="libscipy_openblas").limit(limits=1)


def collect_rarely() -> None:
    """Look for garbage in cycles a hundred times less often: a search keeps hundreds of thousands
    of answers and makes hardly any cycles, and going through them took a tenth of its time."""
    gc.set_threshold(50_000, 20, 100)


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a job works with: where to compute, what is known already, and where to report."""

    device: Device
    index: ProfileIndex
    recorder: Recorder
    workdir: Path
    limits: SandboxLimits
    noise: NoisePolicy
    measurer: Measurer | None = None
    """What measures stages, if it is not one after the other in this process."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An imported, optimised model at one batch size, and at the job's sequence length."""

    graph: Graph
    weights: Mapping[str, Tensor]
    key: ScheduleKey
    provider: Provider = "aten"
    sequence_length: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheduler's finding, lowered to a Plan. ``merged`` is the schedule with the graph and the
    weights that the Plan is for: the model's own, unless stages of it were merged or its Units
    regrouped. ``scheduler`` names the candidate among those of one batch size; ``key`` says what
    its schedule was made for; its operators are those of ``provider``."""

    scheduler: str
    found: SearchResult
    merged: Merged
    plan: Plan
    seconds: float
    key: ScheduleKey
    provider: Provider

    @property
    def search(self) -> dict[str, Any]:
        """What finding it took, for the result's row, and whether stages have barriers."""
        facts = asdict(self.found)
        del facts["schedule"]
        if isinstance(self.found.schedule, StageSchedule):
            facts["barriers"] = self.found.schedule.barriers
        return {**facts, "seconds": self.seconds}
