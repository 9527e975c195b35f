"""What does not fit takes no part, and ends no job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from workers.devices.base import DeviceError
from workers.runner.workplace import BASELINE


@contextmanager
def enough_memory(contender: str) -> Iterator[None]:
    """Memory that cannot be had for a contender is a DeviceError, which leaves that one out. What
    does not fit the baseline fits nobody, and is raised as it is."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if contender == BASELINE or not _is_of_memory(error):
            raise
        raise DeviceError(
            "there is not enough memory for it; use a smaller batch, or allow more"
            " (PLAIT_JOB_MEMORY_BYTES)"
        ) from error


def _is_of_memory(error: MemoryError | RuntimeError) -> bool:
    """PyTorch's allocator for CPUs raises a plain RuntimeError."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)
