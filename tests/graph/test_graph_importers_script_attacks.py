"""TorchScript that attacks on being loaded: outside of the sandbox it succeeds, inside it fails."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from support.hostile_scripts import Hog, Liar, Mapper, Reader, Sleeper, Writer, write_script

from workers.graph.importers import import_model
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ImportFailure, ModelFile

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=120)
DECLARED = '{"x": {"shape": ["batch", 8], "dtype": "float32"}}'
SECRET = b"a secret"

pytestmark = pytest.mark.filterwarnings("ignore")  # that TorchScript is deprecated


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "outside" / "secret"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


def attack(module: Any, target: Path, tmp_path: Path) -> ModelFile:
    path = write_script(module, target, tmp_path / "model.pt", DECLARED)
    return ModelFile(path, "torchscript")


def failure(source: ModelFile, tmp_path: Path, limits: SandboxLimits = LIMITS) -> ImportFailure:
    with pytest.raises(ImportFailure) as caught:
        import_model(source, 2, tmp_path / "work", limits)
    assert list((tmp_path / "work").iterdir()) == []
    return caught.value


def test_a_file_is_not_read(secret: Path, tmp_path: Path) -> None:
    source = attack(Reader, secret, tmp_path)
    loaded = torch.jit.load(source.path)
    assert bytes(loaded(torch.zeros(8)).to(torch.uint8).tolist()) == SECRET, "it is an attack"
    found = failure(source, tmp_path)
    assert found.kind == "malformed"
    assert "torch.jit.load refuses the file" in found.detail
    assert "secret" not in found.detail.replace(str(secret), "")


def test_a_file_is_not_written(secret: Path, tmp_path: Path) -> None:
    proof = secret.with_name("proof")
    source = attack(Writer, proof, tmp_path)
    torch.jit.load(source.path)
    assert proof.exists(), "it is an attack"
    proof.unlink()
    with suppress(ImportFailure):  # torch does not say that it could not write
        import_model(source, 2, tmp_path / "work", LIMITS)
    assert not proof.exists()


def test_a_file_is_not_changed_through_shared_memory(secret: Path, tmp_path: Path) -> None:
    source = attack(Mapper, secret, tmp_path)
    torch.jit.load(source.path)
    assert secret.read_bytes() == bytes(8), "it is an attack"
    secret.write_bytes(SECRET)
    assert failure(source, tmp_path).kind == "malformed"
    assert secret.read_bytes() == SECRET


def test_a_load_that_never_ends_is_ended(secret: Path, tmp_path: Path) -> None:
    limits = SandboxLimits(memory_bytes=4 << 30, seconds=8)
    assert failure(attack(Sleeper, secret, tmp_path), tmp_path, limits).kind == "timeout"


def test_a_load_that_takes_all_memory_runs_out_of_it(secret: Path, tmp_path: Path) -> None:
    limits = SandboxLimits(memory_bytes=1 << 30, seconds=120)
    assert failure(attack(Hog, secret, tmp_path), tmp_path, limits).kind == "out_of_memory"


def test_what_it_prints_is_not_taken_for_the_sandbox_s_report(secret: Path, tmp_path: Path) -> None:
    model = import_model(attack(Liar, secret, tmp_path), 2, tmp_path / "work", LIMITS)
    assert "limits" in model.isolation
    assert "everything" not in model.isolation
