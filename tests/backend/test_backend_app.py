"""The process as a whole: what it imports, and what its OpenAPI document promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from fastapi import FastAPI

from backend.app import create_app
from backend.openapi import FRONTEND_FILE, document
from backend.settings import Settings

FOREIGN = ("torch", "numpy", "workers", "celery", "networkx", "plotly", "alembic", "pandas")


@pytest.fixture(scope="module")
def described() -> FastAPI:
    return create_app(Settings(database_url="postgresql://", redis_url="redis://"))


def test_the_api_imports_nothing_heavy() -> None:
    script = (
        "import sys; from backend.app import create_app; from backend.server import create_server\n"
        "from backend.settings import Settings\n"
        "create_server(Settings(database_url='postgresql://', redis_url='redis://'))\n"
        f"print([name for name in {FOREIGN!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_figures_need_neither_numpy_nor_pandas() -> None:
    script = (
        "import sys; from backend.figures.latency import latency\n"
        "from backend.figures.schemas import Theme\n"
        "latency([], [], Theme.LIGHT).to_plotly_json()\n"
        "print('numpy' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_the_frontends_document_is_up_to_date(described: FastAPI) -> None:
    assert orjson.loads(FRONTEND_FILE.read_bytes()) == document(described), (
        "run `python -m backend.openapi` and commit frontend/openapi.json"
    )


def test_operations_have_readable_names_of_their_own(described: FastAPI) -> None:
    operations = [
        operation for path in document(described)["paths"].values() for operation in path.values()
    ]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    for operation in operations:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation["operationId"])
        assert len(operation["tags"]) == 1
        assert operation["description"]


def test_every_error_is_described_as_a_problem(described: FastAPI) -> None:
    api = document(described)
    assert "HTTPValidationError" not in api["components"]["schemas"]
    for path, operations in api["paths"].items():
        for operation in operations.values():
            errors = {s: r for s, r in operation["responses"].items() if s >= "400"}
            if operation.get("security"):
                assert {"401", "403"} <= set(errors), path
            for status, response in errors.items():
                if (path, status) == ("/api/v1/healthz", "503"):
                    continue  # the health itself
                assert list(response["content"]) == ["application/problem+json"], (path, status)


def test_what_streams_carry_is_described_too(described: FastAPI) -> None:
    schemas = document(described)["components"]["schemas"]
    for name in ("StateEvent", "SearchEvent", "RoundEvent", "ResultEvent", "LogEvent"):
        assert name in schemas
    assert "job_id" in schemas["JobEventRead"]["properties"]


def test_a_stale_description_of_the_api_fails_its_check(tmp_path: Path) -> None:
    """And is left as it is; one that was just written passes."""
    target = tmp_path / "openapi.json"
    command = [sys.executable, "-m", "backend.openapi", str(target)]
    subprocess.run(command, check=True)
    assert subprocess.run([*command, "--check"], check=False).returncode == 0
    target.write_text("{}\n")
    stale = subprocess.run([*command, "--check"], check=False, capture_output=True, text=True)
    assert stale.returncode == 1
    assert "is stale" in stale.stderr
    assert target.read_text() == "{}\n"
