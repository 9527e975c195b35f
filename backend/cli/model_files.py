"""Model files on this machine, for commands that need no service."""

from __future__ import annotations

from pathlib import Path

from backend.cli.exits import ExitCode
from backend.cli.output import fail


def file_format(path: Path) -> str:
    """The format of a model file, by the rules for uploads. Ends the command if it has none."""
    from backend.problems import InvalidFieldsError  # noqa: PLC0415  # brings the service's along
    from backend.uploads.contents import check_bytes  # noqa: PLC0415
    from backend.uploads.formats import format_of  # noqa: PLC0415
    from workers.graph.importers.catalog import FORMATS  # noqa: PLC0415

    if not path.is_file():
        raise fail(f"no such file: {path} (for a built-in model, write zoo:NAME)", ExitCode.USAGE)
    try:
        found = format_of(path.name, FORMATS)
        check_bytes(path, found)
    except InvalidFieldsError as error:
        reasons = "\n".join(each.message for each in error.errors)
        raise fail(f"{path}: {reasons}", ExitCode.USAGE) from error
    return found
