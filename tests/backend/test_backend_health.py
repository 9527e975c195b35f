"""Health and metrics: what they say when a part is gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy.orm import Session, sessionmaker
from support import rows
from support.services import libpq_url, serving

from backend.jobs.states import JobState
from backend.settings import Settings
from migrations import HEAD


def health(settings: Settings) -> tuple[int, dict[str, rows.Any]]:
    with serving(settings) as url:
        answer = httpx.get(f"{url}/healthz")
        assert answer.json() == httpx.get(f"{url}/api/v1/healthz").json() | {
            "checks": answer.json()["checks"]
        }
        return answer.status_code, answer.json()


def oks(body: dict[str, rows.Any]) -> dict[str, bool]:
    return {name: check["ok"] for name, check in body["checks"].items()}


def test_all_is_well_with_a_worker(settings: Settings, sessions: sessionmaker[Session]) -> None:
    progress = datetime.now(UTC)
    with sessions() as session, session.begin():
        session.add(rows.device("slow", last_progress_at=progress - timedelta(days=1)))
        session.add(rows.device("cpu", last_progress_at=progress))
    status, body = health(settings)
    assert (status, body["status"]) == (200, "ok")
    assert all(oks(body).values())
    assert datetime.fromisoformat(body["last_worker_progress_at"]) == progress


@pytest.mark.parametrize("seen", [None, timedelta(hours=1)])
def test_without_a_working_worker_the_service_is_degraded(
    settings: Settings, sessions: sessionmaker[Session], seen: timedelta | None
) -> None:
    if seen is not None:
        with sessions() as session, session.begin():
            session.add(rows.device(last_progress_at=datetime.now(UTC) - seen))
    status, body = health(settings)
    assert (status, body["status"]) == (200, "degraded")
    assert not oks(body)["worker"]
    assert ("ever" in body["checks"]["worker"]["detail"]) == (seen is None)


def test_without_redis_the_service_is_degraded(
    settings: Settings, sessions: sessionmaker[Session]
) -> None:
    with sessions() as session, session.begin():
        session.add(rows.device())
    gone = settings.model_copy(update={"redis_url": SecretStr("redis://127.0.0.1:1")})
    status, body = health(gone)
    assert (status, body["status"]) == (200, "degraded")
    assert oks(body) == {"database": True, "redis": False, "migrations": True, "worker": True}


def test_without_the_database_the_service_is_unavailable(settings: Settings) -> None:
    gone = settings.model_copy(
        update={"database_url": SecretStr("postgresql://nobody@127.0.0.1:1/plait")}
    )
    status, body = health(gone)
    assert (status, body["status"]) == (503, "unavailable")
    assert not oks(body)["database"]
    assert "nobody" not in str(body)


@pytest.mark.parametrize(
    ("change", "undo", "said"),
    [
        (
            "UPDATE alembic_version SET version_num = '0000'",
            f"UPDATE alembic_version SET version_num = '{HEAD}'",
            f"at 0000, this version needs {HEAD}",
        ),
        (
            "ALTER TABLE alembic_version RENAME TO away",
            "ALTER TABLE away RENAME TO alembic_version",
            "no tables",
        ),
    ],
)
def test_at_another_migration_level_the_service_is_unavailable(
    settings: Settings, change: str, undo: str, said: str
) -> None:
    url = libpq_url(settings.database_url.get_secret_value())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change)
        try:
            status, body = health(settings)
        finally:
            connection.execute(undo)
    assert (status, body["status"]) == (503, "unavailable")
    assert said in body["checks"]["migrations"]["detail"]


async def test_metrics_count_requests_by_operation_and_jobs_by_state(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    with sessions() as session, session.begin():
        session.add_all([rows.job(), rows.job(), rows.job(state="failed")])
    for _ in range(3):
        await client.get("/api/v1/jobs/00000000-0000-0000-0000-000000000001")
    await client.get("/somewhere/else")
    text = (await client.get("/metrics")).text
    assert 'plait_http_requests_total{operation="get_job",status="404"} 3.0' in text
    assert 'plait_http_request_seconds_count{operation="get_job"} 3.0' in text
    assert 'operation="other"' in text
    assert "/somewhere" not in text
    assert 'plait_jobs{state="queued"} 2.0' in text
    assert 'plait_jobs{state="failed"} 1.0' in text
    for state in JobState:
        assert f'plait_jobs{{state="{state}"}}' in text
    assert "process_resident_memory_bytes" in text
