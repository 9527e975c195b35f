"""The command line against a real API: what it prints, and the exit codes it promises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker
from support import rows
from typer.testing import CliRunner, Result

from backend.cli.exits import ExitCode
from backend.cli.main import app
from backend.db.tables import Device, Timeline
from backend.settings import Settings, get_settings

Run = Callable[..., Result]


@pytest.fixture
def plait(
    server: str,
    settings: Settings,
    token: Callable[..., str],
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Runs a command as somebody who may write and upload, on a service with one device."""
    with sessions() as session, session.begin():
        session.add(
            Device(
                name="cpu",
                kind="cpu",
                description="a test's",
                fingerprint="f",
                facts={},
                capabilities={
                    "schedulers": ["sequential", "greedy", "ios", "auto"],
                    "zoo": ["squeezenet"],
                    "formats": ["pt2"],
                },
                worker="w",
                last_progress_at=datetime.now(UTC),
            )
        )
    monkeypatch.setenv("PLAIT_URL", server)
    monkeypatch.setenv("PLAIT_TOKEN", token("write", "upload:trusted"))
    monkeypatch.setenv("PLAIT_HOME", str(settings.home))
    monkeypatch.setenv("DATABASE_URL", settings.database_url.get_secret_value())
    get_settings.cache_clear()
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture(autouse=True)
def _settings_of_their_own() -> object:
    yield
    get_settings.cache_clear()


def test_a_job_is_submitted_listed_and_cancelled(plait: Run) -> None:
    made = plait("submit", "zoo:squeezenet", "-b", "1", "-b", "8", "--name", "mine", "--json")
    assert made.exit_code == ExitCode.OK, made.output
    job = json.loads(made.stdout)
    assert job["spec"]["batch_sizes"] == [1, 8]
    listed = json.loads(plait("jobs", "--json").stdout)
    assert [entry["id"] for entry in listed["items"]] == [job["id"]]
    assert "squeezenet" in plait("jobs").stdout
    assert "cancelled" in plait("cancel", job["id"]).stdout
    events = [json.loads(line) for line in plait("watch", job["id"], "--json").stdout.splitlines()]
    assert [event["seq"] for event in events] == [1, 2]
    assert events[-1]["data"]["state"] == "cancelled"
    shown = plait("result", job["id"])
    assert shown.exit_code == ExitCode.JOB_FAILED
    assert "cancelled" in shown.stdout
    assert json.loads(plait("retry", job["id"], "--json").stdout)["state"] == "queued"


def test_a_refusal_names_the_field_and_has_its_exit_code(plait: Run) -> None:
    refused = plait("submit", "zoo:squeezenet", "-s", "sequential", "-s", "iso")
    assert refused.exit_code == ExitCode.REFUSED
    assert "schedulers.1" in refused.stderr
    assert "greedy" in refused.stderr
    assert plait("submit", "zoo:squeezenet", "-b", "0").exit_code == ExitCode.REFUSED


def test_a_missing_file_is_a_matter_of_usage(plait: Run, tmp_path: Path) -> None:
    missing = plait("submit", str(tmp_path / "missing.pt2"))
    assert missing.exit_code == ExitCode.USAGE
    assert "zoo:NAME" in missing.stderr
    assert plait("schedule", "zoo:squeezenet", "-b", "0").exit_code == ExitCode.USAGE
    assert plait("no-such-command").exit_code == ExitCode.USAGE


def test_a_damaged_file_is_refused_with_the_reason(plait: Run, tmp_path: Path) -> None:
    path = tmp_path / "damaged.pt2"
    path.write_bytes(b"PK\x03\x04 and no more")
    refused = plait("submit", str(path))
    assert refused.exit_code == ExitCode.REFUSED
    assert "file" in refused.stderr


def test_a_job_takes_a_provider_that_the_device_has(plait: Run) -> None:
    refused = plait("submit", "zoo:squeezenet", "--provider", "inductor")
    assert refused.exit_code == ExitCode.REFUSED
    assert "kernels of aten" in refused.stderr
    made = json.loads(plait("submit", "zoo:squeezenet", "--allow-noise", "--json").stdout)
    assert (made["spec"]["provider"], made["spec"]["allow_noise"]) == ("aten", True)


def test_simulated_devices_are_listed_apart(plait: Run, sessions: sessionmaker[Session]) -> None:
    with sessions() as session, session.begin():
        session.add(rows.device("sim:v100", kind="sim", facts={"simulated": True}))
    words = plait("devices").stdout
    assert words.index("cpu") < words.index("Simulated devices") < words.index("sim:v100")
    listed = json.loads(plait("devices", "--json").stdout)
    assert [device["name"] for device in listed] == ["cpu", "sim:v100"]


def test_a_trace_is_the_winner_s_unless_another_is_named(
    plait: Run, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    job = rows.job(model_name="net.onnx", device="sim:v100")
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(job)
        session.flush()
        for scheduler in ("greedy", "ios"):
            winner = scheduler == "ios"
            row = rows.result(job.id, scheduler=scheduler, winner=winner, simulated=True)
            session.add(row)
            session.flush()
            session.add(Timeline(result_id=row.id, spans=[]))
    said = plait("trace", str(job.id), "-o", str(tmp_path))
    assert said.exit_code == ExitCode.OK, said.output
    assert "(simulated)" in said.stdout
    found = json.loads((tmp_path / "net-batch1-ios.trace.json").read_text())
    assert found["otherData"]["scheduler"] == "ios"
    target = tmp_path / "other.json"
    done = plait("trace", str(job.id), "-s", "greedy", "-o", str(target), "--json")
    assert json.loads(done.stdout) == {"trace": str(target), "simulated": True}
    assert json.loads(target.read_text())["otherData"]["scheduler"] == "greedy"
    assert plait("trace", str(job.id), "-b", "9").exit_code == ExitCode.JOB_FAILED


def test_nobody_answers(plait: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_URL", "http://127.0.0.1:1")
    for command in (["jobs"], ["status"], ["submit", "zoo:squeezenet"]):
        lonely = plait(*command)
        assert lonely.exit_code == ExitCode.UNREACHABLE, lonely.output
        assert "127.0.0.1:1" in lonely.stderr


def test_tokens_are_made_listed_and_revoked_where_the_database_is(
    plait: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plait("token", "create", "ci", "--scope", "read", "--days", "7")
    secret = made.stdout.strip()
    assert re.fullmatch(r"plait_\w+", secret)
    (entry,) = [t for t in json.loads(plait("token", "list", "--json").stdout) if t["name"] == "ci"]
    assert entry["scopes"] == ["read"]
    assert secret not in plait("token", "list").stdout
    monkeypatch.setenv("PLAIT_TOKEN", secret)
    assert plait("jobs").exit_code == ExitCode.OK
    assert plait("submit", "zoo:squeezenet").exit_code == ExitCode.REFUSED
    assert plait("token", "revoke", entry["id"]).exit_code == ExitCode.OK
    assert plait("jobs").exit_code == ExitCode.REFUSED


def test_doctor_says_what_is_there(plait: Run) -> None:
    found = {entry["name"]: entry for entry in json.loads(plait("doctor", "--json").stdout)}
    assert found["python"]["ok"]
    assert found["torch"]["detail"].startswith("2.13")
    assert found["data"]["ok"]
    assert all(entry["ok"] or entry["remedy"] for entry in found.values())


def test_login_prints_a_link_that_works_once(plait: Run, server: str) -> None:
    import httpx

    words = plait("login").stdout.split()
    link = next(word for word in words if "/login?code=" in word)
    code = link.partition("?")[2]
    with httpx.Client(base_url=server) as browser:
        first = browser.get(f"/login?{code}")
        assert first.status_code in {302, 303}
        assert browser.get("/api/v1/session").json()["authenticated_by"] == "session"
    with httpx.Client(base_url=server) as another:
        another.get(f"/login?{code}")
        assert another.get("/api/v1/session").status_code == 401


def test_up_refuses_a_port_that_is_taken(
    plait: Run, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_PORT", server.rpartition(":")[2])
    refused = plait("up")
    assert refused.exit_code == ExitCode.JOB_FAILED
    assert "PLAIT_PORT" in refused.stderr
