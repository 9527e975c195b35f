"""Speed and memory of the service, measured on the real stack.

    .venv/bin/python benchmarks/service.py [--output benchmarks/results/service.json]

Starts ``plait up`` in a scratch directory, with the API pinned to one core and this script to
another where there are two, and measures: time until the API answers and its memory; job pick-up;
event latency from the worker's clock to an SSE client; list requests a second; idle CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from machine import machine

TARGETS = {
    "api_ready_s": 1.5,
    "api_rss_mb": 150,
    "pickup_s": 1.0,
    "event_p95_ms": 150,
    "list_requests_per_s": 200,
    "idle_cpu_percent": 3.0,
}
STARTS = 5
LIST_SECONDS = 10
CONNECTIONS = 8
IDLE_SECONDS = 60
JOBS_IN_LIST = 50


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def api_start(environment: dict[str, str]) -> tuple[float, float]:
    """Seconds until a fresh API process answers, and its resident memory in MB after it did."""
    port = free_port()
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "backend"],
        env={**environment, "PLAIT_PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=1)
                break
            except httpx.TransportError:
                time.sleep(0.005)
        ready = time.perf_counter() - started
        memory = psutil.Process(process.pid).memory_info().rss / 1e6
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        if "libtorch" in maps:
            raise SystemExit("torch is loaded in the API's process")
        return ready, memory
    finally:
        process.terminate()
        process.wait()


async def run_job(url: str, headers: dict[str, str]) -> tuple[float, list[float]]:
    """Job pick-up in seconds, and each event's latency in ms from the runner to an SSE client."""
    latencies = []
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=None) as client:
        body = {"model": "zoo:squeezenet", "device": "cpu", "budget_seconds": 60}
        body["allow_noise"] = True  # this script keeps a core busy, and times no schedule
        job = (await client.post("/jobs", json=body)).json()
        created = datetime.fromisoformat(job["created_at"])
        picked_up = None
        async with client.stream("GET", f"/jobs/{job['id']}/events/stream") as stream:
            async for line in stream.aiter_lines():
                arrived = datetime.now(UTC)
                if line == "event: end":
                    break
                if not line.startswith("data:") or '"seq"' not in line:
                    continue
                event = json.loads(line[5:])
                written = datetime.fromisoformat(event["created_at"])
                if event["type"] == "state" and event["data"]["state"] == "importing":
                    picked_up = picked_up or (written - created).total_seconds()
                if event["seq"] > 1:  # the first was written before this client connected
                    latencies.append((arrived - written).total_seconds() * 1e3)
        finished = (await client.get(f"/jobs/{job['id']}")).json()
    if finished["state"] != "succeeded" or picked_up is None:
        raise SystemExit(f"the job ended as {finished['state']}: {finished['problem']}")
    return picked_up, latencies


async def list_rate(url: str, headers: dict[str, str]) -> float:
    """List requests a second over keep-alive connections, 20 jobs a page."""
    host, port = url.removeprefix("http://").split("/")[0].split(":")
    lines = ["GET /api/v1/jobs?limit=20 HTTP/1.1", f"Host: {host}:{port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    request = "\r\n".join([*lines, "", ""]).encode()
    deadline = time.perf_counter() + LIST_SECONDS
    done = 0

    async def connection() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection(host, int(port))
        while time.perf_counter() < deadline:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(head.decode())
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            done += 1
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return done / (time.perf_counter() - started)


def fill_list(url: str, headers: dict[str, str]) -> None:
    """Jobs to list: created and cancelled at once, while one long job keeps the worker busy."""
    with httpx.Client(base_url=url, headers=headers) as client:
        busy = client.post("/jobs", json={"model": "zoo:inception_v3"}).json()["id"]
        jobs = [
            client.post("/jobs", json={"model": "zoo:squeezenet"}).json()["id"]
            for _ in range(JOBS_IN_LIST)
        ]
        for job in [*jobs, busy]:
            client.post(f"/jobs/{job}/cancel").raise_for_status()
        while client.get(f"/jobs/{busy}").json()["state"] != "cancelled":
            time.sleep(0.2)


def stack_processes(up: psutil.Process, home: Path) -> list[psutil.Process]:
    """`plait up`, its children, and the embedded servers, which are daemons of their own."""
    own = [up, *up.children(recursive=True)]
    servers = [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process not in own and process.info["name"] in {"postgres", "valkey-server"}
    ]
    return own + servers


def idle_percent(up: psutil.Process, home: Path) -> tuple[float, dict[str, float]]:
    """CPU of the whole stack in percent of one core, and by process name."""

    def times() -> dict[psutil.Process, float]:
        return {
            process: sum(process.cpu_times()[:2])
            for process in stack_processes(up, home)
            if process.is_running()
        }

    before = times()
    time.sleep(IDLE_SECONDS)
    after = times()
    by_name: dict[str, float] = {}
    for process, seconds in after.items():
        command = " ".join(process.cmdline())
        name = next(
            (
                part
                for part in ("backend.cli.main", "celery", "workers", "backend")
                if part in command
            ),
            process.name(),
        )
        spent = seconds - before.get(process, 0.0)
        by_name[name] = by_name.get(name, 0.0) + 100 * spent / IDLE_SECONDS
    return sum(by_name.values()), by_name


def measure(home: Path) -> dict[str, Any]:
    environment = {**os.environ, "PLAIT_HOME": str(home), "PLAIT_PORT": str(free_port())}
    log = (home / "up.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "backend.cli.main", "up", "--no-sample"],
        env=environment,
        stdout=log,
        stderr=log,
    )
    try:
        while not (home / "run.json").exists():
            if process.poll() is not None:
                raise SystemExit((home / "up.log").read_text())
            time.sleep(0.1)
        run = json.loads((home / "run.json").read_text())
        api = f"{run['url']}/api/v1"
        headers = {"Authorization": f"Bearer {(home / 'cli-token').read_text().strip()}"}
        up = psutil.Process(process.pid)
        servers = {"DATABASE_URL": run["database_url"], "REDIS_URL": run["redis_url"]}
        starts = [api_start({**environment, **servers}) for _ in range(STARTS)]
        pickups, latencies = zip(
            *(asyncio.run(run_job(api, headers)) for _ in range(3)), strict=True
        )
        fill_list(api, headers)
        (server,) = [p for p in up.children() if p.cmdline()[-2:] == ["-m", "backend"]]
        cores = sorted(os.sched_getaffinity(0))
        server.cpu_affinity([cores[0]])
        if len(cores) > 1:
            os.sched_setaffinity(0, cores[1:])
        rate = asyncio.run(list_rate(api, headers))
        events = sorted(value for job in latencies for value in job)
        time.sleep(10)
        idle, by_name = idle_percent(up, home)
        memory = server.memory_info().rss / 1e6
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        log.close()
    return {
        "api_ready_s": statistics.median(ready for ready, _ in starts),
        "api_ready_s_all": [ready for ready, _ in starts],
        "api_rss_mb": max(memory, *(rss for _, rss in starts)),
        "pickup_s": statistics.median(pickups),
        "pickup_s_all": pickups,
        "events": len(events),
        "event_median_ms": statistics.median(events),
        "event_p95_ms": events[int(len(events) * 0.95)],
        "list_requests_per_s": rate,
        "idle_cpu_percent": idle,
        "idle_cpu_percent_by_process": by_name,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    taken_on = machine()
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as directory:
        Path(directory).chmod(0o755)  # PostgreSQL runs as another user when this one is root
        measured = measure(Path(directory))
    report = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": taken_on,
        "targets": TARGETS,
        "measured": measured,
    }
    for name, target in TARGETS.items():
        higher_is_better = name == "list_requests_per_s"
        met = (measured[name] >= target) if higher_is_better else (measured[name] <= target)
        print(
            f"{name:22} {measured[name]:9.2f}   target {target:>6}   {'met' if met else 'MISSED'}"
        )
    if options.output:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
