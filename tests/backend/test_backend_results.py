"""Results, schedules, artifacts, devices and the zoo over REST."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy.orm import Session, sessionmaker
from support import archives, rows

from backend.db.tables import Artifact, JobResult, Timeline
from backend.devices.service import silence_allowed
from backend.settings import Settings
from backend.storage import Storage

SCHEDULE = {"format": "plait.schedule", "stages": [{"groups": [["conv1", "relu"], ["conv2"]]}]}


@pytest.fixture
def job(sessions: sessionmaker[Session]) -> UUID:
    made = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(made)
        session.flush()
        for size, name, latency in ((4, "ios", 30.0), (1, "greedy", 12.0), (1, "ios", 9.0)):
            session.add(
                JobResult(
                    id=uuid4(),
                    job_id=made.id,
                    batch_size=size,
                    scheduler=name,
                    latency_ms=latency,
                    low_ms=latency - 1,
                    high_ms=latency + 1,
                    samples=50,
                    simulated=False,
                    verified=True,
                    max_abs_error=0.0,
                    winner=name == "ios",
                    schedule={**SCHEDULE, "scheduler": name},
                    search={"states": 7},
                )
            )
    return made.id


async def test_results_come_by_batch_size_fastest_first(
    client: httpx.AsyncClient, job: UUID
) -> None:
    results = (await client.get(f"/api/v1/jobs/{job}/results")).json()
    assert [(r["batch_size"], r["scheduler"]) for r in results] == [
        (1, "ios"),
        (1, "greedy"),
        (4, "ios"),
    ]
    assert results[0]["search"] == {"states": 7}
    assert "schedule" not in results[0]


async def test_a_schedule_is_had_by_its_result(client: httpx.AsyncClient, job: UUID) -> None:
    [first, *_] = (await client.get(f"/api/v1/jobs/{job}/results")).json()
    answer = await client.get(f"/api/v1/jobs/{job}/results/{first['id']}/schedule")
    assert answer.json() == {**SCHEDULE, "scheduler": "ios"}
    elsewhere = await client.get(f"/api/v1/jobs/{uuid4()}/results/{first['id']}/schedule")
    assert elsewhere.status_code == 404
    assert (await client.get(f"/api/v1/jobs/{job}/results/{uuid4()}/schedule")).status_code == 404


@pytest.fixture
def ranked(sessions: sessionmaker[Session]) -> UUID:
    """A job whose schedule holds the first place although an alternative took less time."""
    made = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(made)
        session.flush()
        contenders = (
            rows.result(made.id, scheduler="torch.compile", kind="alternative", latency_ms=8.9),
            rows.result(made.id, scheduler="sequential", latency_ms=12.0),
            rows.result(made.id, scheduler="ios", latency_ms=9.0),
        )
        for contender, place in zip(contenders, (2, 3, 1), strict=True):
            contender.place, contender.winner = place, contender.scheduler == "ios"
            session.add(contender)
            session.flush()
            session.add(Timeline(result_id=contender.id, spans=[]))
    return made.id


async def test_results_come_by_place_where_they_have_one(
    client: httpx.AsyncClient, ranked: UUID
) -> None:
    results = (await client.get(f"/api/v1/jobs/{ranked}/results")).json()
    assert [(r["place"], r["scheduler"], r["kind"]) for r in results] == [
        (1, "ios", "schedule"),
        (2, "torch.compile", "alternative"),
        (3, "sequential", "schedule"),
    ]


@pytest.mark.parametrize("what", ["schedule", "trace"])
async def test_an_alternative_has_neither_a_schedule_nor_a_trace(
    client: httpx.AsyncClient, ranked: UUID, what: str
) -> None:
    results = (await client.get(f"/api/v1/jobs/{ranked}/results")).json()
    codes = {}
    for result in results:
        answer = await client.get(f"/api/v1/jobs/{ranked}/results/{result['id']}/{what}")
        codes[result["scheduler"]] = answer.status_code
        if result["kind"] == "alternative":
            assert "torch.compile is an alternative to schedules" in answer.json()["detail"]
    assert codes == {"ios": 200, "torch.compile": 404, "sequential": 200}


async def test_an_artifact_is_downloaded_whole(
    client: httpx.AsyncClient,
    app: FastAPI,
    sessions: sessionmaker[Session],
    job: UUID,
    tmp_path: rows.Any,
) -> None:
    data = archives.archive({"schedule.json": b"{}", "weights": bytes(3 << 20)})
    digest = hashlib.sha256(data).hexdigest()
    path = tmp_path / "artifact.zip"
    path.write_bytes(data)
    storage: Storage = app.state.services.storage
    storage.put(path, "artifacts/1.zip")
    artifact = Artifact(
        id=uuid4(),
        job_id=job,
        batch_size=1,
        filename='squeeze "net" é.zip',
        storage_key="artifacts/1.zip",
        size_bytes=len(data),
        sha256=digest,
    )
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(artifact)
    [listed] = (await client.get(f"/api/v1/jobs/{job}/artifacts")).json()
    assert (listed["id"], listed["sha256"]) == (str(artifact.id), digest)
    url = f"/api/v1/jobs/{job}/artifacts/{artifact.id}/download"
    answer = await client.get(url)
    assert answer.content == data
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-length"] == str(len(data))
    assert answer.headers["content-disposition"].endswith("squeeze%20%22net%22%20%C3%A9.zip")
    assert answer.headers["etag"] == f'"{digest}"'

    storage.delete("artifacts/1.zip")
    gone = await client.get(url)
    assert gone.status_code == 404
    assert "no longer in storage" in gone.json()["detail"]
    assert (await client.get(f"/api/v1/jobs/{job}/artifacts/{uuid4()}/download")).status_code == 404


@pytest.mark.parametrize("what", ["results", "artifacts"])
async def test_a_job_that_is_not_there_has_none(client: httpx.AsyncClient, what: str) -> None:
    assert (await client.get(f"/api/v1/jobs/{uuid4()}/{what}")).status_code == 404


async def test_devices_are_online_while_their_worker_makes_progress(
    client: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    silent = datetime.now(UTC) - silence_allowed(settings) - timedelta(seconds=1)
    with sessions() as session, session.begin():
        session.add(rows.device("cpu"))
        session.add(rows.device("cuda:0", kind="cuda", last_progress_at=silent))
    listed = (await client.get("/api/v1/devices")).json()
    assert [(d["name"], d["online"]) for d in listed] == [("cpu", True), ("cuda:0", False)]
    assert listed[0]["capabilities"] == rows.CAPABILITIES
    assert listed[0]["facts"] == {"parallelism": 2}


async def test_the_zoo_is_what_any_device_offers(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    assert (await client.get("/api/v1/models/zoo")).json() == []
    with sessions() as session, session.begin():
        session.add(rows.device("cpu"))
        session.add(rows.device("sim:v100", capabilities={"zoo": ["squeezenet", "nasnet"]}))
    assert (await client.get("/api/v1/models/zoo")).json() == [
        {"name": "inception_v3", "source": "zoo:inception_v3", "devices": ["cpu"]},
        {"name": "nasnet", "source": "zoo:nasnet", "devices": ["sim:v100"]},
        {"name": "squeezenet", "source": "zoo:squeezenet", "devices": ["cpu", "sim:v100"]},
    ]
