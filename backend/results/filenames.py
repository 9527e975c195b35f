"""What the files of a result are called."""

from __future__ import annotations

import re
from pathlib import PurePath


def result_filename(model_name: str, batch_size: int, scheduler: str, suffix: str) -> str:
    """``NAME-batchN-SCHEDULER.SUFFIX``; of the model's name only what is safe in any file's."""
    stem = re.sub(r"[^\w-]+", "-", PurePath(model_name).stem).strip("-") or "model"
    return f"{stem}-batch{batch_size}-{scheduler}.{suffix}"
