"""What holds for every request: problems, hosts, headers, ids, and the dashboard's files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from backend.app import create_app
from backend.middleware import MAX_BODY_BYTES, without_port
from backend.settings import Settings

PROBLEM = "application/problem+json"


def problem(response: httpx.Response, status: int) -> dict[str, object]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    body: dict[str, object] = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body["type"] == "about:blank"
    return body


def fields(body: dict[str, object]) -> list[str]:
    return [entry["field"] for entry in body["errors"]]


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api", "/api/v2/jobs", "/api/v1/jobs/"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_path_of_the_api_is_a_problem(
    anonymous: httpx.AsyncClient, method: str, path: str
) -> None:
    problem(await anonymous.request(method, path), 404)


async def test_a_wrong_method_is_a_problem(client: httpx.AsyncClient) -> None:
    body = problem(await client.put("/api/v1/jobs"), 405)
    assert "PUT /api/v1/jobs" in str(body["detail"])


async def test_a_malformed_id_names_its_field(client: httpx.AsyncClient) -> None:
    assert fields(problem(await client.get("/api/v1/jobs/seven"), 422)) == ["job_id"]


@pytest.mark.parametrize("body", [b"{", b"[1]", b'"x"', b""])
async def test_a_body_that_is_no_object_is_a_problem(
    client: httpx.AsyncClient, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/api/v1/jobs", content=body, headers=headers)
    assert fields(problem(answer, 422)) == ["body"]


async def test_a_body_that_is_no_text_is_a_problem(client: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json"}
    problem(await client.post("/api/v1/jobs", content=b"\xff", headers=headers), 400)


async def test_an_error_of_the_server_is_a_problem_with_its_request_id(
    app: FastAPI, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("the secret reason")

    app.add_api_route("/api/v1/broken", fail)
    answer = await client.get("/api/v1/broken")
    body = problem(answer, 500)
    assert answer.headers["x-request-id"] in str(body["detail"])
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] in caplog.text


async def test_without_a_database_the_answer_is_503(settings: Settings) -> None:
    gone = settings.model_copy(
        update={"database_url": type(settings.database_url)("postgresql://x@/y?host=/nowhere")}
    )
    app = create_app(gone)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            client.cookies.set("plait_session", "anything")
            answer = await client.get("/api/v1/jobs")
    problem(answer, 503)
    assert answer.headers["retry-after"]


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", True),
        ("localhost:8765", True),
        ("127.0.0.1:1", True),
        ("[::1]:8765", True),
        ("LocalHost:8765", True),
        ("evil.example", False),
        ("evil.example:8765", False),
        ("localhost.evil.example", False),
        ("localhost:8765.evil.example", False),
        ("", False),
    ],
)
async def test_only_known_hosts_are_answered(
    anonymous: httpx.AsyncClient, host: str, allowed: bool
) -> None:
    for path in ("/", "/api/v1/jobs", "/api/v1/healthz", "/login"):
        answer = await anonymous.get(path, headers={"Host": host})
        if allowed:
            assert answer.status_code != 400
        else:
            problem(answer, 400)


async def test_probes_ask_by_address(anonymous: httpx.AsyncClient) -> None:
    headers = {"Host": "10.1.2.3:8765"}
    assert (await anonymous.get("/healthz", headers=headers)).status_code == 200
    assert (await anonymous.get("/metrics", headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("a", "a"),
        ("a:1", "a"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]"),
        ("a:b", "a:b"),
        ("", ""),
        (":80", ""),
        ("::1", "::1"),
    ],
)
def test_a_port_is_taken_off_a_host(header: str, host: str) -> None:
    assert without_port(header) == host


@pytest.mark.parametrize("path", ["/", "/healthz", "/api/v1/jobs", "/api/v1/nothing"])
async def test_every_response_carries_the_security_headers(
    anonymous: httpx.AsyncClient, path: str
) -> None:
    headers = (await anonymous.get(path)).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "'unsafe-eval'" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "strict-transport-security" not in headers
    assert headers["cache-control"]


async def test_every_request_has_an_id_of_its_own(anonymous: httpx.AsyncClient) -> None:
    ids = {(await anonymous.get("/healthz")).headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


async def test_a_body_too_large_for_json_is_refused_unread(client: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1 << 16
            yield b" " * (1 << 16)

    body = problem(await client.post("/api/v1/jobs", content=endless()), 413)
    assert str(MAX_BODY_BYTES) in str(body["detail"])
    assert sent <= MAX_BODY_BYTES + (1 << 17)
    announced = await client.post("/api/v1/jobs", content=b" " * (MAX_BODY_BYTES + 1))
    problem(announced, 413)


@pytest.fixture
async def dashboard(settings: Settings, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    (tmp_path / "dist" / "assets").mkdir(parents=True)
    (tmp_path / "dist" / "index.html").write_text("<title>the page</title>")
    (tmp_path / "dist" / "assets" / "app-1a2b.js").write_text("1")
    (tmp_path / "secret.txt").write_text("nobody reads this")
    app = create_app(settings, tmp_path / "dist")
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield client


async def test_every_path_of_the_dashboard_is_its_one_page(dashboard: httpx.AsyncClient) -> None:
    for path in ("/", "/jobs", "/jobs/123/timeline", "/index.html", "/apiary"):
        answer = await dashboard.get(path)
        assert answer.status_code == 200
        assert "the page" in answer.text
        assert answer.headers["cache-control"] == "no-cache"


async def test_assets_are_kept_for_ever_and_missing_files_are_missing(
    dashboard: httpx.AsyncClient,
) -> None:
    found = await dashboard.get("/assets/app-1a2b.js")
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "javascript" in found.headers["content-type"]
    problem(await dashboard.get("/assets/app-gone.js"), 404)
    problem(await dashboard.get("/favicon.png"), 404)
    problem(await dashboard.post("/jobs"), 405)


@pytest.mark.parametrize(
    "path", ["/../secret.txt", "/%2e%2e/secret.txt", "/assets/../../secret.txt", "//etc/passwd"]
)
async def test_nothing_outside_the_dashboards_folder_is_served(
    dashboard: httpx.AsyncClient, path: str
) -> None:
    url = httpx.URL("http://localhost").copy_with(raw_path=path.encode())
    answer = await dashboard.get(url)
    assert "nobody reads this" not in answer.text
    assert "root:" not in answer.text


async def test_without_a_build_a_page_says_what_to_do(settings: Settings, tmp_path: Path) -> None:
    app = create_app(settings, tmp_path / "not-built")
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        answer = await client.get("/jobs")
    assert answer.status_code == 200
    assert "npm run build" in answer.text
