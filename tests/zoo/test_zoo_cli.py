"""``plait zoo list`` and ``plait zoo export``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner, Result

from backend.cli.exits import ExitCode
from backend.cli.main import app
from workers import zoo


def plait(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["zoo", *map(str, arguments)], env={"COLUMNS": "200"})


def expected(name: str, *arguments: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = zoo.build(name)(*arguments)
    return found


def test_list_names_every_model() -> None:
    shown = plait("list")
    assert shown.exit_code == ExitCode.OK
    assert all(f"zoo:{name}" in shown.stdout for name in zoo.names())
    assert "138.36 M" in shown.stdout


def test_list_for_programs() -> None:
    models = {model["name"]: model for model in json.loads(plait("list", "--json").stdout)}
    assert tuple(models) == zoo.names()
    assert models["deepfm"]["inputs"] == [
        {"name": "numbers", "shape": ["N", 13], "dtype": "float32"},
        {"name": "categories", "shape": ["N", 26], "dtype": "int64"},
    ]
    assert models["vgg16"]["parameters"] == 138_357_544
    assert "Simonyan" in models["vgg16"]["source"]


def test_an_onnx_file_is_whole_and_computes_the_same_at_any_batch(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    result = plait("export", "zoo:squeezenet", "--format", "onnx", "--output", path)
    assert result.exit_code == ExitCode.OK, result.output
    assert list(tmp_path.iterdir()) == [path]  # no weights beside it
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == ["image"]
    assert session.get_inputs()[0].shape == ["batch", 3, 224, 224]
    for batch in (1, 3):
        image = torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(batch))
        (found,) = session.run(["output_0"], {"image": image.numpy()})
        wanted = expected("squeezenet", image)
        assert abs(torch.from_numpy(found) - wanted).max() < 1e-5 * wanted.abs().max()


def test_a_model_of_several_inputs_keeps_their_names_and_types(tmp_path: Path) -> None:
    assert plait("export", "deepfm", "-f", "onnx", "-o", tmp_path).exit_code == ExitCode.OK
    session = onnxruntime.InferenceSession(
        tmp_path / "deepfm.onnx", providers=["CPUExecutionProvider"]
    )
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(4, 13, generator=generator)
    categories = torch.randint(0, 10_000, (4, 26), generator=generator)
    (found,) = session.run(None, {"numbers": numbers.numpy(), "categories": categories.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), expected("deepfm", numbers, categories))


def test_a_pt2_file_loads_at_the_batch_asked_for(tmp_path: Path) -> None:
    result = plait("export", "squeezenet", "-f", "pt2", "-b", "3", "-o", tmp_path, "--json")
    assert result.exit_code == ExitCode.OK, result.output
    path = tmp_path / "squeezenet.pt2"
    written = {"path": str(path), "bytes": path.stat().st_size, "batch_size": 3}
    assert json.loads(result.stdout) == written
    program = torch.export.load(path).module()
    image = torch.randn(3, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(program(image), expected("squeezenet", image))
    with pytest.raises(Exception, match=r"shape|size"):
        program(image[:2])


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    unknown = plait("export", "squeeze_net", "-f", "onnx")
    assert unknown.exit_code == ExitCode.USAGE
    assert "squeeze_net" in unknown.stderr
    assert "squeezenet" in unknown.stderr.replace("squeeze_net", "")
    assert plait("export", "squeezenet", "-f", "hdf5").exit_code == ExitCode.USAGE
    assert plait("export", "squeezenet").exit_code == ExitCode.USAGE
    assert plait("export", "squeezenet", "-f", "pt2", "-b", "0").exit_code == ExitCode.USAGE
    nowhere = plait("export", "squeezenet", "-f", "pt2", "-o", tmp_path / "none" / "x.pt2")
    assert nowhere.exit_code == ExitCode.USAGE
    assert "no such directory" in nowhere.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused = plait("export", "squeezenet", "-f", "pt2", "-o", tmp_path)
    assert refused.exit_code == ExitCode.USAGE
    assert "permission denied" in refused.stderr


def test_a_failed_write_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch.export, "save", full)
    failed = plait("export", "deepfm", "-f", "pt2", "-o", tmp_path)
    assert failed.exit_code == ExitCode.JOB_FAILED
    assert "No space left" in failed.stderr
    assert not list(tmp_path.iterdir())
