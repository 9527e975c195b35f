"""Jobs for kernels over REST: what is refused and why, what is served, and resuming."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.orm import Session, sessionmaker
from support import rows, tuning_records
from support.tuning_records import CONVOLUTION, MATMUL, kernel_record, round_record, spec, trial

from backend.db.tables import Job
from backend.jobs.gate import change, lock
from backend.jobs.schemas import JobProblem, JobSpec
from backend.jobs.states import JobAction
from backend.settings import Settings
from backend.storage import Storage
from workers.runner.store import JobStore
from workers.runner.tuning import named_programs
from workers.runner.tuning_store import TuningStore, Uncovered
from workers.tuning.targets import target

Sessions = sessionmaker[Session]
LLVM = target({"kind": "llvm", "num-cores": 1})


@pytest.fixture(autouse=True)
def devices(sessions: Sessions) -> None:
    """One whose worker has TVM, one whose worker has none, and a simulated one."""
    with sessions() as session, session.begin():
        session.add(rows.device(capabilities=tuning_records.capabilities()))
        session.add(rows.device("bare"))
        session.add(rows.device("sim:v100", kind="sim"))


def changed(path: str, value: Any) -> dict[str, Any]:
    """The specification with one field changed, by its dotted path."""
    made = spec()
    *folders, last = path.split(".")
    inner: Any = made
    for folder in folders:
        inner = inner[int(folder)] if folder.isdigit() else inner.setdefault(folder, {})
    inner[last] = value
    return made


@pytest.mark.parametrize(
    ("wanted", "field", "said"),
    [
        (changed("kernels.trials", 0), "kernels.trials", "nothing would be built"),
        (changed("kernels.trials", -1), "kernels.trials", "nothing would be built"),
        (changed("kernels.trials", 1), "kernels.trials", "1 for 2 programs"),
        (changed("kernels.trials", 10**6), "kernels.trials", "less than or equal"),
        (changed("kernels.batch_size", 0), "kernels.batch_size", "greater than or equal to 1"),
        (changed("kernels.tuner", "gird"), "kernels.tuner", "perhaps grid is meant"),
        (changed("kernels.tuner", "magic"), "kernels.tuner", "known: annealing"),
        (changed("kernels.measurer.kind", "best"), "kernels.measurer.kind", "'doppler'"),
        (changed("kernels.measurer.degree", -1), "kernels.measurer.degree", "greater than"),
        (
            changed("kernels.programs", [{"workload": "matmul.gpt2_atention"}]),
            "kernels.programs.0.workload",
            "perhaps matmul.gpt2_attention",
        ),
        (
            changed("kernels.programs", [{"family": "matmull"}]),
            "kernels.programs.0.family",
            "perhaps matmul",
        ),
        (changed("kernels.programs.1.sizes", {"hight": 7}), "kernels.programs.1.sizes", "height"),
        (changed("kernels.programs.0.weight", 0), "kernels.programs.0.weight", "greater than 0"),
        (changed("kernels.programs", [{}]), "kernels.programs.0", "either a workload or a family"),
        (
            changed("kernels.programs", [{"workload": "a", "sizes": {"rows": 1}}]),
            "kernels.programs.0",
            "has its sizes",
        ),
        (changed("kernels.programs", []), "body", "name one, or tensor programs"),
        (changed("model", "zoo:squeezenet"), "body", "not both"),
        (changed("batch_sizes", [1, 2]), "body", "has one"),
        (changed("kernels", None), "body", "which tensor programs"),
        (changed("purpose", "tune"), "body", "only for a job of purpose kernels"),
        ({"purpose": "tune"}, "body", "model: name one"),
        (changed("device", "sim:v100"), "device", "a simulated GPU runs no kernels"),
        (changed("device", "bare"), "device", "pip install 'plait[tvm]'"),
        (changed("device", "cuda:7"), "device", "unknown device 'cuda:7'"),
    ],
)
async def test_what_cannot_be_tuned_is_refused_with_words(
    client: httpx.AsyncClient, wanted: dict[str, Any], field: str, said: str
) -> None:
    answer = await client.post("/api/v1/jobs", json=wanted)
    assert answer.status_code == 422, answer.text
    errors = {error["field"]: error["message"] for error in answer.json()["errors"]}
    assert said in errors[field]


async def test_a_job_for_kernels_is_created_and_listed(
    client: httpx.AsyncClient,
) -> None:
    job = (await client.post("/api/v1/jobs", json=spec())).json()
    assert (job["model_name"], job["spec"]["model"]) == ("matmul and 1 more", None)
    of_model = {"purpose": "kernels", "model": "zoo:squeezenet", "kernels": {}}
    other = (await client.post("/api/v1/jobs", json=of_model)).json()
    assert other["model_name"] == "squeezenet"
    kernels = other["spec"]["kernels"]
    assert kernels["tuner"] == "evolutionary"
    assert kernels["measurer"] == {
        "kind": "doppler",
        "degree": 0,
        "form": "paper",
        "calibrator": "pooled",
    }
    for purpose in ("", "?purpose=kernels"):
        listed = (await client.get(f"/api/v1/jobs{purpose}")).json()["items"]
        assert {one["id"] for one in listed} == {job["id"], other["id"]}
    assert (await client.get("/api/v1/jobs?purpose=tune")).json()["items"] == []


async def test_devices_say_which_kernels_they_tune(client: httpx.AsyncClient) -> None:
    offers = {
        device["name"]: device["capabilities"]["kernels"]
        for device in (await client.get("/api/v1/devices")).json()
    }
    assert offers["bare"] is None
    assert {tuner["name"] for tuner in offers["cpu"]["tuners"]} >= {"grid", "evolutionary"}
    assert len(offers["cpu"]["workloads"]) == 36
    workload = offers["cpu"]["workloads"][0]
    assert workload["family"] in offers["cpu"]["families"]
    assert workload["gflops"] > 0
    assert offers["cpu"]["families"]["matmul"]["sizes"].keys() >= {"rows", "inner", "columns"}


@pytest.fixture
def job(sessions: Sessions) -> UUID:
    return tuning_records.queue(sessions)


@pytest.fixture
def worker(sessions: Sessions, settings: Settings, job: UUID) -> JobStore:
    """The job's worker, which has begun to tune."""
    store = tuning_records.claimed(sessions, Storage(settings.storage_url))
    store.enter_tuning()
    return store


Get = Callable[..., Any]


@pytest.fixture
def get(client: httpx.AsyncClient, job: UUID) -> Get:
    async def got(path: str = "") -> Any:
        answer = await client.get(f"/api/v1/jobs/{job}/tuning{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    return got


def begun(store: JobStore) -> TuningStore:
    kernels = JobSpec.model_validate(spec()).kernels
    assert kernels is not None
    records = TuningStore(store)
    records.begin(named_programs(kernels.programs), LLVM)
    return records


async def test_a_job_that_has_not_begun_has_nothing_yet(get: Get) -> None:
    found = await get()
    assert (found["programs"], found["rounds"], found["trials"]) == ([], 0, 0)
    assert (found["trials_wanted"], found["ended"], found["tuned"]) == (16, None, False)
    assert await get("/rounds") == await get("/trials") == await get("/kernels") == []


async def test_rounds_and_trials_are_served_as_they_come(get: Get, worker: JobStore) -> None:
    records = begun(worker)
    first = round_record(1, trial(1, 2.0), trial(2, None))
    second = round_record(2, trial(3, 1.5), react=False)
    other = round_record(3, trial(4, 3.0, CONVOLUTION))
    for done, record in zip((2, 3, 4), (first, second, other), strict=True):
        records.round(record, tuning_records.progress(done))

    found = await get()
    matmul, convolution = found["programs"]
    assert matmul["program"] == MATMUL.key
    assert (matmul["name"], convolution["name"]) == (
        "matmul 32x32, 32x32 to 32x32",
        "conv2d_nchw 1x4x8x8, 8x4x3x3 to 1x8x8x8",
    )
    assert (matmul["trials"], matmul["best_ms"], matmul["tuned"]) == (3, 1.5, False)
    assert (convolution["trials"], convolution["best_ms"]) == (1, 3.0)
    assert (found["rounds"], found["trials"], found["failures"]) == (3, 4, {"timeout": 1})
    assert found["target"]["kind"] == "llvm"
    assert found["tuned_s"] == other.ended_s

    one, two, three = await get("/rounds")
    assert (one["lower"], one["upper"], one["react"]["branch"]) == (1, 4, "exploration")
    assert (two["lower"], two["react"]) == (None, None)
    assert [each["best_ms"] for each in (one, two, three)] == [2.0, 1.5, 3.0]
    assert (one["timeouts"], one["failures"], one["attempt"]) == (1, {"timeout": 1}, 1)
    assert "spans" not in one
    assert await get("/rounds?after=1&limit=1") == [two]

    trials = await get("/trials")
    assert [each["trial"] for each in trials] == [1, 2, 3, 4]
    assert [each["round"] for each in trials] == [1, 1, 2, 3]
    assert (trials[1]["failure"], trials[1]["reason"]) == ("timeout", "it took more than 1 s")
    assert all(each["trace"] is None for each in trials)
    assert (await get("/trials?after=3&trace=true"))[0]["trace"] == '["trace 4"]'


async def test_one_programs_trials_are_found_by_its_key(
    client: httpx.AsyncClient, job: UUID, worker: JobStore
) -> None:
    records = begun(worker)
    records.round(round_record(1, trial(1, 2.0)), tuning_records.progress(1))
    records.round(round_record(2, trial(2, 3.0, CONVOLUTION)), tuning_records.progress(2))
    answer = await client.get(
        f"/api/v1/jobs/{job}/tuning/trials", params={"program": CONVOLUTION.key}
    )
    assert [each["trial"] for each in answer.json()] == [2]


async def test_each_round_is_one_event_without_what_is_long(
    client: httpx.AsyncClient, job: UUID, worker: JobStore
) -> None:
    records = begun(worker)
    records.round(round_record(1, trial(1, 2.0), trial(2, None)), tuning_records.progress(2))
    events = (await client.get(f"/api/v1/jobs/{job}/events")).json()
    (told,) = [event["data"] for event in events if event["type"] == "tuning_round"]
    assert (told["number"], told["trials"], told["trials_done"]) == (1, 2, 2)
    assert (told["best_ms"], told["lower"], told["upper"]) == (2.0, 1, 4)
    assert not told.keys() & {"spans", "trials_", "react"}
    assert (await client.get(f"/api/v1/jobs/{job}")).json()["progress"]["step"] == 2


async def test_a_kernel_is_served_with_its_source_and_its_file(
    client: httpx.AsyncClient, get: Get, job: UUID, worker: JobStore, tmp_path: Path
) -> None:
    records = begun(worker)
    best = trial(1, 2.0)
    records.round(round_record(1, best), tuning_records.progress(1))
    path = tmp_path / "matmul-kernel.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tir.py", "@T.prim_func")
    records.kernel(kernel_record(best, tmp_path / "kernel.so"), path)
    records.kernel(kernel_record(best, tmp_path / "kernel.so"), path)  # again, after a resumption

    (kernel,) = await get("/kernels")
    assert (kernel["program"], kernel["candidate"], kernel["latency_ms"]) == (
        MATMUL.key,
        best.candidate,
        2.0,
    )
    assert (kernel["tir"], kernel["filename"]) == ("@T.prim_func", "matmul-kernel.zip")
    assert [ranked["candidate"] for ranked in kernel["ranked"]] == [best.candidate]
    found = await get()
    assert [program["tuned"] for program in found["programs"]] == [True, False]
    assert found["tuned"] is False
    address = f"/api/v1/jobs/{job}/tuning/kernels"
    answer = await client.get(f"{address}/{best.candidate}/download")
    assert "matmul-kernel.zip" in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.namelist() == ["tir.py"]
    missing = await client.get(f"{address}/no_such/download")
    assert (missing.status_code, "no kernel no_such" in missing.text) == (404, True)


async def test_what_a_model_leaves_uncovered_is_told(
    get: Get, worker: JobStore, sessions: Sessions
) -> None:
    kernels = JobSpec.model_validate(spec()).kernels
    assert kernels is not None
    found = named_programs(kernels.programs)
    lost = Uncovered("no family of softmax", ("softmax_1",), 0.25)
    TuningStore(worker).begin(type(found)(found.programs, (lost,), 0.75), LLVM)
    told = await get()
    assert told["uncovered"] == [
        {"reason": "no family of softmax", "operators": ["softmax_1"], "gflops": 0.25}
    ]
    assert told["covered"] == 0.75
    assert TuningStore(worker).undertaking() == type(found)(found.programs, (lost,), 0.75)


async def test_another_job_tunes_no_kernels(client: httpx.AsyncClient) -> None:
    job = (await client.post("/api/v1/jobs", json={"model": "zoo:squeezenet"})).json()["id"]
    answer = await client.get(f"/api/v1/jobs/{job}/tuning")
    assert (answer.status_code, "tunes no kernels" in answer.text) == (404, True)


async def test_a_stopped_or_failed_job_is_resumed_and_keeps_its_records(
    client: httpx.AsyncClient, get: Get, job: UUID, worker: JobStore, sessions: Sessions
) -> None:
    begun(worker).round(round_record(1, trial(1, 2.0)), tuning_records.progress(1))
    running = await client.post(f"/api/v1/jobs/{job}/resume")
    assert (running.status_code, running.json()["state"]) == (409, "tuning")
    worker.fail(JobProblem(kind="build", detail="the disk is full"))
    resumed = (await client.post(f"/api/v1/jobs/{job}/resume")).json()
    assert (resumed["state"], resumed["attempt"], resumed["problem"]) == ("queued", 0, None)
    assert resumed["finished_at"] is None
    assert resumed["started_at"] is not None
    assert len(await get("/trials")) == 1

    assert (await client.post(f"/api/v1/jobs/{job}/cancel")).json()["state"] == "cancelled"
    assert (await client.post(f"/api/v1/jobs/{job}/resume")).json()["state"] == "queued"
    with sessions() as session:
        assert session.get_one(Job, job).attempt == 0


async def test_only_a_job_for_kernels_is_resumed(
    client: httpx.AsyncClient, sessions: Sessions
) -> None:
    job = (await client.post("/api/v1/jobs", json={"model": "zoo:squeezenet"})).json()["id"]
    with sessions() as session, session.begin():
        session.add(change(session.scalars(lock(UUID(job))).one(), JobAction.CANCEL))
    refused = await client.post(f"/api/v1/jobs/{job}/resume")
    assert (refused.status_code, refused.json()["state"]) == (409, "cancelled")
    assert "retry it instead" in refused.json()["detail"]
