"""What the engine knows of one kernel launch: its blocks, what each takes and what each does."""

from __future__ import annotations

from dataclasses import dataclass

from workers.hardware.gpu import GpuFacts
from workers.hardware.occupancy import Block, BlockShare, occupancy, share_of

_LEAST_S = 1e-9  # what a block without any work takes: about a clock


@dataclass(frozen=True, slots=True)
class BlockWork:
    """What one thread block does.

    ``compute_s`` is how long it would take the whole arithmetic throughput of an SM, and
    ``compute_share`` the most of that throughput that one block alone can use: few warps do not
    hide the latency of their instructions. ``dram_bytes`` always come from or go to DRAM;
    ``reused_bytes`` were written by an earlier kernel and may still be in L2. ``l2_bytes`` is all
    traffic between SM and L2, ``bytes_per_s`` the most that one block alone can move: its
    requests in flight over the latency of one (Little's law). ``latency_s`` passes in each block
    whatever else runs: its launch, first loads and last stores.
    """

    compute_s: float = 0.0
    compute_share: float = 1.0
    dram_bytes: float = 0.0
    reused_bytes: float = 0.0
    l2_bytes: float = 0.0
    bytes_per_s: float = float("inf")
    latency_s: float = 0.0

    @property
    def alone_s(self) -> float:
        """How long the block takes with an SM and the whole memory to itself."""
        busy = max(self.compute_s / self.compute_share, self.l2_bytes / self.bytes_per_s)
        return max(self.latency_s + busy, _LEAST_S)


@dataclass(frozen=True, slots=True)
class SimKernel:
    """``grid`` blocks of the same work. ``working_set`` bytes compete for L2 while it runs;
    ``fit`` blocks of it alone fit on an SM. ``recorded_ms`` is set for a recorded kernel."""

    name: str
    grid: int
    block: Block
    work: BlockWork
    share: BlockShare
    fit: int
    warps: int
    working_set: float = 0.0
    shape: tuple[tuple[int, int, int], tuple[int, int, int]] | None = None
    recorded_ms: float | None = None


def sim_kernel(
    gpu: GpuFacts,
    name: str,
    grid: int,
    block: Block,
    work: BlockWork,
    working_set: float = 0.0,
) -> SimKernel:
    """The kernel with what follows from its block on ``gpu``. Raises ValueError if it has no blocks
    or not even one fits on an SM."""
    if grid < 1:
        raise ValueError(f"kernel {name!r} has {grid} blocks; it needs one or more")
    found = occupancy(gpu, block)
    if found.blocks_per_sm < 1:
        raise ValueError(
            f"a block of kernel {name!r} ({block.threads} threads, {block.registers_per_thread}"
            f" registers each, {block.shared_memory_bytes} bytes of shared memory) does not fit on"
            f" an SM of {gpu.name}: too many {found.limited_by}"
        )
    return SimKernel(
        name=name,
        grid=grid,
        block=block,
        work=work,
        share=share_of(gpu, block),
        fit=found.blocks_per_sm,
        warps=found.warps_per_block,
        working_set=working_set,
    )
