"""Results that are no schedules: what the user could run the model with instead."""

from __future__ import annotations

from backend.db.tables import JobResult
from backend.problems import NotFoundError


def is_alternative(result: JobResult) -> bool:
    return result.kind == "alternative"


def require_schedule(result: JobResult) -> None:
    """Raises NotFoundError for an alternative, which has neither a schedule nor a timeline."""
    if is_alternative(result):
        raise NotFoundError(
            f"{result.scheduler} is an alternative to schedules: it runs no plan of ours, so it has"
            " neither a schedule nor a timeline; ask for those of a schedule"
        )
