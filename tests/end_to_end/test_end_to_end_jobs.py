"""A model goes in through the shell and over REST; a verified schedule comes out."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from support.models import export_branches
from support.onnx_models import convolutions, written
from support.services import libpq_url

from end_to_end.conftest import Stack

SCHEDULERS = ["sequential", "greedy", "ios"]
FAST = {"device": "cpu", "budget_seconds": 8, "schedulers": SCHEDULERS}
FAST_OPTIONS = [
    "--budget", "8", *(option for name in SCHEDULERS for option in ("--scheduler", name)),
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "branches.pt2"
    export_branches(path)
    return path


def only_torch(directory: Path) -> dict[str, str]:
    """An environment whose Python sees torch and what torch itself requires, nothing else."""
    pending, links = ["torch"], directory / "site"
    links.mkdir()
    while pending:
        distribution = importlib.metadata.distribution(pending.pop())
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not (links / top).exists():
                (links / top).symlink_to(str(distribution.locate_file(top)))
        for requirement in distribution.requires or ():
            name = re.match(r"[\w.-]+", requirement)
            if "extra ==" not in requirement and name is not None:
                try:
                    importlib.metadata.distribution(name[0])
                except importlib.metadata.PackageNotFoundError:
                    continue  # meant for another platform
                pending.append(name[0])
    return {"PYTHONPATH": str(links), "PATH": os.environ["PATH"]}


def test_a_file_from_the_shell_to_an_artifact_that_runs_with_torch_alone(
    stack: Stack, model: Path, tmp_path: Path
) -> None:
    said = stack.plait(
        "submit", str(model), *FAST_OPTIONS, "-b", "1", "-b", "3", "--wait", "--json"
    )
    assert said.returncode == 0, said.stdout + said.stderr
    job = json.loads(said.stdout)
    assert [entry["batch_size"] for entry in job["summary"]] == [1, 3]
    for result in job["results"]:
        assert result["verified"]
        assert result["low_ms"] <= result["latency_ms"] <= result["high_ms"]
        assert not result["simulated"]
    assert {r["scheduler"] for r in job["results"]} == {"sequential", "greedy", "ios"}
    assert sum(r["winner"] for r in job["results"]) == 2
    assert all(entry["speedup"] >= 1.0 for entry in job["summary"])

    target = tmp_path / "artifact.zip"
    said = stack.plait("result", job["id"], "--artifact", str(target), "-b", "3")
    assert said.returncode == 0, said.stderr
    with zipfile.ZipFile(target) as archive:
        archive.extractall(tmp_path / "artifact")
    run = subprocess.run(
        [sys.executable, "-S", tmp_path / "artifact" / "run.py"],
        env=only_torch(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "3, 10" in run.stdout


def test_a_simulated_gpu_schedules_a_file_and_says_that_it_is_simulated(
    stack: Stack, model: Path, tmp_path: Path
) -> None:
    listed = {d["name"]: d for d in json.loads(stack.plait("devices", "--json").stdout)}
    gpu = listed["sim:v100"]
    assert (gpu["kind"], gpu["online"], gpu["facts"]["simulated"]) == ("sim", True, True)
    said = stack.plait(
        "submit", str(model), *FAST_OPTIONS, "--device", "sim:v100", "--wait", "--json"
    )
    assert said.returncode == 0, said.stdout + said.stderr
    job = json.loads(said.stdout)
    assert [entry["simulated"] for entry in job["summary"]] == [True]
    for result in job["results"]:
        assert (result["simulated"], result["verified"], result["provider"]) == (True, True, "aten")
        assert result["environment"]["fingerprint"] == gpu["fingerprint"]
        assert result["environment"]["noise"]["complaint"] is None
    words = " ".join(stack.plait("result", job["id"], "--artifact", str(tmp_path)).stdout.split())
    assert "(simulated)" in words
    [artifact] = tmp_path.glob("*.zip")
    with zipfile.ZipFile(artifact) as archive:
        assert json.loads(archive.read("schedule.json"))["summary"]["simulated"] is True
    assert stack.plait("trace", job["id"], "-o", str(tmp_path)).returncode == 0
    [traced] = tmp_path.glob("*.trace.json")
    events = json.loads(traced.read_text())["traceEvents"]
    assert "(simulated)" in next(e["args"]["name"] for e in events if e["name"] == "process_name")
    assert any(event["ph"] == "C" and event["args"]["warps"] for event in events)
    with stack.client() as client:
        [counted] = [
            s for s in client.get("/profiles/summary").json() if "sim:v100" in s["devices"]
        ]
        events = client.get(f"/jobs/{job['id']}/events").json()
    assert counted["simulated"]
    assert counted["entries"] > 0
    searches = [event["data"] for event in events if event["type"] == "search"]
    best = [each["best_ms"] for each in searches if each["best_ms"] is not None]
    assert best == sorted(best, reverse=True)
    assert all(each["ended"] is None for each in searches[:-1])
    [found] = [r["search"] for r in job["results"] if r["scheduler"] == "ios"]
    for field in ("bound_ms", "bound_holds", "ended", "stages_measured", "states_visited"):
        assert found[field] == searches[-1][field]
    assert found["ended"] in {"complete", "optimal", "converged"}
    assert 0 < found["bound_ms"] <= found["predicted_ms"] == best[-1]


def test_curl_with_a_token_uploads_and_schedules_onnx(
    stack: Stack, model: Path, tmp_path: Path
) -> None:
    """With a token that may upload data but nothing that executes code."""
    made = stack.plait("token", "create", "ci", "--scope", "write", "--scope", "upload", "--json")
    header = f"Authorization: Bearer {json.loads(made.stdout)['token']}"
    curl = ["curl", "--silent", "--fail-with-body", "-H", header]

    def sent(path: Path) -> subprocess.CompletedProcess[str]:
        address = f"{stack.url}/api/v1/uploads?filename={path.name}"
        return subprocess.run(
            [*curl, "-X", "POST", "-T", str(path), address],
            capture_output=True,
            text=True,
            check=False,
        )

    refused = sent(model)
    assert refused.returncode != 0
    assert "upload:trusted" in refused.stdout
    uploaded = json.loads(sent(written(convolutions(1), tmp_path)).stdout)
    body = json.dumps({**FAST, "model": f"upload:{uploaded['id']}", "batch_sizes": [2]})
    created = json.loads(
        subprocess.check_output(
            [*curl, "--json", body, f"{stack.url}/api/v1/jobs"],
            text=True,
        )
    )
    assert stack.wait_for(created["id"], "succeeded")["summary"]
    events = subprocess.check_output(
        [*curl, "-N", f"{stack.url}/api/v1/jobs/{created['id']}/events/stream"], text=True
    )
    kinds = re.findall(r"^event: (\w+)$", events, re.MULTILINE)
    assert kinds[-1] == "end"
    assert {"state", "progress", "search", "round", "result", "log"} <= set(kinds)


def test_a_worker_killed_in_the_middle_measures_nothing_twice(
    stack: Stack, slow_search: dict[str, Any]
) -> None:
    with stack.client() as client:
        job = client.post("/jobs", json=slow_search).json()["id"]
        stack.wait_for(job, "tuning")
        deadline = time.monotonic() + 60
        while not (rounds := rounds_of(stack, job)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (worker,) = [
            process
            for process in psutil.Process(stack.process.pid).children()
            if "workers" in process.cmdline()
        ]
        children = worker.children(recursive=True)
        assert children
        worker.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=10)
        assert not alive, "the job's process outlived its worker"
        before = stored_by(stack, job)  # nobody else may claim the job while the lease lasts
        assert before

        finished = stack.wait_for(job, "succeeded")
        assert finished["attempt"] == 2
        assert client.get(f"/jobs/{job}/results").json()
    assert len({attempt for attempt, _ in rounds_of(stack, job)}) == 2
    assert len(rounds) < len(rounds_of(stack, job))
    measured_again = sum(n for attempt, n in rounds_of(stack, job) if attempt == 2)
    assert measured_again == stored_by(stack, job) - before


def stored_by(stack: Stack, job: str) -> int:
    """How many first measurements of the job the ProfileIndex holds."""
    with psycopg.connect(libpq_url(stack.database_url)) as connection:
        query = (
            "SELECT count(*) FROM profile_entry"
            " WHERE job_id = %s AND context NOT LIKE '%% rechecked%%'"
        )
        row = connection.execute(query, [job]).fetchone()
    assert row is not None
    return int(row[0])


def rounds_of(stack: Stack, job: str) -> list[tuple[int, int]]:
    """The attempt of each round, and how many stages it measured for the first time."""
    with psycopg.connect(libpq_url(stack.database_url)) as connection:
        query = "SELECT attempt, candidates - remeasured FROM measurement_round WHERE job_id = %s"
        return [(row[0], row[1]) for row in connection.execute(query, [job])]


def test_cancel_ends_the_job_and_its_process(stack: Stack) -> None:
    body = {**FAST, "model": "zoo:inception_v3", "budget_seconds": 600}
    with stack.client() as client:
        job = client.post("/jobs", json=body).json()["id"]
        stack.wait_for(job, "importing")
        assert client.post(f"/jobs/{job}/cancel").json()["state"] == "cancelling"
        assert stack.wait_for(job, "cancelled", seconds=30)["finished_at"]
    running = [
        process.cmdline() for process in psutil.Process(stack.process.pid).children(recursive=True)
    ]
    assert not [command for command in running if "workers.runner.child" in command]


def test_a_model_with_an_unknown_operator_fails_with_its_name(stack: Stack, tmp_path: Path) -> None:
    import torch

    class Unknown(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(x)

    path = tmp_path / "unknown.pt2"
    torch.export.save(torch.export.export(Unknown(), (torch.randn(1, 4, 4),)), path)
    said = stack.plait("submit", str(path), "--wait", "--json")
    assert said.returncode == 1
    problem = json.loads(said.stdout)["problem"]
    assert problem["kind"] == "unsupported_operator"
    assert "svd" in problem["detail"]
    assert problem["operator"]
