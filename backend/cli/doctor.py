"""``plait doctor``: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from backend.cli.exits import ExitCode
from backend.cli.local import running_stack
from backend.cli.output import Json, console, print_json
from backend.settings import Settings, get_settings

MIN_PYTHON = (3, 11)
MIN_NODE = 20
MIN_FREE_BYTES = 4 * 1024**3
FRONTEND = Path(__file__).parents[2] / "frontend" / "dist" / "index.html"


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked thing; ``remedy`` says how to get it when it is missing."""

    name: str
    ok: bool
    required: bool
    detail: str
    remedy: str = ""


def _python(settings: Settings) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= MIN_PYTHON
    return Finding("python", ok, True, version, "install Python 3.11 or newer")


def _torch(settings: Settings) -> Finding:
    remedy = "run `make up`, which installs it"
    if importlib.util.find_spec("torch") is None:
        return Finding("torch", False, True, "not installed", remedy)
    return Finding("torch", True, True, importlib.metadata.version("torch"))


def _tvm(settings: Settings) -> Finding:
    remedy = "pip install 'plait[tvm]'; only tuning kernels needs it"
    if importlib.util.find_spec("tvm") is None:
        return Finding("tvm", False, False, "not installed", remedy)
    return Finding("tvm", True, False, importlib.metadata.version("apache-tvm"))


def _node(settings: Settings) -> Finding:
    remedy = "install Node.js 20 or newer; only building the dashboard needs it"
    path = shutil.which("node")
    if path is None:
        return Finding("node", False, False, "not found", remedy)
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    major = re.match(r"v(\d+)", said)
    return Finding(
        "node", major is not None and int(major[1]) >= MIN_NODE, False, said.strip(), remedy
    )


def _frontend(settings: Settings) -> Finding:
    built = FRONTEND.exists()
    detail = "built" if built else "not built"
    return Finding("dashboard", built, True, detail, "run `make up`, which builds it")


def _home(settings: Settings) -> Finding:
    home = settings.home
    existing = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    writable = os.access(existing, os.W_OK)
    detail = f"{home}, {free / 1024**3:.0f} GiB free" + ("" if writable else ", not writable")
    remedy = "set PLAIT_HOME to a writable directory with at least 4 GiB free"
    return Finding("data", writable and free >= MIN_FREE_BYTES, True, detail, remedy)


def port(settings: Settings) -> Finding:
    """Whether the API can listen where the settings say."""
    address = f"{settings.host}:{settings.port}"
    if running_stack(settings.home):
        return Finding("port", True, True, f"{address}, in use by Plait")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            remedy = "stop what uses the port, or set PLAIT_PORT"
            return Finding("port", False, True, f"{address}: {error.strerror}", remedy)
    return Finding("port", True, True, f"{address} is free")


def _sandbox(settings: Settings) -> Finding:
    """Imports still run as limited child processes without this, but share the network."""
    command = ["unshare", "--user", "--map-root-user", "--net", "--mount", "true"]
    path = shutil.which("unshare")
    works = path is not None and (
        subprocess.run([path, *command[1:]], capture_output=True, check=False).returncode == 0
    )
    detail = "namespaces available" if works else "no user, network and mount namespaces"
    remedy = "allow unprivileged user namespaces, so that imports run without a network"
    return Finding("sandbox", works, False, detail, remedy)


def _gpu(settings: Settings) -> Finding:
    path = shutil.which("nvidia-smi")
    if path is None:
        return Finding("gpu", False, False, "no NVIDIA driver", "only needed to tune for a GPU")
    said = subprocess.run(
        [path, "--query-gpu=name", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    names = ", ".join(said.split("\n")[:-1]) or "none visible"
    return Finding("gpu", bool(said.strip()), False, names)


def _chromium(settings: Settings) -> Finding:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    remedy = "apt-get install chromium; only `make test` needs it"
    return Finding("chromium", path is not None, False, path or "not found", remedy)


CHECKS: tuple[Callable[[Settings], Finding], ...] = (
    _python, _torch, _tvm, _frontend, _home, port, _sandbox, _node, _chromium, _gpu,
)  # fmt: skip


def doctor(as_json: Json = False) -> None:
    """Check this machine; exit code 1 if something that Plait needs is missing."""
    settings = get_settings()
    findings = [check(settings) for check in CHECKS]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            style = "green" if finding.ok else "red" if finding.required else "yellow"
            mark = "✓" if finding.ok else "✗" if finding.required else "–"
            console.print(f"{mark} {finding.name:10} {finding.detail}", style=style, markup=False)
            if not finding.ok and finding.remedy:
                console.print(f"  {finding.remedy}", style="dim", markup=False)
    if any(finding.required and not finding.ok for finding in findings):
        raise typer.Exit(ExitCode.JOB_FAILED)
