"""Building kernels in other processes: however one ends, the next is built."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import which

import pytest
from support.kernels import Misbuilt, Untuned, small_matmul, small_space

from workers.measure.measurement import Failure
from workers.tuning.kernels.build import BuildOrder
from workers.tuning.kernels.pool import BuildError, BuildPool, Built
from workers.tuning.kernels.source import Source, TracedSource
from workers.tuning.targets import KernelTarget, TargetError, named_target, target
from workers.tuning.tuners.catalog import open_tuner

TESTS = Path(__file__).parents[1]
PROGRAM = small_matmul()
LLVM = target({"kind": "llvm", "num-cores": 1})


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        yield


@pytest.fixture(scope="module")
def pool() -> Iterator[BuildPool]:
    with closing(BuildPool(1, memory_bytes=1000 << 20)) as made:
        yield made


def built(
    pool: BuildPool, folder: Path, *sources: Source, target: KernelTarget = LLVM
) -> list[Built]:
    orders = [
        BuildOrder(source, target, folder / f"{number}.so", keep_source=True)
        for number, source in enumerate(sources)
    ]
    return [future.result(60) for future in pool.build(orders)]


def test_a_library_has_its_sources_beside_it(pool: BuildPool, tmp_path: Path) -> None:
    (found,) = built(pool, tmp_path, Untuned(PROGRAM))
    assert found.library == tmp_path / "0.so"
    assert found.library.read_bytes()[:4] == b"\x7fELF"
    assert [path.name for path in found.sources] == ["0.tir.py", "0.ll"]
    assert "T.grid(16, 16, 16)" in found.sources[0].read_text()
    assert "define" in found.sources[1].read_text()
    assert 0 < found.build_s <= found.ended_s - found.started_s


@pytest.mark.skipif(which("nvcc") is None, reason="needs nvcc")
def test_a_cuda_kernel_is_compiled_without_a_gpu(pool: BuildPool, tmp_path: Path) -> None:
    cuda = named_target("cuda")
    (candidate,) = open_tuner("grid", small_space(PROGRAM, cuda)).propose(1)
    (found,) = built(pool, tmp_path, TracedSource(PROGRAM, candidate), target=cuda)
    assert found.failure is None
    assert [path.name for path in found.sources] == ["0.tir.py", "0.cu"]
    assert "threadIdx.x" in found.sources[1].read_text()
    assert (tmp_path / "0.0.cubin").read_bytes()[:4] == b"\x7fELF"


def test_each_failure_is_told_apart_and_the_next_candidate_built(
    pool: BuildPool, tmp_path: Path
) -> None:
    found = built(
        pool,
        tmp_path,
        Misbuilt(PROGRAM, "raise"),
        Misbuilt(PROGRAM, "memory"),
        Misbuilt(PROGRAM, "crash"),
        Untuned(PROGRAM),
        Misbuilt(PROGRAM, "hoard"),
    )
    assert [one.failure for one in found] == [
        Failure.COMPILE,
        Failure.OUT_OF_MEMORY,
        Failure.CRASH,
        None,
        Failure.OUT_OF_MEMORY,
    ]
    assert found[0].reason == "no such intrinsic"
    assert found[2].reason == "while building it, its process was ended by SIGSEGV"
    assert found[4].reason == "building it took more than 1000 MiB"


def test_a_full_disk_is_nobodys_failure(pool: BuildPool, tmp_path: Path) -> None:
    (future,) = pool.build([BuildOrder(Misbuilt(PROGRAM, "disk"), LLVM, tmp_path / "kernel.so")])
    with pytest.raises(BuildError, match="the disk is full"):
        future.result(60)
    (tmp_path / "full.so").symlink_to("/dev/full")
    (linked,) = pool.build([BuildOrder(Untuned(PROGRAM), LLVM, tmp_path / "full.so")])
    with pytest.raises(BuildError, match="the disk is full"):
        linked.result(60)
    assert built(pool, tmp_path, Untuned(PROGRAM))[0].failure is None


def test_a_pause_takes_no_time_from_what_is_built(tmp_path: Path) -> None:
    """Longer than a build may take. Nothing works meanwhile, and nobody is left stopped."""
    with closing(BuildPool(1, timeout_s=1.0)) as pool:
        built(pool, tmp_path, Untuned(PROGRAM))
        (child,) = pool._running.values()
        with pool.paused():
            futures = pool.build([BuildOrder(Untuned(PROGRAM), LLVM, tmp_path / "later.so")])
            time.sleep(1.3)
            assert _state(child.pid) == "T"
            assert not futures[0].done()
        assert futures[0].result(10).failure is None
        (hanging,) = pool.build(
            [BuildOrder(Misbuilt(PROGRAM, "hang"), LLVM, tmp_path / "never.so")]
        )
        found = hanging.result(10)
        assert found.failure is Failure.TIMEOUT
        assert found.reason == "building it took more than 1 s"
        assert _state(child.pid) in "ZX"


def test_what_is_paused_is_killed_with_who_paused_it(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from pathlib import Path\n"
        "from support.kernels import Misbuilt, small_matmul\n"
        "from workers.tuning.kernels.build import BuildOrder\n"
        "from workers.tuning.kernels.pool import BuildPool\n"
        "from workers.tuning.targets import target\n"
        "pool = BuildPool(1)\n"
        "order = BuildOrder(Misbuilt(small_matmul(), 'hang'), target({'kind': 'llvm'}),"
        f" Path({str(tmp_path)!r}, 'kernel.so'))\n"
        "pool.build([order])\n"
        "while not pool._running: time.sleep(0.01)\n"
        "with pool.paused():\n"
        "    print(next(iter(pool._running.values())).pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        builder = int(parent.stdout.readline())
        deadline = time.monotonic() + 10
        while _state(builder) != "T":
            assert time.monotonic() < deadline
        parent.send_signal(signal.SIGKILL)
    while _state(builder) not in "ZX":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_closing_kills_what_is_paused(tmp_path: Path) -> None:
    pool = BuildPool(1)
    (future,) = pool.build([BuildOrder(Untuned(PROGRAM), LLVM, tmp_path / "kernel.so")])
    while not pool._running:
        time.sleep(0.01)
    (child,) = pool._running.values()
    with pool.paused():
        pool.close()
    pool.close()
    assert _state(child.pid) in "ZX"
    with pytest.raises(BuildError, match="closed"):
        future.result(10)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BuildPool(0)
    with pytest.raises(TargetError, match="'vulkan', only for llvm and cuda"):
        named_target("vulkan")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"
