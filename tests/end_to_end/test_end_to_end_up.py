"""``plait up`` itself: the sample job, a clean stop, a quick second start."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import psutil
import pytest
from end_to_end.conftest import plait, start, stop, wait_until_up


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("first-home")


def wait_for_line(home: Path, text: str, seconds: float) -> float:
    started = time.monotonic()
    while text not in (home / "up.log").read_text():
        assert time.monotonic() - started < seconds, (home / "up.log").read_text()
        time.sleep(0.05)
    return time.monotonic() - started


def test_first_start_runs_the_sample_then_serves_and_stops_cleanly(home: Path) -> None:
    process, environment = start(home)
    try:
        wait_for_line(home, "login?code=", 180)
        said = (home / "up.log").read_text()
        assert "Latency by scheduler" in said
        assert "batch 1:" in said
        again = plait("up", environment=environment)
        assert again.returncode == 0
        assert "already" in again.stdout
        assert plait("status", environment=environment).returncode == 0
        below = psutil.Process(process.pid).children(recursive=True)
        assert stop(process) == 0
    finally:
        process.kill()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not alive
    assert plait("status", environment=environment).returncode == 3


def test_second_start_is_quick_and_keeps_the_data(home: Path) -> None:
    started = time.monotonic()
    process, _ = start(home)
    try:
        url = wait_until_up(process, home)["url"]
        wait_for_line(home, "login?code=", 20)
        assert time.monotonic() - started < 10  # 5 s on a quiet machine; see benchmarks/service.py
        token = (home / "cli-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        (job,) = httpx.get(f"{url}/api/v1/jobs", headers=headers).json()["items"]
        assert job["state"] == "succeeded"
        assert "Latency by scheduler" not in (home / "up.log").read_text()
        assert stop(process) == 0
    finally:
        process.kill()
