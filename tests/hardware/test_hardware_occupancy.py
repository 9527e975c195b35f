"""Occupancy and resident warps, by hand and against NVIDIA's calculator."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.devices.base import DeviceError
from workers.devices.recorded import RecordedProfile, append_profiles, read_profiles
from workers.devices.sim.specs import SPECS
from workers.hardware.kernel import Kernel
from workers.hardware.occupancy import Block, occupancy, resident_warps, share_of

V100 = SPECS["v100"].gpu
HEADER = Path("/usr/local/cuda/include/cuda_occupancy.h")


def test_what_limits_is_named() -> None:
    found = [
        occupancy(V100, block)
        for block in (
            Block(1024, 16),  # 2048 threads
            Block(256, 128),  # 65,536 registers / (8 warps of 4,096)
            Block(128, 32, 40_000),  # 98,304 bytes
            Block(32, 16),  # 32 blocks
        )
    ]
    assert [(o.blocks_per_sm, o.limited_by) for o in found] == [
        (2, "threads"),
        (2, "registers"),
        (2, "shared memory"),
        (32, "block slots"),
    ]
    assert [o.warps_per_sm for o in found] == [64, 16, 8, 32]


def test_what_a_block_takes_is_rounded_up() -> None:
    share = share_of(V100, Block(100, 33, 300))
    assert share.threads == 128
    assert share.registers == 4 * 1280  # 33 · 32 = 1056 registers a warp, in units of 256
    assert share.shared_memory == 512
    assert share_of(SPECS["a100"].gpu, Block(32, 8, 300)).shared_memory == 1408  # 1024 reserved


def test_a_block_that_fits_nowhere() -> None:
    assert occupancy(V100, Block(1024, 255)).blocks_per_sm == 0
    assert occupancy(V100, Block(32, 8, 200_000)).blocks_per_sm == 0
    assert occupancy(V100, Block(2048, 8)).blocks_per_sm == 0  # 1024 threads are the most
    with pytest.raises(ValueError, match="0 threads"):
        occupancy(V100, Block(0))


@pytest.mark.skipif(
    not HEADER.exists() or shutil.which("g++") is None, reason="needs the CUDA toolkit and g++"
)
def test_as_nvidias_calculator_has_it(tmp_path: Path) -> None:
    blocks = [
        Block(threads, registers, shared)
        for threads in (32, 64, 96, 128, 160, 256, 416, 512, 1024)
        for registers in (8, 16, 33, 40, 64, 72, 127, 128, 168, 255)
        for shared in (0, 1, 1000, 8192, 17_000, 33_000, 49_152)
    ]
    (tmp_path / "check.cpp").write_text(_CALCULATOR)
    program = tmp_path / "check"
    subprocess.run(
        ["g++", "-I", str(HEADER.parent), "-o", str(program), str(tmp_path / "check.cpp")],
        check=True,
        timeout=120,
    )
    for spec in SPECS.values():
        gpu = spec.gpu
        reserved = 1024 if gpu.compute_capability >= (8, 0) else 0
        numbers = [
            *gpu.compute_capability, gpu.threads_per_sm, gpu.registers_per_block,
            gpu.registers_per_sm, gpu.shared_memory_per_block, gpu.shared_memory_per_sm, reserved,
        ]  # fmt: skip
        lines = [f"{b.threads} {b.registers_per_thread} {b.shared_memory_bytes}" for b in blocks]
        answer = subprocess.run(
            [str(program), *map(str, numbers)],
            input="\n".join(lines),
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        theirs = [int(line) for line in answer.stdout.split()]
        assert theirs == [occupancy(gpu, block).blocks_per_sm for block in blocks], gpu.name


_CALCULATOR = """
#include <cstdio>
#include <cstdlib>
#include <cuda_occupancy.h>
int main(int, char **v) {
  cudaOccDeviceProp device;
  device.computeMajor = atoi(v[1]); device.computeMinor = atoi(v[2]);
  device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = atoi(v[3]);
  device.regsPerBlock = atoi(v[4]); device.regsPerMultiprocessor = atoi(v[5]);
  device.warpSize = 32; device.sharedMemPerBlock = 49152; device.numSms = 1;
  device.sharedMemPerBlockOptin = atoi(v[6]); device.sharedMemPerMultiprocessor = atoi(v[7]);
  device.reservedSharedMemPerBlock = atoi(v[8]);
  int threads, registers; size_t shared;
  while (scanf("%d %d %zu", &threads, &registers, &shared) == 3) {
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = shared;
    kernel.maxDynamicSharedSizeBytes = 0; kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.numBlockBarriers = 1;
    cudaOccDeviceState state; state.cacheConfig = CACHE_PREFER_SHARED; state.carveoutConfig = 100;
    cudaOccResult result;
    cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(
        &result, &device, &kernel, &state, threads, 0);
    printf("%d\\n", error ? -1 : result.activeBlocksPerMultiprocessor);
  }
}
"""


def kernel(blocks: int, threads: int = 256, registers: int = 32) -> Kernel:
    return Kernel("u", "k", 1.0, (blocks, 1, 1), (threads, 1, 1), registers, 0)


def test_resident_warps_of_kernels_side_by_side() -> None:
    whole = V100.sm_count * 64
    found = resident_warps(
        V100, [(0.0, 2.0, kernel(10)), (1.0, 3.0, kernel(10_000)), (5.0, 6.0, kernel(1, 33))]
    )
    assert found == ((0.0, 80.0), (1.0, whole), (3.0, 0.0), (5.0, 2.0), (6.0, 0.0))


def test_what_has_no_grid_or_no_duration_holds_nothing() -> None:
    assert resident_warps(V100, [(0.0, 1.0, Kernel("u", "k", 1.0))]) == ()
    assert resident_warps(V100, [(1.0, 1.0, kernel(10))]) == ()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 20),
            st.integers(1, 9),
            st.integers(1, 3000),
            st.sampled_from([32, 128, 512, 1024]),
        ),
        max_size=8,
    )
)
def test_resident_warps_never_exceed_the_device(rows: list[tuple[int, int, int, int]]) -> None:
    found = resident_warps(
        V100,
        [(float(s), float(s + d), kernel(blocks, threads)) for s, d, blocks, threads in rows],
    )
    assert all(0 <= warps <= V100.sm_count * 64 for _, warps in found)
    assert [time for time, _ in found] == sorted({time for time, _ in found})
    assert all(a[1] != b[1] for a, b in pairwise(found))
    assert not found or found[-1][1] == 0


def profile(name: str, gpu: str = "Some GPU", key: str = "a" * 32) -> RecordedProfile:
    made = replace(kernel(4), unit="", name=name, duration_ms=0.25)
    return RecordedProfile(gpu, "aten", key, (made,), {"torch": "2.13.0"})


def test_profiles_come_back_as_they_were_recorded(tmp_path: Path) -> None:
    path = tmp_path / "kernels.jsonl"
    append_profiles(path, [profile("first"), profile("elsewhere", gpu="Other GPU")])
    before = read_profiles(path, "Some GPU", "aten")
    append_profiles(path, [profile("second"), profile("more", key="b" * 32)])
    after = read_profiles(path, "Some GPU", "aten")
    assert before.of("a" * 32, "conv1") == (
        replace(kernel(4), unit="conv1", name="first", duration_ms=0.25),
    )
    assert [k.name for k in after.of("a" * 32, "u") or ()] == ["second"]
    assert before.of("b" * 32, "u") is None
    assert before.digest != after.digest
    assert read_profiles(path, "Some GPU", "inductor").kernels == {}


@pytest.mark.parametrize("line", ["{", "{}", '{"format": "other", "version": 1}', "[]"])
def test_a_line_that_is_no_profile_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "kernels.jsonl"
    append_profiles(path, [profile("first")])
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DeviceError, match=f"line 2 of {path}"):
        read_profiles(path, "Some GPU", "aten")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="cannot be read"):
        read_profiles(tmp_path / "none.jsonl", "Some GPU", "aten")
