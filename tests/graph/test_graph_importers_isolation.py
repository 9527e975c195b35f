"""What hostile code can reach from each layer of the sandbox, and from all of them together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hostile import FINDINGS, answering, attack_from_sandbox, attacking, infect
from support.hostile_targets import (
    EVERYTHING,
    FILES,
    PROCESSES,
    PROGRAMS,
    SOCKETS,
    attack_targets,
    reached,
)
from support.models import export_branches

import workers
from workers.graph.importers.isolation.view import needed_paths

REPOSITORY = Path(workers.__file__).parent.parent

# Refuses namespaces to what it runs, as containers do.
REFUSE = """
for kind in user net mnt pid ipc; do
    echo 0 > /proc/sys/user/max_${kind}_namespaces
done
exec "$@"
"""
WITHOUT_NAMESPACES = ["unshare", "--user", "--map-root-user", "sh", "-c", REFUSE, "sh"]


def works(*command: str) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


NAMESPACES = works("unshare", "-Urnm", "true")
needs_namespaces = pytest.mark.skipif(not NAMESPACES, reason="the kernel grants no namespaces")


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[dict[str, Any]]:
    with attack_targets(tmp_path) as found:
        yield found


def behind(layers: str, targets: dict[str, Any], tmp_path: Path, *wrapper: str) -> dict[str, Any]:
    """The findings of the attacks from a process that has called ``layers``."""
    scratch, root = tmp_path / "scratch", tmp_path / "root"
    scratch.mkdir()
    root.mkdir()
    code = f"""
import os
from pathlib import Path
from workers.graph.importers.isolation import isolate, kernel, landlock, limits, namespaces, seccomp
from workers.graph.importers.isolation.view import View, needed_paths
bounds = limits.Bounds(memory_bytes=1 << 30, seconds=20)
hidden = [Path({targets["hidden"]!r})]
view = View(needed_paths(hidden), Path({str(scratch)!r}), Path({str(root)!r}))
{layers}
{attacking(targets)}
"""
    environment = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(scratch)}
    subprocess.run(
        [*wrapper, sys.executable, "-P", "-c", code],
        check=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    findings: dict[str, Any] = json.loads((scratch / FINDINGS).read_text())
    return findings


def test_without_isolation_every_attack_succeeds(targets: dict[str, Any], tmp_path: Path) -> None:
    code = "os.open = lambda path, flags, opened=os.open: opened(path, os.O_RDONLY)"
    findings = behind(code, targets, tmp_path)
    Path(targets["outside"], "proof").unlink()
    assert reached(findings) >= EVERYTHING - {"become_root_again"}


def test_landlock_alone_guards_files_and_processes(targets: dict[str, Any], tmp_path: Path) -> None:
    layers = "limits.apply(bounds, counts_own_processes=False); landlock.restrict(view)"
    got = reached(behind(layers, targets, tmp_path))
    assert got.isdisjoint(FILES | {"read_the_starters_environment", "start_a_program"})
    # Landlock says nothing about connecting to a Unix socket by its path: seccomp does.
    assert "connect_to_the_hidden_socket" in got


def test_seccomp_alone_guards_sockets_and_programs(targets: dict[str, Any], tmp_path: Path) -> None:
    layers = "limits.apply(bounds, counts_own_processes=False); seccomp.restrict()"
    code = f"{layers}\nos.open = lambda path, flags, opened=os.open: opened(path, os.O_RDONLY)"
    got = reached(behind(code, targets, tmp_path))
    Path(targets["outside"], "proof").unlink()
    assert got.isdisjoint(SOCKETS | PROGRAMS | {"signal_the_starter"})
    assert got >= FILES


@needs_namespaces
def test_namespaces_alone_guard_files_sockets_and_processes(
    targets: dict[str, Any], tmp_path: Path
) -> None:
    layers = """
def refused(*arguments):
    raise OSError("not in this test")
landlock.restrict = seccomp.restrict = refused
assert isolate(view, bounds) == ("limits", "network", "processes", "mounts")
"""
    assert reached(behind(layers, targets, tmp_path)).isdisjoint(FILES | SOCKETS | PROCESSES)


@needs_namespaces
def test_a_plain_user_gets_every_layer_through_a_user_namespace(
    targets: dict[str, Any], tmp_path: Path
) -> None:
    layers = "isolate(view, bounds)"
    code = f"layers = {layers}\nassert set(layers) >= {{'network', 'processes', 'mounts'}}, layers"
    plain = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
    got = reached(behind(code, targets, tmp_path, *plain))
    assert got == set()


FURTHER = """
import ctypes, platform, signal
for leave in (os.setsid, lambda: os.setpgid(0, 0)):
    try:
        leave()
    except OSError:
        continue
    raise AssertionError("it has left its process group")
libc = ctypes.CDLL(None, use_errno=True)
clone = seccomp._MACHINES[platform.machine()].clone
if libc.syscall(clone, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    os._exit(1)
assert ctypes.get_errno() == 1, "a new user namespace by clone"
"""


def test_with_programs_a_process_gets_those_and_nothing_else(
    targets: dict[str, Any], tmp_path: Path
) -> None:
    code = f"isolate(view, bounds, programs=True)\n{FURTHER}"
    assert reached(behind(code, targets, tmp_path)) == {"start_a_process", "start_a_program"}


@needs_namespaces
def test_with_programs_and_no_namespaces_it_is_the_same(
    targets: dict[str, Any], tmp_path: Path
) -> None:
    code = f"layers = isolate(view, bounds, programs=True)\n{FURTHER}"
    code += 'assert layers == ("limits", "landlock", "seccomp"), layers'
    got = reached(behind(code, targets, tmp_path, *WITHOUT_NAMESPACES))
    assert got == {"start_a_process", "start_a_program"}


@pytest.fixture(scope="module")
def innocent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("innocent") / "model.pt2"
    export_branches(path)
    return path


def test_a_hostile_model_reaches_nothing(
    innocent: Path, targets: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_SECRET_KEY", "a secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:secret@localhost/plait")
    model = infect(innocent, tmp_path / "model.pt2", answering(attacking(targets), "{}"))
    layers, findings = attack_from_sandbox(model, tmp_path / "work", Path(targets["hidden"]))
    assert reached(findings) == set()
    environment = findings["environment"]
    assert not {name for name in environment if name.startswith(("PLAIT_", "DATABASE", "REDIS"))}
    assert "secret" not in json.dumps(environment)
    if NAMESPACES:
        assert layers == ("limits", "network", "processes", "mounts", "landlock", "seccomp")


@needs_namespaces
def test_a_hostile_model_reaches_nothing_where_namespaces_are_refused(
    innocent: Path, targets: dict[str, Any], tmp_path: Path
) -> None:
    model = infect(innocent, tmp_path / "model.pt2", answering(attacking(targets), "{}"))
    script = REPOSITORY / "tests" / "support" / "hostile.py"
    command = [sys.executable, str(script), str(model), str(tmp_path / "work"), targets["hidden"]]
    run = subprocess.run(
        [*WITHOUT_NAMESPACES, *command],
        check=True,
        capture_output=True,
        timeout=90,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    layers, findings = json.loads(run.stdout)
    assert layers == ["limits", "landlock", "seccomp"]
    assert reached(findings) == set()


def test_what_is_needed_leaves_the_hidden_folders_out(tmp_path: Path) -> None:
    inside = Path(sys.prefix, "bin")
    paths = needed_paths([inside, tmp_path])
    assert Path(sys.prefix) not in paths
    assert any(Path(sys.prefix) in path.parents for path in paths)
    assert not any(inside == path or inside in path.parents for path in paths)


def test_code_in_a_hidden_folder_stays_visible() -> None:
    assert Path(workers.__file__).parent in needed_paths([REPOSITORY])
    assert Path(sys.prefix) in needed_paths([Path(sys.prefix).parent])
