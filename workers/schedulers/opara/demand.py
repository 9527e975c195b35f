"""What a Unit requires of the device: as the paper has it, and what its kernels really occupy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.hardware.occupancy import Block, occupancy


def of_a_block(kernels: Sequence[Kernel]) -> tuple[int, int, int]:
    """Shared memory in bytes, registers and threads of one block (Section 3.2).

    The paper does not say how to compare the three; tuples compare in the order in which Section
    3.2 names them. It takes an operator for one kernel: of several, which run one after another,
    this is the most that any needs of each. (0, 0, 0) for a Unit without blocks.
    """
    return (
        max((kernel.shared_memory_bytes or 0 for kernel in kernels), default=0),
        max((_registers(kernel) for kernel in kernels), default=0),
        max((_threads(kernel) for kernel in kernels), default=0),
    )


class Waves:
    """Of a GPU: how much of it a kernel's grid occupies."""

    def __init__(self, gpu: GpuFacts) -> None:
        self._gpu = gpu
        self._at_once: dict[Block, int] = {}

    def of(self, kernels: Sequence[Kernel]) -> float:
        """Waves of a Unit's kernels, weighted by how long they take. A grid of one wave fills every
        SM with as many blocks as threads, registers, shared memory and block slots allow; more
        than one wave takes as many turns. Copies and fills of memory occupy no SM.
        """
        total = math.fsum(kernel.duration_ms for kernel in kernels)
        if not total:
            return max(map(self._waves, kernels), default=0.0)
        return math.fsum(self._waves(k) * k.duration_ms for k in kernels) / total

    def _waves(self, kernel: Kernel) -> float:
        if kernel.grid is None or kernel.block is None:
            return 0.0
        block = Block(
            _threads(kernel), kernel.registers_per_thread or 0, kernel.shared_memory_bytes or 0
        )
        if block not in self._at_once:
            fitting = occupancy(self._gpu, block).blocks_per_sm
            # One that ran although by these facts none fits had an SM to itself.
            self._at_once[block] = max(fitting, 1) * self._gpu.sm_count
        return math.prod(kernel.grid) / self._at_once[block]


def _threads(kernel: Kernel) -> int:
    return math.prod(kernel.block) if kernel.block is not None else 0


def _registers(kernel: Kernel) -> int:
    return _threads(kernel) * (kernel.registers_per_thread or 0)
