"""TVM's own tuning loop, building and measuring by our processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.kernels import small_matmul, small_space

from workers.measure.effort import Effort
from workers.tuning.programs import catalog
from workers.tuning.targets import target

pytest.importorskip("tvm")

TRIALS = 4


@pytest.fixture(scope="module")
def parallel() -> Iterator[tuple[Any, Any]]:
    from workers.tuning.metaschedule import open_parallel

    effort = Effort(target_ms=1, limit_ms=10, min_repeats=3, max_repeats=3, warm_up_ms=1)
    with open_parallel(["cpu"], degree=2, builders=1, effort=effort) as made:
        yield made


@pytest.mark.parametrize("strategy", ["replay-trace", "evolutionary"])
def test_tvms_loop_records_every_trial(
    parallel: tuple[Any, Any], strategy: str, tmp_path: Path
) -> None:
    """What ``ms.tune_tir`` does, on a space that takes no tensor intrinsics: reading those takes
    TVM minutes. Every trial ends as a record with a latency."""
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.tune import tune_tasks

    builder, runner = parallel
    strategies = {
        "replay-trace": ms.search_strategy.ReplayTrace(),
        "evolutionary": ms.search_strategy.EvolutionarySearch(
            population_size=16, init_min_unmeasured=4
        ),
    }
    space = small_space(small_matmul(), target({"kind": "llvm", "num-cores": 1}))
    database = tune_tasks(
        tasks=[space.context(strategies[strategy], seed=1)],
        task_weights=[1.0],
        work_dir=str(tmp_path),
        max_trials_global=TRIALS,
        num_trials_per_iter=2,
        builder=builder,
        runner=runner,
        cost_model="random",
    )
    records = database.get_all_tuning_records()
    assert len(records) == TRIALS
    for record in records:
        assert [0 < float(seconds) < 0.1 for seconds in record.run_secs] == [True]
    assert list(builder_folder(builder).iterdir()) == []


def test_what_cannot_be_built_or_run_is_an_error_and_no_exception(
    parallel: tuple[Any, Any], tmp_path: Path
) -> None:
    import tvm
    from tvm import tirx
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    builder, runner = parallel
    program = small_matmul()
    function = catalog.family_of(program).prim_func(dict(program.sizes))
    unknown = tirx.Evaluate(tirx.call_extern("int32", "f", tirx.Var("n", "int32")))
    module = tvm.IRModule({"main": function.with_body(unknown)})
    (built,) = builder.build([ms.builder.BuilderInput(module, Target({"kind": "llvm"}))])
    assert built.artifact_path is None
    assert str(built.error_msg).startswith("compile: ")
    missing = ms.runner.RunnerInput(str(tmp_path / "nothing.so"), "cpu", [])
    (future,) = runner.run([missing])
    assert future.done()
    assert str(future.result().error_msg).startswith("launch: its library cannot be loaded")
    assert future.result().run_secs is None


def builder_folder(builder: Any) -> Path:
    folder: Path = builder.folder
    return folder
