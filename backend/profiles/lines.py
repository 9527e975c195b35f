"""Reading an import: every line is checked before the first one is stored."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from backend.problems import InvalidFieldsError
from backend.profiles.schemas import ProfileLine

MAX_LINE_BYTES = 1 << 17


def check_lines(path: Path) -> int:
    """How many measurements the file has. Raises InvalidFieldsError that names its first line that
    is none, and says why."""
    return sum(1 for _ in read_lines(path))


def batches(path: Path, size: int) -> Iterator[list[ProfileLine]]:
    """The file's measurements in batches. Raises what ``check_lines`` does."""
    lines = read_lines(path)
    while batch := list(islice(lines, size)):
        yield batch


def read_lines(path: Path) -> Iterator[ProfileLine]:
    """The file's measurements; empty lines are none, and are skipped."""
    number = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                words = f"is longer than {MAX_LINE_BYTES} bytes: this is no export of an index"
                raise InvalidFieldsError((f"line {number}", words))
            if line.strip():
                yield _parse(line, number)


def _parse(line: bytes, number: int) -> ProfileLine:
    try:
        return ProfileLine.model_validate_json(line)
    except ValidationError as error:
        raise InvalidFieldsError(
            *((f"line {number}", _words(entry["loc"], entry["msg"])) for entry in error.errors())
        ) from None


def _words(location: tuple[int | str, ...], message: str) -> str:
    field = ".".join(map(str, location))
    return f"{field}: {message}" if field else message
