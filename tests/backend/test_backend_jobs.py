"""Jobs over REST: what is accepted, what is refused and why, and what a page holds."""

from __future__ import annotations

import httpx
import pytest
from sqlalchemy.orm import Session, sessionmaker
from support import rows


@pytest.fixture(autouse=True)
def cpu(sessions: sessionmaker[Session]) -> None:
    with sessions() as session, session.begin():
        session.add(rows.device())


async def test_a_job_is_created_with_defaults_and_read_back(client: httpx.AsyncClient) -> None:
    created = await client.post("/api/v1/jobs", json={"model": "zoo:squeezenet"})
    assert created.status_code == 201, created.text
    job = created.json()
    assert (job["state"], job["name"], job["model_name"]) == ("queued", "squeezenet", "squeezenet")
    assert job["spec"]["schedulers"] == ["sequential", "greedy", "ios"]
    assert created.headers["location"] == f"/api/v1/jobs/{job['id']}"
    assert (await client.get(f"/api/v1/jobs/{job['id']}")).json() == job
