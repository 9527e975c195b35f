"""Models over REST: their graphs' facts, and the inspections that make them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.db.tables import Device, Job, ModelGraph, Upload
from backend.jobs.schemas import JobSpec, Purpose
from backend.jobs.states import JobAction, JobState
from backend.models.schemas import GraphFacts

ZOO = "/api/v1/models/zoo:squeezenet"
COUNTED = {"states": 3, "transitions": 5, "schedules": "4", "stages": 3}
TENSOR = {"name": "x", "shape": [1, 8], "dtype": "float32"}


@pytest.fixture(autouse=True)
def cpu(sessions: sessionmaker[Session]) -> None:
    store(sessions, rows.device())


def store(sessions: sessionmaker[Session], *objects: object) -> None:
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add_all(objects)


def upload(file_format: str = "pt2") -> Upload:
    return Upload(
        id=uuid4(),
        sha256=uuid4().hex,
        filename="net.pt2",
        format=file_format,
        size_bytes=1,
        storage_key="uploads/none",
    )


def facts(**settings: Any) -> dict[str, Any]:
    """Two Units side by side in one Block."""
    unit = {
        "kind": "linear",
        "operators": ["aten.linear.default"],
        "flops": 128,
        "bytes_moved": 64,
        "parameters": 8,
        "intensity": 2.0,
        "block": 0,
        "successors": [],
        "outputs": [TENSOR],
    }
    return {
        "version": 1,
        "name": "net",
        "graph_hash": "abc",
        "granularity": "fused",
        "batch_size": 1,
        "sequence_length": None,
        **settings,
        "pruning": {"r": None, "s": None},
        "inputs": [TENSOR],
        "outputs": [TENSOR],
        "totals": {
            "units": 2,
            "operators": 2,
            "edges": 0,
            "flops": 256,
            "bytes_moved": 128,
            "parameters": 16,
            "weight_bytes": 64,
            "width": 2,
            "critical_path": {"length": 1, "flops": 128, "units": [0]},
            "longest_path": {"length": 1, "flops": 128, "units": [0]},
        },
        "units": [{**unit, "name": "a"}, {**unit, "name": "b"}],
        "blocks": [
            {
                "first": 0,
                "n": 2,
                "width": 2,
                "equal_to": None,
                "signature": "s",
                "counts": {"paper": COUNTED, "published": {"too_wide": "it has 65 units"}},
            }
        ],
    }


def graph(model: str = "zoo:squeezenet", **fields: Any) -> ModelGraph:
    settings = {"granularity": "fused", "batch_size": 1, "sequence_length": None, **fields}
    upload_id = settings.pop("upload_id", None)
    return ModelGraph(
        model=model, upload_id=upload_id, graph_hash="abc", facts=facts(**settings), **settings
    )


def inspection(**fields: Any) -> Job:
    spec = JobSpec(model="zoo:squeezenet", purpose=Purpose.INSPECT, **fields.pop("spec", {}))
    return rows.job(spec=spec.model_dump(mode="json"), purpose="inspect", **fields)


# Facts


async def test_the_facts_of_a_graph_are_given_as_they_were_stored(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    store(sessions, graph(), graph(batch_size=8), graph(sequence_length=77))
    for query in ({}, {"batch_size": 8}, {"sequence_length": 77}):
        answer = await client.get(f"{ZOO}/graph", params=query)
        assert answer.status_code == 200, answer.text
        assert answer.json() == facts(**query)
        GraphFacts.model_validate(answer.json())


def test_a_graph_is_stored_once_even_without_a_sequence_length(
    sessions: sessionmaker[Session],
) -> None:
    store(sessions, graph())
    with pytest.raises(IntegrityError, match="uq_model_graph_choice"):
        store(sessions, graph())


async def test_what_was_not_inspected_says_how_to_have_it_inspected(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    store(sessions, graph())
    for query, said in (
        ({"batch_size": 2}, "batch 2 and granularity 'fused'"),
        ({"granularity": "operator"}, "granularity 'operator'"),
        ({"sequence_length": 5}, "batch 1, sequence length 5 and"),
    ):
        answer = await client.get(f"{ZOO}/graph", params=query)
        assert (answer.status_code, answer.headers["content-type"]) == (
            404,
            "application/problem+json",
        )
        assert said in answer.json()["detail"]
        assert "POST /api/v1/models/zoo:squeezenet/inspections" in answer.json()["detail"]


@pytest.mark.parametrize("part", ["", "/graph", "/inspections"])
async def test_an_unknown_model_is_no_model(client: httpx.AsyncClient, part: str) -> None:
    for model, said in (
        ("zoo:alexandria", "'alexandria'; GET /models/zoo"),
        (f"upload:{UUID(int=7)}", "no upload"),
        (f"upload:{'-' * 36}", "no upload"),
    ):
        answer = await client.get(f"/api/v1/models/{model}{part}")
        assert answer.status_code == 404
        assert said in answer.json()["detail"]
    for model in ("squeezenet", "zoo:../secrets", "upload:7"):
        assert (await client.get(f"/api/v1/models/{model}{part}")).status_code in {404, 422}


@pytest.mark.parametrize("query", ["batch_size=0", "batch_size=many", "granularity=atom"])
async def test_wrong_settings_are_named(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"{ZOO}/graph?{query}")
    assert answer.status_code == 422
    assert query.partition("=")[0] in answer.json()["errors"][0]["field"]


async def test_a_model_says_which_graphs_are_known(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    file = upload()
    source = f"upload:{file.id}"
    store(sessions, file)
    store(sessions, graph(source, upload_id=file.id), graph(source, batch_size=8), graph())
    model = (await client.get(f"/api/v1/models/{source}")).json()
    assert (model["name"], model["kind"], model["devices"]) == ("net.pt2", "upload", ["cpu"])
    assert sorted(entry["batch_size"] for entry in model["graphs"]) == [1, 8]
    known = (await client.get(ZOO)).json()
    assert (known["name"], known["kind"], len(known["graphs"])) == ("squeezenet", "zoo", 1)


async def test_a_graph_outlives_the_workers_that_made_it(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    store(sessions, graph())
    with sessions() as session, session.begin():
        session.delete(session.get_one(Device, "cpu"))
    assert (await client.get(f"{ZOO}/graph")).status_code == 200
    assert (await client.get(ZOO)).json()["devices"] == []


# Inspections


async def test_an_inspection_is_a_job_for_just_that_graph(client: httpx.AsyncClient) -> None:
    body = {"batch_size": 8, "granularity": "operator"}
    created = await client.post(f"{ZOO}/inspections", json=body)
    assert created.status_code == 201, created.text
    job = created.json()
    assert created.headers["location"] == f"/api/v1/jobs/{job['id']}"
    spec = job["spec"]
    assert (spec["purpose"], spec["model"]) == ("inspect", "zoo:squeezenet")
    assert (spec["batch_sizes"], spec["granularity"]) == ([8], "operator")
    assert (await client.get(f"/api/v1/jobs/{job['id']}")).json() == job
    listed = (await client.get(f"{ZOO}/inspections", params=body)).json()
    assert listed == [job]
    assert (await client.get(f"{ZOO}/inspections")).json() == []


async def test_asking_again_finds_the_inspection_on_its_way(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(
        *(client.post(f"{ZOO}/inspections", json={}) for _ in range(5)),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 200, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    other = await client.post(f"{ZOO}/inspections", json={"batch_size": 2})
    assert other.status_code == 201


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "cancelling"])
async def test_one_that_has_ended_is_not_on_its_way(
    client: httpx.AsyncClient, sessions: sessionmaker[Session], state: str
) -> None:
    ended = inspection(state=state, worker="one" if state == "cancelling" else None)
    if ended.worker:
        ended.lease_expires_at = datetime.now(UTC) + timedelta(seconds=30)
    store(sessions, ended)
    assert (await client.post(f"{ZOO}/inspections", json={})).status_code == 201


async def test_the_idlest_online_device_inspects_unless_one_is_named(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    gone = datetime.now(UTC) - timedelta(days=1)
    store(
        sessions,
        rows.device("asleep", last_progress_at=gone),
        rows.device("busy"),
        rows.device("idle"),
        rows.device("other", capabilities={**rows.CAPABILITIES, "zoo": []}),
        rows.job(device="busy"),
        rows.job(device="cpu"),
        rows.job(device="idle", state="succeeded"),
    )
    chosen = await client.post(f"{ZOO}/inspections", json={})
    assert chosen.json()["spec"]["device"] == "idle"
    named = await client.post(f"{ZOO}/inspections", json={"batch_size": 2, "device": "busy"})
    assert named.json()["spec"]["device"] == "busy"
    unable = await client.post(f"{ZOO}/inspections", json={"batch_size": 3, "device": "other"})
    assert (unable.status_code, unable.json()["errors"][0]["field"]) == (422, "model")


async def test_an_upload_that_no_device_reads_is_refused(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    file = upload("onnx")
    store(sessions, file)
    answer = await client.post(f"/api/v1/models/upload:{file.id}/inspections", json={})
    assert answer.status_code == 422
    assert "reads pt2, not onnx" in answer.json()["detail"]


async def test_an_inspection_needs_no_scheduler(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    bare = {**rows.CAPABILITIES, "schedulers": []}
    store(sessions, rows.device("bare", capabilities=bare))
    body = {"device": "bare"}
    assert (await client.post(f"{ZOO}/inspections", json=body)).status_code == 201
    tuning = {"model": "zoo:squeezenet", "device": "bare"}
    assert (await client.post("/api/v1/jobs", json=tuning)).status_code == 422


async def test_reading_is_enough_to_look_and_not_enough_to_inspect(
    anonymous: httpx.AsyncClient, token: rows.Any
) -> None:
    assert (await anonymous.get(f"{ZOO}/graph")).status_code == 401
    anonymous.headers["Authorization"] = f"Bearer {token('read')}"
    assert (await anonymous.get(ZOO)).status_code == 200
    assert (await anonymous.post(f"{ZOO}/inspections", json={})).status_code == 403


async def test_lists_show_tuning_unless_asked_for_inspections(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    store(sessions, rows.job(), inspection(), inspection())
    for purpose, count in (("", 1), ("?purpose=tune", 1), ("?purpose=inspect", 2)):
        found = (await client.get(f"/api/v1/jobs{purpose}")).json()["items"]
        assert len(found) == count
    assert len((await client.get("/api/v1/jobs?purpose=all")).json()["items"]) == 3
    assert (await client.get("/api/v1/jobs?purpose=play")).status_code == 422


async def test_deleting_an_upload_deletes_its_graphs_and_finished_inspections(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    file = upload()
    identifier = file.id
    store(sessions, file)
    source = f"upload:{identifier}"
    running = inspection(upload_id=identifier)
    running_id = running.id
    store(sessions, graph(source, upload_id=identifier), running)
    refused = await client.delete(f"/api/v1/uploads/{identifier}")
    assert (refused.status_code, str(running_id) in refused.json()["detail"]) == (409, True)
    rows.Writer(sessions, "redis://127.0.0.1:1", running_id).change(
        JobAction.CLAIM, JobAction.SUCCEED, announce=False
    )
    with sessions() as session:
        assert session.get_one(Job, running_id).state == JobState.SUCCEEDED
    assert (await client.delete(f"/api/v1/uploads/{identifier}")).status_code == 204
    with sessions() as session:
        assert session.scalars(select(Job.id)).all() == []
        assert session.scalars(select(ModelGraph.id)).all() == []
