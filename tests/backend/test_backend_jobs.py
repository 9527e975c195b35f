"""Jobs over REST: what is accepted, what is refused and why, and what a page holds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import orjson
import pytest
from redis import Redis
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.db.tables import Job, JobEvent, Upload
from backend.devices.schemas import Capabilities
from backend.jobs.states import JobAction, JobState
from backend.settings import Settings

ZOO = {"model": "zoo:squeezenet"}


@pytest.fixture(autouse=True)
def cpu(sessions: sessionmaker[Session]) -> None:
    with sessions() as session, session.begin():
        session.add(rows.device())


def add(sessions: sessionmaker[Session], **fields: object) -> UUID:
    job = rows.job(**fields)
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(job)
    return job.id


async def test_a_job_is_created_with_defaults_and_read_back(client: httpx.AsyncClient) -> None:
    created = await client.post("/api/v1/jobs", json=ZOO)
    assert created.status_code == 201, created.text
    job = created.json()
    assert (job["state"], job["name"], job["model_name"]) == ("queued", "squeezenet", "squeezenet")
    assert job["spec"]["schedulers"] == ["auto"]
    assert job["spec"]["ios"] == {
        "max_units_per_group": 3,
        "max_groups_per_stage": 8,
        "strategies": "both",
        "threads": "searched",
        "mode": "guided",
        "gap": 0.0,
    }
    assert (job["spec"]["provider"], job["spec"]["allow_noise"]) == ("aten", False)
    assert (job["attempt"], job["event_seq"], job["summary"]) == (0, 1, None)
    assert created.headers["location"] == f"/api/v1/jobs/{job['id']}"
    assert (await client.get(f"/api/v1/jobs/{job['id']}")).json() == job


async def test_creating_tells_listeners_and_rings_the_device_after_the_commit(
    client: httpx.AsyncClient, settings: Settings, sessions: sessionmaker[Session]
) -> None:
    with Redis.from_url(settings.redis_url.get_secret_value()) as redis, redis.pubsub() as heard:
        heard.psubscribe("plait:events:*")
        heard.get_message(timeout=5)
        job = (await client.post("/api/v1/jobs", json=ZOO)).json()
        event = heard.get_message(timeout=5)
        assert event["channel"].decode() == f"plait:events:{job['id']}"
        body = orjson.loads(event["data"])
        assert (body["seq"], body["type"], body["data"]["state"]) == (1, "state", "queued")
        assert redis.llen("device.cpu") == 1
    with sessions() as session:
        stored = session.scalars(select(JobEvent)).one()
        assert (stored.seq, str(stored.job_id)) == (1, job["id"])


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"model": "squeezenet"}, "model", "match pattern"),
        ({"model": "zoo:alexnet"}, "model", "inception_v3, squeezenet"),
        ({"model": f"upload:{UUID(int=7)}"}, "model", "no upload"),
        ({"model": "upload:" + "-" * 36}, "model", "not an upload's id"),
        ({"device": "cuda:0"}, "device", "known: cpu"),
        ({"device": ""}, "device", "at least 1"),
        ({"schedulers": ["ios", "magic"]}, "schedulers.1", "known: auto, greedy, ios, sequential"),
        ({"schedulers": ["ios", "ios"]}, "schedulers", "once"),
        ({"schedulers": []}, "schedulers", "at least 1"),
        ({"batch_sizes": [1, 0]}, "batch_sizes.1", "greater than or equal to 1"),
        ({"batch_sizes": [1, 1]}, "batch_sizes", "once"),
        ({"batch_sizes": []}, "batch_sizes", "at least 1"),
        ({"batch_sizes": [10**9]}, "batch_sizes.0", "less than or equal"),
        ({"batch_sizes": ["many"]}, "batch_sizes.0", "integer"),
        ({"budget_seconds": 0}, "budget_seconds", "greater than 0"),
        ({"budget_seconds": float("1e9")}, "budget_seconds", "less than"),
        ({"ios": {"max_units_per_group": 0}}, "ios.max_units_per_group", "greater"),
        ({"ios": {"max_groups_per_stage": -1}}, "ios.max_groups_per_stage", "greater"),
        ({"ios": {"threads": "all"}}, "ios.threads", "'searched' or 'device'"),
        ({"provider": "inductor"}, "provider", "kernels of aten, not of inductor"),
        ({"provider": "magic"}, "provider", "'inductor' or 'onnxruntime'"),
        ({"allow_noise": "perhaps"}, "allow_noise", "boolean"),
        ({"scheduler": "ios"}, "scheduler", "not permitted"),
        ({"name": "x" * 201}, "name", "200"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_stored(
    client: httpx.AsyncClient,
    sessions: sessionmaker[Session],
    settings: Settings,
    changes: dict[str, object],
    field: str,
    said: str,
) -> None:
    answer = await client.post("/api/v1/jobs", json={**ZOO, **changes})
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    errors = answer.json()["errors"]
    assert [error["field"] for error in errors] == [field]
    assert said in errors[0]["message"]
    with sessions() as session:
        assert session.scalars(select(Job)).all() == []
    with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        assert redis.keys() == []


async def test_every_wrong_field_is_named_at_once(client: httpx.AsyncClient) -> None:
    wrong = {"model": "zoo:alexnet", "schedulers": ["a", "ios", "b"]}
    errors = (await client.post("/api/v1/jobs", json=wrong)).json()["errors"]
    assert [error["field"] for error in errors] == ["model", "schedulers.0", "schedulers.2"]


async def test_without_a_worker_the_problem_says_so(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    with sessions() as session, session.begin():
        session.delete(session.get_one(rows.Device, "cpu"))
    detail = (await client.post("/api/v1/jobs", json=ZOO)).json()["detail"]
    assert "has a worker been started?" in detail


async def test_a_job_on_an_upload_takes_its_name_and_protects_it(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    upload = Upload(
        id=uuid4(), sha256="s", filename="net.pt2", format="pt2", size_bytes=1, storage_key="k"
    )
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(upload)
    created = await client.post("/api/v1/jobs", json={"model": f"upload:{upload.id}"})
    assert created.json()["model_name"] == "net.pt2"
    refused = await client.delete(f"/api/v1/uploads/{upload.id}")
    assert refused.status_code == 409
    assert created.json()["id"] in refused.json()["detail"]


async def test_a_device_that_cannot_read_the_upload_is_refused(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    upload = Upload(
        id=uuid4(), sha256="s", filename="net.onnx", format="onnx", size_bytes=1, storage_key="k"
    )
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(upload)
    answer = await client.post("/api/v1/jobs", json={"model": f"upload:{upload.id}"})
    assert "reads pt2, not onnx" in answer.json()["errors"][0]["message"]


# Idempotency


async def test_the_same_key_gives_the_same_job(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "build-7"}
    answers = await asyncio.gather(
        *(client.post("/api/v1/jobs", json=ZOO, headers=headers) for _ in range(5))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 200, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    other = await client.post("/api/v1/jobs", json=ZOO, headers={"Idempotency-Key": "build-8"})
    assert other.status_code == 201
    changed = {**ZOO, "batch_sizes": [4]}
    refused = await client.post("/api/v1/jobs", json=changed, headers=headers)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "Idempotency-Key"


async def test_a_key_is_ones_own(client: httpx.AsyncClient, token: rows.Any) -> None:
    headers = {"Idempotency-Key": "build-7"}
    mine = await client.post("/api/v1/jobs", json=ZOO, headers=headers)
    headers["Authorization"] = f"Bearer {token('write')}"
    theirs = await client.post("/api/v1/jobs", json=ZOO, headers=headers)
    assert (mine.status_code, theirs.status_code) == (201, 201)


# Pages


async def test_pages_hold_every_job_once_even_while_jobs_are_added(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    moment = datetime.now(UTC)
    ids = {  # three share each moment, so only the id tells them apart
        str(add(sessions, created_at=moment - timedelta(seconds=number // 3)))
        for number in range(17)
    }
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": 5, **({"cursor": cursor} if cursor else {})}
        page = (await client.get("/api/v1/jobs", params=params)).json()
        seen += [job["id"] for job in page["items"]]
        add(sessions, created_at=moment + timedelta(minutes=1))
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == 17
    assert set(seen) == ids
    newest_first = (await client.get("/api/v1/jobs")).json()["items"]
    times = [job["created_at"] for job in newest_first]
    assert times == sorted(times, reverse=True)


async def test_an_exact_page_has_no_next_one(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    for _ in range(3):
        add(sessions)
    assert (await client.get("/api/v1/jobs?limit=3")).json()["next_cursor"] is None
    assert (await client.get("/api/v1/jobs?limit=2")).json()["next_cursor"] is not None


async def test_jobs_are_filtered_by_state(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    queued = str(add(sessions))
    failed = str(add(sessions, state="failed"))
    add(sessions, state="succeeded")

    async def ids(query: str) -> set[str]:
        items = (await client.get(f"/api/v1/jobs?{query}")).json()["items"]
        return {job["id"] for job in items}

    assert await ids("state=queued") == {queued}
    assert await ids("state=queued&state=failed") == {queued, failed}
    assert await ids("state=cancelled") == set()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("cursor=nonsense", "cursor"),
        ("cursor=YQ", "cursor"),
        ("cursor=MjAyNi0wMS0wMVQwMDowMDowMC8x", "cursor"),
        ("cursor=%FF", "cursor"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("state=done", "state.0"),
    ],
)
async def test_a_wrong_query_names_its_field(
    client: httpx.AsyncClient, query: str, field: str
) -> None:
    answer = await client.get(f"/api/v1/jobs?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


# Cancel and retry

ALLOWED = {
    "cancel": {
        "queued": "cancelled",
        "importing": "cancelling",
        "tuning": "cancelling",
        "verifying": "cancelling",
    },
    "retry": {"failed": "queued", "cancelled": "queued"},
}


@pytest.mark.parametrize("state", [state.value for state in JobState])
@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_cancel_and_retry_do_what_the_table_says(
    client: httpx.AsyncClient, sessions: sessionmaker[Session], action: str, state: str
) -> None:
    job = add(sessions, state=state, attempt=2, fence=5)
    answer = await client.post(f"/api/v1/jobs/{job}/{action}")
    expected = ALLOWED[action].get(state)
    with sessions() as session:
        row = session.get_one(Job, job)
        events = session.scalars(select(JobEvent)).all()
        if expected is None:
            assert answer.status_code == 409
            assert answer.json()["state"] == state
            assert (row.state, events) == (state, [])
        else:
            assert answer.status_code == 200, answer.text
            assert answer.json()["state"] == row.state == expected
            assert [event.data["previous"] for event in events] == [state]
            assert row.fence == (5 if expected == "cancelling" else 6)


async def test_a_retry_starts_afresh_and_rings(
    client: httpx.AsyncClient, sessions: sessionmaker[Session], settings: Settings
) -> None:
    problem = {"kind": "import", "detail": "no such operator", "operator": "aten.foo"}
    job = add(sessions, state="failed", attempt=3, problem=problem, finished_at=datetime.now(UTC))
    before = (await client.get(f"/api/v1/jobs/{job}")).json()
    assert before["problem"] == problem
    after = (await client.post(f"/api/v1/jobs/{job}/retry")).json()
    assert (after["attempt"], after["problem"], after["finished_at"]) == (0, None, None)
    with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        assert redis.llen("device.cpu") == 1


async def test_of_a_cancel_and_a_workers_finish_one_wins(
    client: httpx.AsyncClient, sessions: sessionmaker[Session], redis_url: str
) -> None:
    job = add(sessions, state="verifying")
    worker = rows.Writer(sessions, redis_url, job)
    cancelled = asyncio.create_task(client.post(f"/api/v1/jobs/{job}/cancel"))
    try:
        await asyncio.to_thread(worker.change, JobAction.SUCCEED)
        finished = True
    except ValueError:
        finished = False
    status = (await cancelled).status_code
    assert (status, finished) in {(409, True), (200, False)}


@pytest.mark.parametrize("path", ["", "/cancel", "/retry"])
async def test_a_job_that_is_not_there_is_a_404(client: httpx.AsyncClient, path: str) -> None:
    method = "POST" if path else "GET"
    answer = await client.request(method, f"/api/v1/jobs/{uuid4()}{path}")
    assert answer.status_code == 404
    assert "there is no job" in answer.json()["detail"]


async def test_jobs_are_accepted_while_redis_is_away(
    settings: Settings, sessions: sessionmaker[Session], token: rows.Any
) -> None:
    from pydantic import SecretStr

    from backend.app import create_app

    alone = settings.model_copy(update={"redis_url": SecretStr("unix:///nowhere.sock")})
    app = create_app(alone)
    headers = {"Authorization": f"Bearer {token('write')}"}
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        answer = await client.post("/api/v1/jobs", json=ZOO, headers=headers)
    assert answer.status_code == 201
    with sessions() as session:
        assert len(session.scalars(select(Job)).all()) == 1


def test_a_family_of_models_has_one_for_every_seed() -> None:
    offer = Capabilities(zoo=["squeezenet", "nasbench_0"], zoo_families=["nasbench"])
    assert all(map(offer.has_model, ("squeezenet", "nasbench_0", "nasbench_41", "nasbench_7")))
    for name in ("nasbench", "nasbench_", "nasbench_x", "nasbench_07", "squeezenet_1", "other_1"):
        assert not offer.has_model(name), name
