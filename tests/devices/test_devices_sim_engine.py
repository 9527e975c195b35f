"""The simulator's engine, by examples worked by hand and by what must hold of any of them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.devices.sim.engine import Job, SimRun, latency_s, simulate
from workers.devices.sim.kernel import BlockWork, SimKernel, sim_kernel
from workers.devices.sim.launch_path import LaunchPath
from workers.devices.sim.sharing import Memory
from workers.hardware.gpu import GpuFacts
from workers.hardware.occupancy import Block

# Four SMs, each with room for 8 warps, 4 blocks, 32 KiB of shared memory; memory of 100 bytes/s.
GPU = GpuFacts(
    name="small",
    compute_capability=(7, 0),
    sm_count=4,
    clock_mhz=1.0,
    fp32_tflops=1.0,
    bandwidth_gb_s=1.0,
    l2_bytes=1000,
    threads_per_sm=256,
    blocks_per_sm=4,
    registers_per_sm=65536,
    shared_memory_per_sm=32768,
    registers_per_block=65536,
    shared_memory_per_block=32768,
)
MEMORY = Memory(dram_bytes_per_s=100.0, l2_bytes_per_s=1e9, l2_bytes=1000.0)
FREE = LaunchPath(first=0.0, kernel=0.0, record=0.0, wait=0.0, follow=0.0, signal=0.0)
SLOW = LaunchPath(first=10.0, kernel=1.0, record=0.5, wait=0.25, follow=2.0, signal=3.0)


def kernel(
    grid: int,
    threads: int = 64,
    seconds: float = 1.0,
    share: float = 0.25,
    dram: float = 0.0,
    shared: int = 0,
    reused: float = 0.0,
    working_set: float = 0.0,
    registers: int = 16,
) -> SimKernel:
    """Blocks of 64 threads take ``seconds`` alone, and four of them keep an SM busy."""
    work = BlockWork(
        compute_s=seconds * share, compute_share=share, dram_bytes=dram, reused_bytes=reused
    )
    return sim_kernel(GPU, "k", grid, Block(threads, registers, shared), work, working_set)


def run(*jobs: Job, path: LaunchPath = FREE) -> SimRun:
    return simulate(GPU, MEMORY, path, jobs)


def alone(made: SimKernel, path: LaunchPath = FREE) -> float:
    return run(Job("a", 0, (made,)), path=path).latency_s


def test_one_kernel_takes_its_launch_and_its_waves() -> None:
    assert alone(kernel(1)) == pytest.approx(1)
    assert alone(kernel(16)) == pytest.approx(1)  # 4 SMs · 4 blocks
    assert alone(kernel(17)) == pytest.approx(2)
    assert alone(kernel(160)) == pytest.approx(10)
    assert alone(kernel(161)) == pytest.approx(11)
    assert alone(kernel(16), SLOW) == pytest.approx(10 + 1 + 1)


def test_blocks_of_a_busy_sm_share_it() -> None:
    """Two blocks that each could use the whole SM take twice as long."""
    assert alone(kernel(4, share=1.0)) == pytest.approx(1)
    assert alone(kernel(8, share=1.0)) == pytest.approx(2)
    assert alone(kernel(5, share=1.0)) == pytest.approx(2)


def test_two_kernels_that_fit_run_side_by_side() -> None:
    found = run(Job("a", 0, (kernel(8),)), Job("b", 1, (kernel(8),)))
    assert found.latency_s == pytest.approx(1)
    assert [job.waited for job in found.jobs] == [(), ()]
    assert found.warps == ((0.0, 32.0), (pytest.approx(1), 0.0))


def test_the_second_kernel_gets_what_the_first_leaves() -> None:
    """20 blocks of 1 s: 16 at once, then 4, beside which 12 of the second fit at once."""
    found = run(Job("a", 0, (kernel(20),)), Job("b", 1, (kernel(12),)))
    first, second = found.jobs
    assert (first.start_s, first.end_s) == (0, pytest.approx(2))
    assert (second.start_s, second.end_s) == (pytest.approx(1), pytest.approx(2))
    assert second.waited == (("blocks of unit 'a' before it", pytest.approx(1)),)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (kernel(4, threads=256), kernel(1), "threads"),
        (kernel(4, shared=32768), kernel(1, shared=16384), "shared memory"),
        (kernel(16, threads=32), kernel(1, threads=32), "block slots"),
    ],
)
def test_a_kernel_says_which_resource_it_waited_for(
    first: SimKernel, second: SimKernel, reason: str
) -> None:
    found = run(Job("a", 0, (first,)), Job("b", 1, (second,)))
    assert found.jobs[1].start_s == pytest.approx(1)
    assert found.jobs[1].waited == ((reason, pytest.approx(1)),)


def test_registers_are_waited_for() -> None:
    """4 warps of 8,192 registers: half of an SM's 65,536, in a GPU with room for more warps."""
    roomy = replace(GPU, threads_per_sm=2048, blocks_per_sm=32)
    work = BlockWork(compute_s=0.1, compute_share=0.1)
    many = sim_kernel(roomy, "many", 8, Block(128, 255), work)
    one = sim_kernel(roomy, "one", 1, Block(128, 255), work)
    assert many.fit == 2
    found = simulate(roomy, MEMORY, FREE, [Job("a", 0, (many,)), Job("b", 1, (one,))])
    assert found.jobs[1].waited == (("registers", pytest.approx(1)),)


def test_nothing_overtakes_the_first_in_the_queue() -> None:
    """The second fits nowhere until the first ends; the third would fit, but waits behind it."""
    found = run(
        Job("a", 0, (kernel(4, shared=32768),)),
        Job("b", 1, (kernel(1, shared=32768),)),
        Job("c", 2, (kernel(1),)),
    )
    assert [job.start_s for job in found.jobs] == pytest.approx([0, 1, 1])
    assert found.jobs[2].waited == (("blocks of unit 'b' before it", pytest.approx(1)),)


def test_memory_bound_kernels_interfere_and_unlike_ones_less() -> None:
    memory_bound = kernel(4, dram=25)  # 100 bytes/s alone: all there is
    compute_bound = kernel(4, dram=1)
    assert alone(memory_bound) == pytest.approx(1)
    both = run(Job("a", 0, (memory_bound,)), Job("b", 1, (memory_bound,))).latency_s
    unlike = run(Job("a", 0, (memory_bound,)), Job("b", 1, (compute_bound,))).latency_s
    assert both == pytest.approx(2)
    assert unlike == pytest.approx(1.04)
    # What asks for little is not slowed down.
    jobs = run(Job("a", 0, (memory_bound,)), Job("b", 1, (compute_bound,))).jobs
    assert jobs[1].end_s == pytest.approx(1)


def test_what_the_memory_holds_back_leaves_the_sm_to_others() -> None:
    """Of two blocks that could each use the whole SM, one is held to a tenth by memory."""
    starved = kernel(4, share=1.0, dram=250)
    hungry = kernel(4, share=1.0)
    found = run(Job("a", 0, (starved,)), Job("b", 1, (hungry,)))
    assert found.jobs[1].end_s == pytest.approx(1 / 0.9)
    assert found.jobs[0].end_s == pytest.approx(10)


def test_l2_is_shared_by_what_runs() -> None:
    """Each reads what still is in L2, but not beside the other: then half of it is gone."""
    reader = kernel(4, reused=50, working_set=1000)
    assert alone(reader) == pytest.approx(1)
    found = run(Job("a", 0, (reader,)), Job("b", 1, (reader,)))
    assert found.latency_s == pytest.approx(2)  # 400 bytes, half of them from DRAM


def test_dependencies_and_the_launch_path_are_told_apart() -> None:
    found = run(
        Job("a", 0, (kernel(16),), records=True),
        Job("b", 1, (kernel(16),), after=(0,)),
        Job("c", 0, (kernel(16), kernel(16))),
        path=SLOW,
    )
    a, b, c = found.jobs
    # Issued at 11, 11.5 recorded, b waits 0.25 and is issued at 12.75, c's kernels at 13.75, 14.75.
    assert (a.start_s, a.end_s) == (pytest.approx(11), pytest.approx(12))
    assert a.waited == (("launch", pytest.approx(11)),)
    assert b.start_s == pytest.approx(15)
    assert b.waited == (("event of unit 'a'", pytest.approx(12)), ("launch", pytest.approx(3)))
    assert c.free_s == a.end_s
    # Ready 2 after a, and still in the queue behind nothing: 14; b arrives when c has the SMs.
    assert c.start_s == pytest.approx(14)
    assert c.waited == (("launch", pytest.approx(2)),)
    assert c.kernels[1][0] == pytest.approx(17)


def test_a_unit_without_a_kernel_keeps_its_place() -> None:
    found = run(Job("a", 0, (kernel(16),)), Job("view", 0, ()), Job("c", 0, (kernel(16),)))
    assert found.jobs[1].start_s == found.jobs[1].end_s == pytest.approx(1)
    assert found.jobs[2].end_s == pytest.approx(2)


def test_a_unit_without_a_kernel_adds_no_gap() -> None:
    """Neither on a stream nor between streams: launches come as if it were not there."""
    first, last = kernel(16), kernel(16)
    path = replace(SLOW, first=0.0, kernel=0.0, record=0.0, wait=0.0)
    plain = run(Job("a", 0, (first,)), Job("c", 0, (last,)), path=path)
    viewed = run(Job("a", 0, (first,)), Job("view", 0, ()), Job("c", 0, (last,)), path=path)
    assert viewed.latency_s == plain.latency_s == pytest.approx(1 + 2 + 1)
    across = run(
        Job("a", 0, (first,)), Job("view", 1, (), after=(0,)), Job("c", 1, (last,)), path=path
    )
    assert across.latency_s == pytest.approx(1 + 3 + 1)
    assert across.jobs[1].waited == (
        ("event of unit 'a'", pytest.approx(1)),
        ("launch", pytest.approx(1)),
    )


def test_blocks_that_do_nothing_run_and_end() -> None:
    idle = sim_kernel(GPU, "idle", 100, Block(64, 16), BlockWork())
    assert 0 < alone(idle) < 1e-6
    with pytest.raises(ValueError, match="'none' has 0 blocks"):
        sim_kernel(GPU, "none", 0, Block(64, 16), BlockWork())


def test_no_more_blocks_of_a_kernel_are_resident_than_occupancy_allows() -> None:
    """2 warps of 40 registers: 1,280 for each warp; in each of four partitions of 16,384 are 12
    warps, 24 blocks on an SM, though the registers of all partitions would do for 25."""
    roomy = replace(GPU, threads_per_sm=2048, blocks_per_sm=32)
    work = BlockWork(compute_s=1e-9, latency_s=1.0)
    for grid in (24 * 4 + 1, 24 * 4 * 3 + 4, 24 * 4 + 40):
        made = sim_kernel(roomy, "k", grid, Block(64, 40), work)
        assert made.fit == 24
        found = simulate(roomy, MEMORY, FREE, [Job("a", 0, (made,))])
        assert max(warps for _, warps in found.warps) <= 24 * 2 * 4
        assert found.latency_s == pytest.approx(math.ceil(grid / (24 * 4)))


def test_no_jobs_take_no_time() -> None:
    assert run() == SimRun((), 0.0, ())


kernels = st.builds(
    kernel,
    registers=st.sampled_from([16, 40, 72]),
    grid=st.one_of(st.integers(1, 40), st.integers(100, 3000)),
    threads=st.sampled_from([32, 64, 128, 256]),
    seconds=st.floats(0.1, 3),
    share=st.sampled_from([0.1, 0.25, 0.5, 1.0]),
    dram=st.sampled_from([0.0, 1.0, 30.0]),
    shared=st.sampled_from([0, 8000, 20000]),
    reused=st.sampled_from([0.0, 10.0]),
    working_set=st.sampled_from([0.0, 600.0, 5000.0]),
)


@st.composite
def programs(draw: st.DrawFn) -> list[Job]:
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, 7))):
        after = tuple(other for other in range(number) if draw(st.integers(0, 3)) == 0)
        found = tuple(draw(st.lists(kernels, min_size=0 if number else 1, max_size=2)))
        jobs.append(Job(f"u{number}", draw(st.integers(0, 2)), found, after, draw(st.booleans())))
    return jobs


def critical_path(jobs: list[Job]) -> float:
    """No job starts before those on its stream and those that it waits for have ended, and none
    takes less than one block of each of its kernels alone."""
    ends: list[float] = []
    last: dict[int, int] = {}
    for number, job in enumerate(jobs):
        before = [ends[other] for other in job.after]
        if job.stream in last:
            before.append(ends[last[job.stream]])
        last[job.stream] = number
        ends.append(max(before, default=0.0) + sum(k.work.alone_s for k in job.kernels))
    return max(ends)


@settings(deadline=None, max_examples=300)
@given(programs(), st.sampled_from([FREE, SLOW]))
def test_no_bound_is_beaten(jobs: list[Job], path: LaunchPath) -> None:
    found = simulate(GPU, MEMORY, path, jobs)
    made = [made for job in jobs for made in job.kernels]
    work = sum(k.grid * k.work.compute_s for k in made) / GPU.sm_count
    moved = sum(k.grid * k.work.dram_bytes for k in made) / MEMORY.dram_bytes_per_s
    longest = max(critical_path(jobs), work, moved)
    assert found.latency_s >= longest * (1 - 1e-6)
    assert found.latency_s < math.inf
    # Every block is resident at least as long as it takes alone.
    held = sum(warps * (after - begin) for (begin, warps), (after, _) in pairwise(found.warps))
    assert held >= sum(k.grid * k.warps * k.work.alone_s for k in made) * (1 - 1e-6)
    most = GPU.sm_count * GPU.threads_per_sm // GPU.warp_size
    assert all(0 <= warps <= most for _, warps in found.warps)
    assert not found.warps or found.warps[-1][1] == 0


@settings(deadline=None, max_examples=200)
@given(programs(), st.sampled_from([FREE, SLOW]))
def test_order_is_kept_and_waits_add_up(jobs: list[Job], path: LaunchPath) -> None:
    found = simulate(GPU, MEMORY, path, jobs)
    last: dict[int, int] = {}
    for number, (job, ran) in enumerate(zip(jobs, found.jobs, strict=True)):
        free = found.jobs[last[job.stream]].end_s if job.stream in last else 0.0
        last[job.stream] = number
        assert ran.free_s == free
        assert ran.end_s >= ran.start_s >= free
        for other in job.after:
            assert ran.start_s >= found.jobs[other].end_s
        assert sum(seconds for _, seconds in ran.waited) == pytest.approx(
            ran.start_s - free, abs=1e-9
        )
        assert all(seconds > 0 and reason for reason, seconds in ran.waited)
        assert len(ran.kernels) == max(1, len(job.kernels))
    assert simulate(GPU, MEMORY, path, jobs) == found
    assert latency_s(GPU, MEMORY, path, jobs) == found.latency_s


@settings(deadline=None, max_examples=100)
@given(st.lists(kernels, min_size=1, max_size=6))
def test_one_stream_takes_the_sum_of_its_kernels(made: list[SimKernel]) -> None:
    jobs = [Job(f"u{number}", 0, (each,)) for number, each in enumerate(made)]
    total = sum(alone(each) for each in made)
    assert simulate(GPU, MEMORY, FREE, jobs).latency_s == pytest.approx(total)
    gaps = SLOW.follow * (len(made) - 1)
    found = simulate(GPU, MEMORY, SLOW, jobs).latency_s
    issue = SLOW.first + SLOW.kernel
    assert found >= (issue + total) * (1 - 1e-9)
    assert found <= issue + total + gaps + SLOW.kernel * len(made) + 1e-6


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 400), st.sampled_from([32, 64, 128]), st.sampled_from([0.1, 0.25, 1.0]))
def test_many_waves_at_once_are_as_many_one_by_one(grid: int, threads: int, share: float) -> None:
    """A kernel on an idle GPU takes full waves and a last one, however they were put together."""
    made = kernel(grid, threads, share=share)
    slots = made.fit * GPU.sm_count
    full, rest = divmod(grid, slots)
    expected = full * max(1.0, made.fit * share)
    if rest:
        expected += max(1.0, math.ceil(rest / GPU.sm_count) * share)
    assert alone(made) == pytest.approx(expected)
