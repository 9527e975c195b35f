"""Errors as RFC 9457 problems: what was wrong, with what field, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field

MEDIA_TYPE = "application/problem+json"


class FieldError(BaseModel):
    """One field that was wrong. ``field`` is a dotted path such as ``schedulers.1``."""

    field: str
    message: str


class Problem(BaseModel):
    """The body of every error response (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []
    state: str | None = Field(default=None, description="the job's state, where that is the reason")


class ProblemError(Exception):
    """An error that carries its status code; the edge turns it into a Problem."""

    status: HTTPStatus

    def __init__(
        self,
        detail: str,
        *,
        errors: tuple[FieldError, ...] = (),
        state: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail, self.errors, self.state = detail, errors, state
        self.headers = dict(headers or {})

    @property
    def problem(self) -> Problem:
        return Problem(
            title=self.status.phrase,
            status=self.status.value,
            detail=self.detail,
            errors=list(self.errors),
            state=self.state,
        )


class InternalError(ProblemError):
    status = HTTPStatus.INTERNAL_SERVER_ERROR


class BadRequestError(ProblemError):
    status = HTTPStatus.BAD_REQUEST


class UnauthorizedError(ProblemError):
    """Nobody is logged in, or not with something that is valid."""

    status = HTTPStatus.UNAUTHORIZED

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class ForbiddenError(ProblemError):
    status = HTTPStatus.FORBIDDEN


class NotFoundError(ProblemError):
    status = HTTPStatus.NOT_FOUND


class ConflictError(ProblemError):
    status = HTTPStatus.CONFLICT


class TooLargeError(ProblemError):
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnsupportedMediaTypeError(ProblemError):
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class InsufficientStorageError(ProblemError):
    status = HTTPStatus.INSUFFICIENT_STORAGE


class UnavailableError(ProblemError):
    status = HTTPStatus.SERVICE_UNAVAILABLE


class InvalidFieldsError(ProblemError):
    """Well-formed input with wrong values; names every field that is wrong."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY

    def __init__(self, *errors: tuple[str, str]) -> None:
        fields = tuple(FieldError(field=field, message=message) for field, message in errors)
        super().__init__(
            "; ".join(f"{error.field}: {error.message}" for error in fields), errors=fields
        )


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of an operation that may answer with these problems."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }
