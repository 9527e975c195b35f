"""Models for the commands that open them here: where they come from and what may open them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from backend.settings import Settings

if TYPE_CHECKING:
    from workers.graph.importers.sandbox import SandboxLimits
    from workers.graph.importers.source import ModelSource


def model_source(model: str, model_format: str | None, workdir: Path) -> tuple[str, ModelSource]:
    """The name of ``zoo:NAME``, or of a file in ``model_format``, and what an importer takes; a
    file is copied to ``workdir``, the one directory that the sandbox sees."""
    from workers.graph.importers.source import ModelFile, ZooModel  # noqa: PLC0415

    if model_format is None:
        name = model.removeprefix("zoo:")
        return name, ZooModel(name)
    path = Path(model)
    copy = workdir / f"model.{model_format}"
    shutil.copyfile(path, copy)
    return path.name, ModelFile(copy, model_format)


def sandbox_limits(settings: Settings) -> SandboxLimits:
    """What an import may use, and what it may not see."""
    from workers.graph.importers.sandbox import SandboxLimits  # noqa: PLC0415

    return SandboxLimits(
        memory_bytes=settings.import_memory_bytes,
        seconds=settings.import_seconds,
        hidden=(settings.home,),
    )
