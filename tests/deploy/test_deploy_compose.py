"""docker-compose.yml and its Dockerfile, checked without a Docker engine."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.settings import Settings

ROOT = Path(__file__).parents[2]
SECRETS = {"PLAIT_SECRET_KEY": "k" * 32, "POSTGRES_PASSWORD": "p" * 16}


VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<operator>:[?-])(?P<default>[^}]*)\}")


def interpolate(node: Any) -> Any:
    """Compose's ``${NAME:?error}`` and ``${NAME:-default}``, which it fills in after parsing."""
    if isinstance(node, dict):
        return {key: interpolate(value) for key, value in node.items()}
    if isinstance(node, list):
        return [interpolate(item) for item in node]
    if isinstance(node, str):
        return VARIABLE.sub(
            lambda m: SECRETS[m["name"]] if m["operator"] == ":?" else m["default"], node
        )
    return node


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = interpolate(yaml.safe_load((ROOT / "docker-compose.yml").read_text()))
    return loaded


def plait_services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: s for name, s in compose["services"].items() if "build" in s}


def test_has_the_parts_of_the_local_stack(compose: dict[str, Any]) -> None:
    services = set(compose["services"])
    assert {"postgres", "redis", "migrate", "api", "beat", "worker", "worker-gpu"} == services
    assert compose["services"]["worker-gpu"]["profiles"] == ["gpu"]


def test_environment_is_accepted_by_server_mode(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for service in plait_services(compose).values():
        for name, value in service["environment"].items():
            monkeypatch.setenv(name, str(value))
            field = name.removeprefix("PLAIT_").lower()
            assert field in Settings.model_fields, name
        settings = Settings()
        assert settings.mode == "server"
        assert settings.allowed_hosts == ("localhost", "127.0.0.1")


def test_commands_name_modules_that_exist(compose: dict[str, Any]) -> None:
    commands = [s["command"] for s in plait_services(compose).values() if "command" in s]
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    written = re.findall(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)
    commands += [json.loads(line) for line in written]
    assert len(commands) == 4
    for command in commands:
        assert command[:2] == ["python", "-m"]
        assert importlib.util.find_spec(command[2]) is not None, command
        for argument in command[3:]:
            if re.fullmatch(r"[\w.]+:\w+", argument):
                assert importlib.util.find_spec(argument.partition(":")[0]) is not None


def test_dependencies_and_volumes_exist(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for dependency, condition in service.get("depends_on", {}).items():
            other = compose["services"][dependency]
            if condition["condition"] == "service_healthy":
                assert other["healthcheck"]["test"]
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in compose["volumes"]


def test_dockerfile_copies_files_that_exist_and_has_the_targets(compose: dict[str, Any]) -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
    targets = set(re.findall(r"^FROM .* AS (\w+)$", dockerfile, re.MULTILINE))
    assert {s["build"]["target"] for s in plait_services(compose).values()} <= targets


def test_only_loopback_is_published(compose: dict[str, Any]) -> None:
    ports = [p for s in compose["services"].values() for p in s.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker client on this machine")
def test_docker_compose_accepts_the_file() -> None:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode:
        pytest.skip("the docker client has no compose plugin")
    command = ["docker", "compose", "--profile", "gpu", "config", "--quiet"]
    subprocess.run(command, cwd=ROOT, env={"PATH": "/usr/bin:/bin", **SECRETS}, check=True)
