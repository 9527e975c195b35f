"""Models that lie, flood, hang, die or keep on working, run as alternatives."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from support.hostile import FINDINGS, attacking, infect
from support.hostile_targets import attack_targets, reached
from torch import Tensor, nn

from workers.alternatives import separate
from workers.alternatives.catalog import AlternativeError
from workers.alternatives.opening import open_alternative
from workers.alternatives.separate import SeparateModel
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile
from workers.graph.random_inputs import random_inputs

ONE_CORE = (min(os.sched_getaffinity(0)),)
INPUTS = {"x": torch.ones(2, 8)}
Infected = Callable[[str], AbstractContextManager[SeparateModel]]


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


@pytest.fixture(scope="module")
def innocent(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Graph]:
    path = tmp_path_factory.mktemp("innocent") / "model.pt2"
    program = torch.export.export(Model(), (INPUTS["x"],))
    torch.export.save(program, path)
    return path, import_program(program, 2)[0]


@pytest.fixture
def infected(innocent: tuple[Path, Graph], tmp_path: Path) -> Infected:
    """Opens a model that runs code when it is loaded, in the process that will time it."""

    def open_infected(code: str) -> AbstractContextManager[SeparateModel]:
        path, graph = innocent
        limits = SandboxLimits(2 << 30, seconds=200, hidden=(tmp_path / "hidden",))
        source = ModelFile(infect(path, tmp_path / "model.pt2", code), "pt2")
        return open_alternative("eager", source, graph, 2, tmp_path / "w", limits, ONE_CORE)

    return open_infected


RUNNER = "from workers.alternatives.runners import Runner\n"


def test_it_does_not_work_between_its_turns_nor_claim_more_than_the_round_trip(
    infected: Infected,
) -> None:
    code = f"""
{RUNNER}
import threading
def work():
    while True:
        pass
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
honest = Runner.time
Runner.time = lambda self, repeats: honest(self, 1) if repeats == 1 else [1e9] * repeats
"""
    with infected(code) as alternative:
        before = used_seconds(alternative)
        time.sleep(0.5)
        assert used_seconds(alternative) == before
        alternative.time(INPUTS, 1)
        after = used_seconds(alternative)
        assert after > before
        time.sleep(0.2)
        assert used_seconds(alternative) == after
        with pytest.raises(AlternativeError, match=r"claims 2000000000\.000 ms for what took"):
            alternative.time(INPUTS, 2)
        with pytest.raises(AlternativeError, match="ended"):
            alternative.time(INPUTS, 2)


@pytest.mark.parametrize(
    "said",
    [
        None, {}, [], [1.0], [1.0] * 3, [1.0, -1.0], [1.0, 0.0], [1.0, math.nan], [1.0, math.inf],
        [1.0, "1"], [1.0, True], [1.0, [1.0]], "ab", [6.0, 5.0],
    ],
)  # fmt: skip
def test_latencies_that_cannot_be_are_refused(said: Any) -> None:
    with pytest.raises(AlternativeError):
        separate._latencies(said, 2, elapsed_ms=10.0)
    assert separate._latencies([6.0, 3.0], 2, elapsed_ms=10.0) == [6.0, 3.0]


def test_outputs_of_another_size_are_refused(infected: Infected) -> None:
    code = f"import torch\n{RUNNER}Runner.run = lambda self: [torch.zeros(1 << 20)]"
    with (
        infected(code) as alternative,
        pytest.raises(AlternativeError, match="its outputs take over 1048640 bytes"),
    ):
        alternative.run(INPUTS)


def test_outputs_of_another_kind_are_refused(innocent: tuple[Path, Graph], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path, graph = tmp_path / "outputs", innocent[1]

    def refused(pattern: str, **tensors: Tensor) -> None:
        save_file(tensors, path)
        with pytest.raises(AlternativeError, match=pattern):
            separate._tensors(path, graph)

    refused("gave 0 outputs")
    refused("gave 2 outputs", output_0=torch.zeros(2, 8), more=torch.zeros(1))
    refused(r"torch.float32 of shape \(8, 2\)", output_0=torch.zeros(8, 2))
    refused("output 0 is torch.float64", output_0=torch.zeros(2, 8, dtype=torch.float64))
    path.write_bytes(b"nonsense")
    with pytest.raises(AlternativeError, match="cannot be read"):
        separate._tensors(path, graph)


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/passwd"), lambda path: None,
     lambda path: path.hardlink_to(__file__)],
    ids=["pipe", "folder", "link", "nothing", "hard link"],
)  # fmt: skip
def test_outputs_in_no_plain_file_are_refused(make: Any, tmp_path: Path) -> None:
    make(tmp_path / "outputs")
    with pytest.raises(AlternativeError, match="its outputs"):
        separate._content(tmp_path / "outputs", 10)


def test_a_hang_ends_it(infected: Infected, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"""
{RUNNER}
import time
honest, calls = Runner.time, []
def hang(self, repeats):
    calls.append(1)
    time.sleep(600 if len(calls) > 1 else 0)
    return honest(self, repeats)
Runner.time = hang
"""
    monkeypatch.setattr(separate, "LEAST_PATIENCE_S", 0.5)
    monkeypatch.setattr(separate, "_PATIENCE", 0)
    monkeypatch.setattr(SeparateModel, "_give", lambda self, inputs: None)
    with infected(code) as alternative:
        alternative.time({"x": INPUTS["x"]}, 1)
        with pytest.raises(AlternativeError, match=r"eager: it did not answer within 0\.5 s"):
            alternative.time(INPUTS, 1)


CHATTER = """
import os
for end in range(3, 20):
    try:
        os.write(end, b"{}\\n" * 3)
    except OSError:
        pass
"""


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import ctypes; ctypes.string_at(0)", r"its process crashed \(Segmentation fault\)"),
        ("x = bytearray(3 << 30)", r"takes more than 2\.0 GiB of memory"),
        (CHATTER, "it says more than it was asked"),
    ],
    ids=["crash", "memory", "chatter"],
)  # fmt: skip
def test_a_model_that_breaks_while_it_is_loaded(code: str, reason: str, infected: Infected) -> None:
    with pytest.raises(AlternativeError, match=reason), infected(code):
        pass


def used_seconds(alternative: SeparateModel) -> float:
    """Processor time of all of its processes."""
    ticks = 0
    for pid in alternative._process._row:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


# The folder that inputs are written to is not the model's to write in.
SWAP = """
given = Path(os.environ["TMPDIR"]).parent / "given"
try:
    os.symlink("/tmp/elsewhere", given / "inputs-1.safetensors")
    found = "could"
except OSError as error:
    found = type(error).__name__
Path(os.environ["TMPDIR"], "found").write_text(found)
"""


def test_a_hostile_model_reaches_nothing(
    infected: Infected, innocent: tuple[Path, Graph], tmp_path: Path
) -> None:
    inputs = random_inputs(innocent[1], 1)
    with attack_targets(tmp_path) as targets, infected(attacking(targets) + SWAP) as alternative:
        [place] = (tmp_path / "w").glob("sandbox-*")
        findings = json.loads((place / "scratch" / FINDINGS).read_text())
        swapped = (place / "scratch" / "found").read_text()
        (output,) = alternative.run(inputs).values()
    assert reached(findings) == set()
    assert swapped != "could"
    torch.testing.assert_close(output, inputs["x"] + 1)
    assert not place.exists()
