"""TF32: products of float32 numbers that are rounded to ten bits of mantissa first.

PyTorch lets cuDNN's convolutions use it unless told otherwise, and so does the device, which
changes no switch: what it is compared with, the user's own model, runs so, too. Timing includes it.
Verification does not: a wrong Plan must not hide behind rounding that is a hundred times coarser
than float32's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_precision() -> Iterator[None]:
    """Inside, float32 operators of all threads compute in float32; afterwards as before.

    What was captured in a CUDA Graph stays as it was captured. Where torch refuses to tell the
    switches, because they were set by their newer names, nothing is changed.
    """
    cudnn = torch.backends.cudnn
    try:
        before = cudnn.allow_tf32, torch.get_float32_matmul_precision()
    except RuntimeError:
        yield
        return
    cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])
