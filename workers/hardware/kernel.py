"""What a GPU runs: kernels, with what one block of each takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel that a Unit launches. On a CPU, one operator, without grid and the like."""

    unit: str
    name: str
    duration_ms: float
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers_per_thread: int | None = None
    shared_memory_bytes: int | None = None
