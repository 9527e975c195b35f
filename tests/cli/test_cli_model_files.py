"""How a command that needs no service tells a model file's format."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from support import archives

from backend.cli.exits import ExitCode
from backend.cli.model_files import file_format


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("net.pt2", archives.archive(), "pt2"),
        ("net.pth", archives.archive(archives.SCRIPTED), "torchscript"),
        ("NET.ONNX", archives.ONNX, "onnx"),
        ("net.zip", archives.archive(archives.BUNDLE), "onnx.zip"),
    ],
)
def test_the_format_is_told_by_the_rules_for_uploads(
    tmp_path: Path, name: str, content: bytes, found: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert file_format(path) == found


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("net.exe", b"MZ", "known endings: .onnx"),
        ("net.pt", archives.archive(archives.PICKLED), "do not say what to compute"),
        ("net.onnx", b"a text", "no ONNX model"),
        ("net.pt2", b"", "empty"),
        ("missing.pt2", None, "zoo:NAME"),
    ],
)
def test_another_file_is_a_matter_of_usage(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    words: str,
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(typer.Exit) as ended:
        file_format(path)
    assert ended.value.exit_code == ExitCode.USAGE
    assert words in " ".join(capsys.readouterr().err.split())
