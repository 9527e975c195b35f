"""What can be imported, and why an import fails. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FAILURE_KINDS = frozenset(
    {
        "malformed",
        "unsupported_operator",
        "unsupported_input",
        "unsupported_batch",
        "too_large",
        "timeout",
        "out_of_memory",
        "crashed",
    }
)


@dataclass(frozen=True, slots=True)
class ZooModel:
    """A model that ships with Plait, by its name in ``workers.zoo``."""

    name: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that somebody uploaded; ``format`` is a key of ``catalog.FORMATS``."""

    path: Path
    format: str


ModelSource = ZooModel | ModelFile


class ImportFailure(Exception):  # noqa: N818  # an outcome that a user reads, not a defect
    """A model that could not be imported.

    ``kind`` is one of FAILURE_KINDS, ``detail`` a sentence that says what was wrong and what to
    do, ``operator`` the ATen operator that was to blame, if one was.
    """

    def __init__(self, kind: str, detail: str, operator: str | None = None) -> None:
        if kind not in FAILURE_KINDS:
            raise ValueError(f"no such kind of import failure: {kind!r}")
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.operator = operator
