"""``plait up`` where it has run before: it is timed, so nothing may run beside."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from end_to_end.conftest import start, stop, wait_for_line, wait_until_up


def client(home: Path, url: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {(home / 'cli-token').read_text().strip()}"}
    return httpx.Client(base_url=f"{url}/api/v1", headers=headers)


def add_cancelled_job(api: httpx.Client) -> str:
    job = str(api.post("/jobs", json={"model": "zoo:squeezenet"}).raise_for_status().json()["id"])
    api.post(f"/jobs/{job}/cancel").raise_for_status()
    deadline = time.monotonic() + 60
    while api.get(f"/jobs/{job}").json()["state"] != "cancelled":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return job


def test_second_start_is_quick_and_keeps_the_data(tmp_path: Path) -> None:
    process, _ = start(tmp_path, "--no-sample")
    try:
        url = wait_until_up(process, tmp_path)["url"]
        with client(tmp_path, url) as api:
            job = add_cancelled_job(api)
        assert stop(process) == 0
    finally:
        process.kill()

    started = time.monotonic()
    process, _ = start(tmp_path)
    try:
        url = wait_until_up(process, tmp_path)["url"]
        wait_for_line(tmp_path, "login?code=", 20)
        assert time.monotonic() - started < 10  # 5 s on a quiet machine; see benchmarks/service.py
        with client(tmp_path, url) as api:
            (found,) = api.get("/jobs").json()["items"]
        assert (found["id"], found["state"]) == (job, "cancelled")
        assert "Leaderboard" not in (tmp_path / "up.log").read_text()
        assert stop(process) == 0
    finally:
        process.kill()
