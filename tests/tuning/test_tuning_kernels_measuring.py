"""Kernels as candidates: by both clocks, checked against NumPy, and however one ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.kernels import Greedy, Tampered, Untuned, small_matmul

from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.pool import WorkerPool
from workers.measure.parallel.subject import Outcome
from workers.tuning.kernels.arguments import (
    ProgramArguments,
    UnknownArguments,
    placed,
    write_reference,
)
from workers.tuning.kernels.build import BuildOrder
from workers.tuning.kernels.counters import CYCLES, SOFTWARE, Counters, between, open_counters
from workers.tuning.kernels.pool import BuildPool
from workers.tuning.kernels.subject import SHORTEST_RUN_MS, KernelSubject
from workers.tuning.program import TensorSpec
from workers.tuning.targets import target

TESTS = Path(__file__).parents[1]
PROGRAM, LARGER = small_matmul(16), small_matmul(96)
EFFORT = Effort(target_ms=2, limit_ms=50, min_repeats=5, max_repeats=5, warm_up_ms=5)
HOWS = ("wrong", "crash", "hang", "missing")


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        yield


@pytest.fixture(scope="module")
def libraries(importable: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("kernels")
    sources = {
        "small": Untuned(PROGRAM),
        "larger": Untuned(LARGER),
        "greedy": Greedy(PROGRAM),
        **{how: Tampered(PROGRAM, how) for how in HOWS},
    }
    llvm = target({"kind": "llvm", "num-cores": 1})
    with closing(BuildPool(1)) as pool:
        orders = [
            BuildOrder(source, llvm, folder / f"{name}.so") for name, source in sources.items()
        ]
        built = [future.result(60) for future in pool.build(orders)]
    return {
        name: one.library
        for name, one in zip(sources, built, strict=True)
        if one.library is not None
    }


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> ProgramArguments:
    file = tmp_path_factory.mktemp("references") / "matmul.npz"
    return write_reference(PROGRAM, 1, file)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    prepare = "workers.tuning.kernels.runtime:load_cpu"
    with closing(WorkerPool(["cpu"], prepare)) as made:
        yield made


def measured(pool: WorkerPool, *subjects: KernelSubject) -> list[Outcome]:
    found = pool.measure(subjects, 1, 3.0, EFFORT)
    return [outcome for outcome in found if outcome is not None]


def test_a_kernel_is_timed_by_both_clocks(
    pool: WorkerPool, libraries: dict[str, Path], arguments: ProgramArguments
) -> None:
    """A short one several times per run: a run's times are each call's."""
    subject = KernelSubject(libraries["small"], arguments)
    (warm, cold) = measured(pool, subject, replace(subject, cold=True))
    assert warm.reading is not None, warm.reason
    assert cold.reading is not None, cold.reason
    assert len(warm.reading.runs) == len(cold.reading.runs) == 5
    for run in warm.reading.runs:
        assert 0 < run.device_ms < SHORTEST_RUN_MS
        assert run.wall_ms > 0.9 * run.device_ms
    assert min(run.device_ms for run in cold.reading.runs) > min(
        run.device_ms for run in warm.reading.runs
    )


def test_each_failure_is_told_apart_and_the_next_kernel_measured(
    pool: WorkerPool, libraries: dict[str, Path], arguments: ProgramArguments
) -> None:
    good = KernelSubject(libraries["small"], arguments)
    found = measured(
        pool, *(replace(good, library=libraries[how]) for how in ("wrong", "crash", "hang")), good
    )
    assert [outcome.failure for outcome in found] == [
        Failure.WRONG_RESULT,
        Failure.CRASH,
        Failure.TIMEOUT,
        None,
    ]
    assert "elements are finite" in found[0].reason


def test_what_cannot_be_loaded_is_a_launch_error(
    pool: WorkerPool, libraries: dict[str, Path], arguments: ProgramArguments, tmp_path: Path
) -> None:
    """Nothing there, no library, or one that needs what nobody has."""
    text = tmp_path / "text.so"
    text.write_text("no library")
    paths = (tmp_path / "nothing.so", text, libraries["missing"])
    for outcome in measured(pool, *(KernelSubject(path, arguments) for path in paths)):
        assert outcome.failure is Failure.LAUNCH
        assert "cannot be loaded" in outcome.reason


def test_memory_is_limited_per_candidate(
    pool: WorkerPool, libraries: dict[str, Path], arguments: ProgramArguments
) -> None:
    good = KernelSubject(libraries["small"], arguments)
    greedy = replace(good, library=libraries["greedy"], memory_bytes=64 << 20)
    first, second, third = measured(pool, good, greedy, good)
    assert second.failure is Failure.OUT_OF_MEMORY
    assert first.failure is third.failure is None
    assert first.worker == third.worker


def test_arguments_without_a_reference_are_not_checked(
    pool: WorkerPool, libraries: dict[str, Path]
) -> None:
    tensors = tuple(TensorSpec(name, (96, 96), "float32") for name in "ABC")
    (found,) = measured(pool, KernelSubject(libraries["larger"], UnknownArguments(tensors)))
    assert found.reading is not None


def test_a_reference_is_computed_once(tmp_path: Path) -> None:
    file = tmp_path / "reference.npz"
    first = write_reference(PROGRAM, 1, file)
    before = file.stat().st_mtime_ns
    assert write_reference(PROGRAM, 1, file) == first
    assert file.stat().st_mtime_ns == before
    a, b = first.inputs()
    (expected,) = first.expected()
    np.testing.assert_allclose(expected, a @ b, rtol=1e-4, atol=1e-5)
    assert first.difference([a @ b], [expected]) is None
    assert first.difference([a @ b + 1], [expected]) is not None


@pytest.mark.parametrize("dtype", ["float32", "int8", "int32"])
def test_memory_for_kernels_is_aligned_and_spoilt(dtype: str) -> None:
    """And where one array ends the next one begins, so that every process has the same layout."""
    inputs = [np.arange(15, dtype=dtype).reshape(3, 5), np.array(7, dtype)]
    arrays = placed(inputs, [TensorSpec("A", (3, 5), dtype), TensorSpec("B", (700_000,), dtype)])
    for array, given in zip(arrays, inputs, strict=False):
        np.testing.assert_array_equal(array, given)
    for array, shape in zip(arrays[2:], [(3, 5), (700_000,)], strict=True):
        assert array.shape == shape
        spoilt = np.isnan(array) if dtype == "float32" else array == np.iinfo(dtype).min
        assert spoilt.all()
    ends = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    assert all(begin % 64 == 0 for begin, _ in ends)
    assert all(0 < begin - end <= 2048 for (_, end), (begin, _) in pairwise(ends))
    assert ends[0][0] % (2 << 20) == 0
    assert placed([], []) == ()


def test_memory_for_kernels_is_of_huge_pages() -> None:
    if "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("the system has none")
    (array,) = placed([], [TensorSpec("A", (4 << 20,), "int8")])
    sizes = {}
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head, _, rest = line.partition(" ")
        if "-" in head and not head.endswith(":"):
            low, high = (int(end, 16) for end in head.split("-"))
        elif head == "AnonHugePages:" and low <= array.ctypes.data < high:
            sizes[low] = int(rest.split()[0])
    assert sum(sizes.values()) >= 4096


def test_counters_count_where_the_kernel_offers_them() -> None:
    """The clock of a task is counted everywhere; cycles only where the processor's counters are
    not hidden."""
    try:
        clock = Counters([(SOFTWARE, 1)])
    except OSError as error:
        pytest.skip(f"perf_event_open: {error}")
    with closing(clock):
        before = clock.read()
        assert sum(range(100_000))
        (spent,) = between(before, clock.read())
    assert spent is not None
    assert spent > 0
    hardware = open_counters()
    if hardware is not None:
        with closing(hardware):
            assert all(count >= 0 for count, *_ in hardware.read())
    assert between([(1, 10, 10)], [(5, 30, 20)]) == (None,)
    assert CYCLES[0] != SOFTWARE
