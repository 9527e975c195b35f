"""Turning every exception into a problem, so that no other kind of error body exists."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from backend.problems import (
    MEDIA_TYPE,
    BadRequestError,
    FieldError,
    Problem,
    ProblemError,
    UnavailableError,
)

logger = logging.getLogger(__name__)


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The problem as a response; members that do not apply are left out."""
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, problem.status, headers=headers, media_type=MEDIA_TYPE)


def add_problem_handlers(app: FastAPI) -> None:
    app.exception_handler(ProblemError)(_problem)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(ClientDisconnect)(_disconnected)
    for kind in (OperationalError, InterfaceError, PoolTimeoutError):
        app.exception_handler(kind)(_no_database)


async def _problem(_: Request, error: ProblemError) -> Response:
    return problem_response(error.problem, error.headers)


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    fields = [
        FieldError(field=_field(entry["loc"]), message=entry["msg"]) for entry in error.errors()
    ]
    detail = "; ".join(f"{entry.field}: {entry.message}" for entry in fields)
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    return problem_response(
        Problem(title=status.phrase, status=status, detail=detail, errors=fields)
    )


def _field(location: tuple[int | str, ...]) -> str:
    """``("body", "schedulers", 1)`` is ``schedulers.1``; a body that is no JSON is ``body``."""
    if len(location) > 1 and location[0] == "body" and isinstance(location[1], int):
        return "body"  # the position of a syntax error
    return ".".join(map(str, location[1:])) or str(location[0])


async def _http(request: Request, error: HTTPException) -> Response:
    if isinstance(error.__cause__, ProblemError):  # FastAPI wraps what reading a body raises
        return await _problem(request, error.__cause__)
    status = HTTPStatus(error.status_code)
    detail = error.detail
    if detail == status.phrase:
        detail = f"{request.method} {request.url.path}: {status.description or status.phrase}"
    return problem_response(
        Problem(title=status.phrase, status=status, detail=detail), error.headers
    )


async def _disconnected(_: Request, __: ClientDisconnect) -> Response:
    return problem_response(BadRequestError("the client left before the body was whole").problem)


async def _no_database(_: Request, error: Exception) -> Response:
    logger.error("the database failed a request", exc_info=error)
    problem = UnavailableError("the database does not answer; try again in a moment").problem
    return problem_response(problem, {"Retry-After": "2"})
