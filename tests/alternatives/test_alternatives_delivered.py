"""Artifacts run as whoever downloads them runs them: ``run.py`` in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from support.graphs import SIDE, graph_of, wide
from support.unit_graphs import convolution

from workers.alternatives.catalog import AlternativeError
from workers.alternatives.opening import open_delivered
from workers.alternatives.separate import SeparateModel
from workers.devices.cpu_facts import read_cpu
from workers.devices.providers import kernels_of
from workers.graph.graph import Graph
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.graph.serialize import graph_hash
from workers.schedules.artifact import write_artifact
from workers.schedules.lower import lower
from workers.schedules.schedule import ScheduleKey, Stage, StageSchedule

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=250)
CORES = sorted(os.sched_getaffinity(0))[:2]
Model = tuple[Graph, Mapping[str, torch.Tensor]]
Delivered = Callable[[Model, str, Sequence[Stage]], AbstractContextManager[SeparateModel]]

CONVOLUTION: Model = convolution()
PARALLEL: Model = (graph_of(wide(3)), {"w": torch.randn(SIDE, SIDE) / 3})


@pytest.fixture
def delivered(tmp_path: Path) -> Delivered:
    """Opens the artifact of such a schedule, with the kernels of that provider."""

    def opened(
        model: Model, provider: str, stages: Sequence[Stage]
    ) -> AbstractContextManager[SeparateModel]:
        graph, weights = model
        schedule = StageSchedule("tried", tuple(stages))
        key = ScheduleKey(graph_hash(graph), "cpu-1", "float32", 1, {"torch": torch.__version__})
        plan, path = lower(schedule, graph, len(CORES)), tmp_path / "a.zip"
        kernels = kernels_of(graph, plan.providers(provider), read_cpu())
        given: tuple[Any, ...] = (schedule, key, plan, {}, len(CORES), provider, kernels)
        write_artifact(path, graph, weights, *given)
        return open_delivered("tried", path, graph, tmp_path / "w", LIMITS, CORES)

    return opened


def stages_of(graph: Graph) -> list[Stage]:
    """The first Unit, then all that do not depend on each other side by side, then the last."""
    first, *middle, last = (unit.name for unit in graph.units)
    return [Stage(((first,),)), Stage(tuple((name,) for name in middle)), Stage(((last,),))]


@pytest.mark.parametrize(
    ("model", "provider", "stages"),
    [
        (PARALLEL, "aten", stages_of(PARALLEL[0])),
        (CONVOLUTION, "aten", [Stage((("c",),))]),
        (CONVOLUTION, "onnxruntime", [Stage((("c",),))]),
    ],
)
def test_it_computes_the_model_on_its_cores_and_is_timed(
    model: Model, provider: str, stages: list[Stage], delivered: Delivered, tmp_path: Path
) -> None:
    graph, weights = model
    with delivered(model, provider, stages) as running:
        for seed in (0, 1):
            inputs = random_inputs(graph, seed)
            found = running.run(inputs)
            for name, expected in run_graph(graph, weights, inputs).items():
                torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-5)
        latencies = running.time(inputs, 5)
        assert len(latencies) == 5
        assert min(latencies) > 0
        assert running.isolation == ()
        assert "run.py" in running.notes[0]
    assert not list((tmp_path / "w").iterdir())


def test_it_has_the_settings_that_run_py_makes_as_a_program(delivered: Delivered) -> None:
    """And no more cores than the Plan may use."""
    with delivered(PARALLEL, "aten", stages_of(PARALLEL[0])) as running:
        pid = running._process._process.pid
        given = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert {b"OMP_WAIT_POLICY=active", b"GOMP_SPINCOUNT=300000"} <= set(given)
        used: set[int] = set()
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):
                used |= os.sched_getaffinity(int(task.name))
        assert used == set(CORES)


def test_what_runs_otherwise_than_it_was_tuned_is_refused(
    delivered: Delivered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here ONNX Runtime is hidden behind a module that cannot be imported."""
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding/onnxruntime.py").write_text("raise ImportError('it was taken away')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hiding"))
    with (
        pytest.raises(AlternativeError, match=r"tried: .*without ONNX Runtime: it was taken away"),
        delivered(CONVOLUTION, "onnxruntime", [Stage((("c",),))]),
    ):
        pass
