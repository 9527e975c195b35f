"""The OpenAPI document, and ``python -m backend.openapi [--check]`` to write or check it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from backend.events.schemas import JobEventRead
from backend.jobs.schemas import (
    JobProgress,
    LogEvent,
    ResultEvent,
    RoundEvent,
    SearchEvent,
    StateEvent,
    TuningKernelEvent,
    TuningRoundEvent,
)
from backend.problems import Problem
from backend.profiles.schemas import ProfileLine

FRONTEND_FILE = Path(__file__).parents[1] / "frontend" / "openapi.json"

# Sent in problems, event streams and lines, which no operation's signature names.
EXTRA_SCHEMAS: tuple[type[BaseModel], ...] = (
    Problem,
    JobEventRead,
    StateEvent,
    JobProgress,
    SearchEvent,
    RoundEvent,
    ResultEvent,
    TuningRoundEvent,
    TuningKernelEvent,
    LogEvent,
    ProfileLine,
)


def operation_id(route: APIRoute) -> str:
    """An operation is called what its function is called: ``list_jobs``, ``create_job``."""
    return route.name


def document(app: FastAPI) -> dict[str, Any]:
    """The app's OpenAPI document."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            separate_input_output_schemas=app.separate_input_output_schemas,
        )
        _, extra = models_json_schema(
            [(model, "serialization") for model in EXTRA_SCHEMAS],
            ref_template="#/components/schemas/{model}",
        )
        components = schema.setdefault("components", {}).setdefault("schemas", {})
        for name, definition in extra["$defs"].items():
            components.setdefault(name, definition)
        for unused in ("HTTPValidationError", "ValidationError"):
            components.pop(unused, None)
        app.openapi_schema = schema
    return app.openapi_schema


def main() -> None:
    """Write the document where the frontend's types are generated from, or to the path given; with
    ``--check``, end with 1 if the one there is stale."""
    from backend.app import create_app  # noqa: PLC0415  # it imports this module
    from backend.settings import Settings  # noqa: PLC0415

    given = sys.argv[1:]
    check = "--check" in given
    target = next((Path(item) for item in given if item != "--check"), FRONTEND_FILE)
    app = create_app(Settings(database_url="postgresql://", redis_url="redis://"))
    text = json.dumps(document(app), indent=2, ensure_ascii=False) + "\n"
    if not check:
        target.write_text(text)
    elif target.read_text() != text:
        sys.exit(
            f"{target} is stale: run `python -m backend.openapi`, then `npm --prefix frontend run "
            "types`"
        )


if __name__ == "__main__":
    main()
