"""The whole stack as ``plait up`` starts it (real servers, API, Celery worker and beat), and a real
Chromium."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)
from support.models import export_chain

UP_SECONDS = 90
NOT_PASSED_ON = {"DATABASE_URL", "REDIS_URL", "OMP_NUM_THREADS"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def plait(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "backend.cli.main", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=240
    )


@dataclass
class Stack:
    """A running ``plait up`` and how to talk to it."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    url: str
    token: str
    database_url: str

    def plait(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return plait(*arguments, environment=self.environment)

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=30)

    def upload(self, model: Path) -> str:
        """The model's name for a job."""
        with self.client() as client:
            sent = client.post(
                "/uploads", params={"filename": model.name}, content=model.read_bytes()
            )
        return f"upload:{sent.raise_for_status().json()['id']}"

    def login_link(self) -> str:
        said = self.plait("login").stdout
        return next(word for word in said.split() if word.startswith("http"))

    def wait_for(self, job: str, *states: str, seconds: float = 180) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        with self.client() as client:
            while True:
                found: dict[str, Any] = client.get(f"/jobs/{job}").json()
                if found["state"] in states:
                    return found
                assert time.monotonic() < deadline, found
                assert found["state"] not in {"succeeded", "failed", "cancelled"}, found
                time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(home: Path, *options: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    environment = {
        **{k: v for k, v in os.environ.items() if k not in NOT_PASSED_ON},
        "PLAIT_HOME": str(home),
        "PLAIT_PORT": str(free_port()),
        "PLAIT_LEASE_SECONDS": "3",
        "PLAIT_HEARTBEAT_SECONDS": "0.5",
        "PLAIT_SWEEP_SECONDS": "1",
        "PLAIT_ALLOW_NOISE": "1",  # Chromium and other tests run beside
        # Threads that wait for each other must not keep the cores from those others: on a busy
        # machine, a run of one millisecond takes a hundred where they do.
        "OMP_WAIT_POLICY": "passive",
    }
    command = [sys.executable, "-m", "backend.cli.main", "up", *options]
    with (home / "up.log").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True
        )
    return process, environment


def wait_until_up(process: subprocess.Popen[str], home: Path) -> dict[str, Any]:
    deadline = time.monotonic() + UP_SECONDS
    while not (home / "run.json").exists():
        assert process.poll() is None, (home / "up.log").read_text()
        assert time.monotonic() < deadline, (home / "up.log").read_text()
        time.sleep(0.1)
    found: dict[str, Any] = json.loads((home / "run.json").read_text())
    return found


def wait_for_line(home: Path, text: str, seconds: float) -> None:
    started = time.monotonic()
    while text not in (home / "up.log").read_text():
        assert time.monotonic() - started < seconds, (home / "up.log").read_text()
        time.sleep(0.05)


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=60)


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("plait-home")
    process, environment = start(home, "--no-sample")
    try:
        run = wait_until_up(process, home)
        token = (home / "cli-token").read_text().strip()
        yield Stack(process, environment, run["url"], token, run["database_url"])
        assert stop(process) == 0, (home / "up.log").read_text()
    finally:
        process.kill()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    expect.set_options(timeout=30_000)  # what a page does within a second, beside other tests
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield running
        running.close()


@pytest.fixture(scope="package")
def slow_search(tmp_path_factory: pytest.TempPathFactory, stack: Stack) -> dict[str, Any]:
    """A job that searches for some seconds, in many rounds, and is done soon after that."""
    path = tmp_path_factory.mktemp("models") / "chain.pt2"
    export_chain(path)
    return {
        "model": stack.upload(path),
        "schedulers": ["ios"],
        "ios": {"mode": "exhaustive"},
        "budget_seconds": 60,
    }


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    yield made
    made.close()


def is_defect(message: ConsoleMessage) -> bool:
    """An error that is not the browser's note of a 4xx, which the page explains itself."""
    return message.type == "error" and not message.text.startswith("Failed to load resource")


@pytest.fixture
def page(context: BrowserContext, stack: Stack) -> Iterator[Page]:
    """Logged in by a one-time link; the test fails if the page reported an error."""
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda m: problems.append(m.text) if is_defect(m) else None)
    opened.goto(stack.login_link())
    yield opened
    assert not problems, problems
