"""Tokens, scopes, login links, sessions: who gets in, and as far as what."""

from __future__ import annotations

import asyncio
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.app import create_app
from backend.auth import tokens
from backend.auth.scopes import Scope, expand
from backend.auth.secrets import SECRET_FILE, digester
from backend.auth.service import (
    create_login_link,
    create_token,
    list_tokens,
    log_in,
    revoke_token,
    token_is_valid,
)
from backend.db.tables import ApiToken, BrowserSession, LoginLink
from backend.settings import Settings

SAME_ORIGIN = {"Origin": "http://localhost"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def link_for(sessions: sessionmaker[Session], settings: Settings, *scopes: str) -> str:
    with sessions() as session, session.begin():
        link = create_login_link(session, settings, "http://localhost", scopes or ("admin",))
    return link.removeprefix("http://localhost")


# Tokens


def test_a_token_has_enough_randomness_and_a_checksum() -> None:
    made = {tokens.generate() for _ in range(200)}
    assert len(made) == 200
    for token in made:
        assert re.fullmatch(r"plait_[0-9A-Za-z]{32}_[0-9A-Za-z]{6}", token)
        assert tokens.is_well_formed(token)


@given(st.integers(0, 44), st.sampled_from(tokens.ALPHABET))
def test_a_token_with_any_one_character_changed_is_not_well_formed(at: int, other: str) -> None:
    token = "plait_" + "a1B2" * 8 + "_" + tokens._checksum("a1B2" * 8)
    changed = token[:at] + other + token[at + 1 :]
    assert tokens.is_well_formed(changed) == (changed == token)


@given(st.text())
def test_no_text_breaks_the_check(text: str) -> None:
    assert not tokens.is_well_formed(text)


def test_what_scopes_imply() -> None:
    assert expand([]) == set()
    assert expand(["read"]) == {Scope.READ}
    assert expand(["write"]) == {Scope.READ, Scope.WRITE}
    assert expand(["upload"]) == {Scope.UPLOAD}
    assert expand(["upload:trusted"]) == {Scope.UPLOAD, Scope.UPLOAD_TRUSTED}
    assert expand(["read", "upload"]) == {Scope.READ, Scope.UPLOAD}
    assert expand(["admin"]) == set(Scope)


OPERATIONS: dict[tuple[str, str], set[str]] = {
    ("GET", "/api/v1/uploads"): {"read", "write"},
    ("GET", f"/api/v1/uploads/{UUID(int=1)}"): {"read", "write"},
    ("DELETE", f"/api/v1/uploads/{UUID(int=1)}"): {"write"},
    ("POST", "/api/v1/uploads?filename=x.onnx"): {"upload", "upload:trusted"},
    ("POST", "/api/v1/uploads?filename=x.pt2"): {"upload:trusted"},
    ("GET", "/api/v1/models/zoo"): {"read", "write"},
    ("GET", f"/api/v1/models/upload:{UUID(int=1)}"): {"read", "write"},
    ("GET", f"/api/v1/models/upload:{UUID(int=1)}/graph"): {"read", "write"},
    ("GET", f"/api/v1/models/upload:{UUID(int=1)}/inspections"): {"read", "write"},
    ("POST", f"/api/v1/models/upload:{UUID(int=1)}/inspections"): {"write"},
    ("GET", "/api/v1/jobs"): {"read", "write"},
    ("POST", "/api/v1/jobs"): {"write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}"): {"read", "write"},
    ("POST", f"/api/v1/jobs/{UUID(int=1)}/cancel"): {"write"},
    ("POST", f"/api/v1/jobs/{UUID(int=1)}/retry"): {"write"},
    ("POST", f"/api/v1/jobs/{UUID(int=1)}/resume"): {"write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/results"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/results/{UUID(int=2)}/schedule"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/results/{UUID(int=2)}/trace"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/artifacts"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/artifacts/{UUID(int=2)}/download"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/tuning"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/tuning/rounds"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/tuning/trials"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/tuning/kernels"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/tuning/kernels/{UUID(int=2)}/download"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/figures/latency"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/events"): {"read", "write"},
    ("GET", f"/api/v1/jobs/{UUID(int=1)}/events/stream"): {"read", "write"},
    ("GET", "/api/v1/devices"): {"read", "write"},
    ("GET", "/api/v1/profiles"): {"read", "write"},
    ("POST", "/api/v1/profiles"): {"upload:trusted"},
    ("GET", "/api/v1/profiles/summary"): {"read", "write"},
    ("GET", "/api/v1/tokens"): set(),
    ("POST", "/api/v1/tokens"): set(),
    ("DELETE", f"/api/v1/tokens/{UUID(int=1)}"): set(),
    ("GET", "/api/v1/session"): {"read", "write", "upload", "upload:trusted"},
    ("GET", "/api/v1/metrics"): {"read", "write"},
}


def test_the_matrix_below_misses_no_operation(app: FastAPI) -> None:
    listed = {
        (method, re.sub(r"(upload:)?[0-9a-f-]{36}", "{}", path.partition("?")[0]))
        for method, path in OPERATIONS
    }
    document = app.openapi()
    documented = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path).replace("figures/{}", "figures/latency"))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if operation.get("security")
    }
    streams_without_end = {("GET", "/api/v1/events/stream")}
    logging_out = {("DELETE", "/api/v1/session")}
    assert documented - streams_without_end - logging_out == listed


@pytest.mark.parametrize("scope", [scope.value for scope in Scope])
async def test_each_scope_reaches_exactly_its_operations(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings, scope: str
) -> None:
    with sessions() as session, session.begin():
        session.add(rows.device())
        token = create_token(session, settings, name="test", scopes=[scope])
    for (method, path), enough in OPERATIONS.items():
        answer = await anonymous.request(method, path, headers=bearer(token))
        allowed = scope in enough or scope == "admin"
        assert (answer.status_code != 403) == allowed, (method, path, answer.text)
        assert answer.status_code != 401
        if not allowed:
            assert "needs the scope" in answer.json()["detail"]


async def test_nobody_gets_anything_without_a_token(anonymous: httpx.AsyncClient) -> None:
    for method, path in OPERATIONS:
        answer = await anonymous.request(method, path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "presented",
    ["", "x", "plait_", tokens.generate(), tokens.generate()[:-1] + "é"],
    ids=["empty", "short", "prefix", "unknown", "not-ascii"],
)
async def test_an_unknown_token_is_refused(anonymous: httpx.AsyncClient, presented: str) -> None:
    headers = {"Authorization": f"Bearer {presented}".encode()}
    assert (await anonymous.get("/api/v1/jobs", headers=headers)).status_code == 401


async def test_a_revoked_or_expired_token_is_refused(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    with sessions() as session, session.begin():
        revoked = create_token(session, settings, name="revoked", scopes=["read"])
        revoke_token(session, list_tokens(session)[0].id)
        expired = create_token(
            session, settings, name="expired", scopes=["read"], expires_in_days=1
        )
    assert (await anonymous.get("/api/v1/jobs", headers=bearer(expired))).status_code == 200
    with sessions() as session, session.begin():
        past = datetime.now(UTC) - timedelta(seconds=1)
        session.execute(update(ApiToken).where(ApiToken.name == "expired").values(expires_at=past))
        assert not token_is_valid(session, settings, expired)
        assert not token_is_valid(session, settings, revoked)
        assert not token_is_valid(session, settings, "nonsense")
    for token in (revoked, expired):
        assert (await anonymous.get("/api/v1/jobs", headers=bearer(token))).status_code == 401


async def test_the_last_use_is_noted_but_not_for_every_request(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    def last_used() -> datetime | None:
        with sessions() as session:
            return list_tokens(session)[0].last_used_at

    with sessions() as session, session.begin():
        token = create_token(session, settings, name="test", scopes=["read"])
    assert last_used() is None
    await anonymous.get("/api/v1/jobs", headers=bearer(token))
    first = last_used()
    assert first is not None
    await anonymous.get("/api/v1/jobs", headers=bearer(token))
    assert last_used() == first
    with sessions() as session, session.begin():
        session.execute(update(ApiToken).values(last_used_at=first - timedelta(minutes=2)))
    await anonymous.get("/api/v1/jobs", headers=bearer(token))
    assert last_used() > first


async def test_tokens_are_made_listed_and_revoked(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    wanted = {"name": " ci ", "scopes": ["write", "read", "write"], "expires_in_days": 7}
    created = await client.post("/api/v1/tokens", json=wanted)
    assert created.status_code == 201, created.text
    made = created.json()
    assert made["name"] == "ci"
    assert made["scopes"] == ["read", "write"]
    assert made["hint"] == made["token"].split("_")[1][-4:]
    assert (await client.get("/api/v1/jobs", headers=bearer(made["token"]))).status_code == 200

    listed = (await client.get("/api/v1/tokens")).json()
    assert [entry["name"] for entry in listed] == ["ci", "test"]
    assert all("token" not in entry for entry in listed)
    with sessions() as session:
        for row in session.scalars(select(ApiToken)):
            assert made["token"].encode() not in row.digest

    assert (await client.delete(f"/api/v1/tokens/{made['id']}")).status_code == 204
    assert (await client.delete(f"/api/v1/tokens/{made['id']}")).status_code == 204
    assert (await client.get("/api/v1/jobs", headers=bearer(made["token"]))).status_code == 401
    assert (await client.get("/api/v1/tokens")).json()[0]["revoked_at"]
    assert (await client.delete(f"/api/v1/tokens/{uuid4()}")).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "", "scopes": ["read"]}, "name"),
        ({"name": "  ", "scopes": ["read"]}, "name"),
        ({"name": "a", "scopes": []}, "scopes"),
        ({"name": "a", "scopes": ["read", "everything"]}, "scopes.1"),
        ({"name": "a", "scopes": ["read"], "expires_in_days": 0}, "expires_in_days"),
        ({"name": "a", "scopes": ["read"], "expire": 1}, "expire"),
    ],
)
async def test_a_wrong_field_of_a_token_is_named(
    client: httpx.AsyncClient, body: dict[str, object], field: str
) -> None:
    answer = await client.post("/api/v1/tokens", json=body)
    assert answer.status_code == 422
    assert [entry["field"] for entry in answer.json()["errors"]] == [field]


# Sessions


async def test_a_login_link_becomes_a_session_that_can_be_ended(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    answer = await anonymous.get(link_for(sessions, settings))
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("plait_session=")
    for attribute in ("HttpOnly", "Path=/", "SameSite=strict", "Max-Age="):
        assert attribute in cookie
    assert "Secure" not in cookie

    session = (await anonymous.get("/api/v1/session")).json()
    assert session["authenticated_by"] == "session"
    assert set(session["scopes"]) == {scope.value for scope in Scope}

    assert (await anonymous.delete("/api/v1/session", headers=SAME_ORIGIN)).status_code == 204
    assert (await anonymous.get("/api/v1/session")).status_code == 401
    anonymous.cookies.set("plait_session", cookie.partition("=")[2].partition(";")[0])
    assert (await anonymous.get("/api/v1/session")).status_code == 401  # ended, not just forgotten


async def test_a_login_link_works_once(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    link = link_for(sessions, settings)
    assert (await anonymous.get(link)).status_code == 303
    assert (await anonymous.get(link)).status_code == 303  # the same browser, reloading
    anonymous.cookies.clear()
    again = await anonymous.get(link)
    assert again.status_code == 401
    assert "plait login" in again.text
    assert "set-cookie" not in again.headers
    assert (await anonymous.get("/login")).status_code == 401
    assert (await anonymous.get("/login?code=x")).status_code == 401


def test_of_many_who_spend_a_link_at_once_one_gets_in(
    sessions: sessionmaker[Session], settings: Settings
) -> None:
    code = link_for(sessions, settings).partition("code=")[2]
    digest = digester(settings)

    def spend(_: int) -> str | None:
        with sessions() as session, session.begin():
            return log_in(session, settings, digest, code)

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(spend, range(8)))
    assert sum(secret is not None for secret in got) == 1


async def test_links_and_sessions_expire(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    link = link_for(sessions, settings)
    with sessions() as session, session.begin():
        session.execute(update(LoginLink).values(expires_at=past))
    assert (await anonymous.get(link)).status_code == 401
    assert (await anonymous.get(link_for(sessions, settings))).status_code == 303
    with sessions() as session, session.begin():
        session.execute(update(BrowserSession).values(expires_at=past))
    assert (await anonymous.get("/api/v1/session")).status_code == 401
    link_for(sessions, settings)  # which also clears what has expired
    with sessions() as session:
        assert session.scalars(select(BrowserSession)).all() == []
        assert len(session.scalars(select(LoginLink)).all()) == 1


async def test_a_session_has_the_scopes_of_its_link(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    await anonymous.get(link_for(sessions, settings, "read"))
    assert (await anonymous.get("/api/v1/jobs")).status_code == 200
    refused = await anonymous.post("/api/v1/jobs", json={}, headers=SAME_ORIGIN)
    assert refused.status_code == 403
    assert "'write'" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Origin": "http://localhost"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://elsewhere.example"}, True),
        ({}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://localhost:8080"}, False),
        ({"Origin": "http://localhost.evil.example"}, False),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
    ],
)
async def test_a_write_with_a_session_must_come_from_our_own_pages(
    anonymous: httpx.AsyncClient,
    sessions: sessionmaker[Session],
    settings: Settings,
    headers: dict[str, str],
    allowed: bool,
) -> None:
    await anonymous.get(link_for(sessions, settings))
    wanted = {"name": "made by a page", "scopes": ["read"]}
    answer = await anonymous.post("/api/v1/tokens", json=wanted, headers=headers)
    assert answer.status_code == (201 if allowed else 403)
    with sessions() as session:
        assert len(list_tokens(session)) == allowed
    assert (await anonymous.get("/api/v1/tokens", headers=headers)).status_code == 200


async def test_a_token_needs_no_origin(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    with sessions() as session, session.begin():
        token = create_token(session, settings, name="test", scopes=["admin"])
    headers = {**bearer(token), "Origin": "http://evil.example"}
    wanted = {"name": "ci", "scopes": ["read"]}
    assert (await anonymous.post("/api/v1/tokens", json=wanted, headers=headers)).status_code == 201


async def test_a_token_counts_before_a_session(
    anonymous: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    await anonymous.get(link_for(sessions, settings))
    with sessions() as session, session.begin():
        token = create_token(session, settings, name="test", scopes=["read"])
    seen = (await anonymous.get("/api/v1/session", headers=bearer(token))).json()
    assert seen == {"scopes": ["read"], "authenticated_by": "token"}
    wrong = bearer(tokens.generate())
    assert (await anonymous.get("/api/v1/session", headers=wrong)).status_code == 401


async def test_over_https_the_cookie_is_bound_to_the_host(
    settings: Settings, sessions: sessionmaker[Session]
) -> None:
    shared = Settings(
        **{
            **settings.model_dump(),
            "mode": "server",
            "secure_cookies": True,
            "secret_key": SecretStr("k" * 32),
            "allowed_hosts": ("plait.example",),
        }
    )
    app = create_app(shared)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="https://plait.example") as client,
    ):
        answer = await client.get(link_for(sessions, shared))
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-plait_session=")
        assert "Secure" in cookie
        assert "max-age" in answer.headers["strict-transport-security"]
        assert (await client.get("/api/v1/session")).status_code == 200


# The key


def test_the_local_key_is_made_once_and_private(settings: Settings) -> None:
    def make(_: int) -> bytes:
        return digester(settings)("secret")

    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(make, range(16)))
    assert len(digests) == 1
    path = settings.home / SECRET_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in settings.home.iterdir()] == [SECRET_FILE]


def test_another_key_knows_none_of_the_tokens(
    settings: Settings, sessions: sessionmaker[Session]
) -> None:
    other = settings.model_copy(update={"secret_key": SecretStr("another key, long enough, yes")})
    with sessions() as session, session.begin():
        token = create_token(session, settings, name="test", scopes=["read"])
        assert token_is_valid(session, settings, token)
        assert not token_is_valid(session, other, token)


def test_a_damaged_key_is_an_error_and_not_a_weak_key(settings: Settings) -> None:
    settings.home.mkdir()
    (settings.home / SECRET_FILE).write_text("short")
    with pytest.raises(ValueError, match="damaged"):
        digester(settings)


async def test_requests_at_once_do_not_disturb_each_other(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.get("/api/v1/jobs") for _ in range(40)))
    assert {answer.status_code for answer in answers} == {200}
