"""What goes wrong on a GPU, in words that say what to do."""

from __future__ import annotations

import torch

from workers.devices.base import CancelledError, DeviceError


def unit_failure(unit: str, error: Exception) -> DeviceError:
    """What to raise for an error of a Unit's launch; the error is its cause."""
    if isinstance(error, CancelledError):
        return error
    failure = DeviceError(f"unit {unit!r} failed: {_reason(error)}")
    failure.__cause__ = error
    return failure


def run_failure(graph: str, error: Exception) -> DeviceError:
    """What to raise for an error that is no Unit's: of a copy, a capture's memory, a timer."""
    failure = DeviceError(f"the run of graph {graph!r} failed: {_reason(error)}")
    failure.__cause__ = error
    return failure


def broken_device(name: str, error: Exception) -> DeviceError:
    """What to raise once a kernel has gone astray: CUDA then fails every call of the process."""
    failure = DeviceError(
        f"{name} is unusable in this process: {_first_line(error)}; a kernel that ran before this"
        " did something illegal, and CUDA gives no way back: start a new process"
    )
    failure.__cause__ = error
    return failure


def reason_of(error: BaseException) -> str:
    """One line that says why."""
    return _first_line(error) if str(error) else type(error).__name__


def _reason(error: Exception) -> str:
    if isinstance(error, torch.OutOfMemoryError):
        return f"the GPU's memory is full ({_first_line(error)}); use a smaller batch"
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
