"""The artifact, unpacked and run by a Python that sees nothing of Plait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.graphs import SIDE, graph_of, wide
from support.unit_graphs import convolution, unit_graph
from torch import Tensor

from workers.devices.providers import create
from workers.graph.fused import CALLS, PACKINGS, TRANSPOSED, FusedCall, Packed, UnitKernels
from workers.graph.fused_json import kernels_to_json
from workers.graph.graph import ValueRef
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.graph.serialize import graph_hash, graph_to_json
from workers.schedules import run
from workers.schedules.artifact import (
    ArtifactError,
    read_artifact,
    require_made_for,
    write_artifact,
)
from workers.schedules.lower import lower
from workers.schedules.schedule import (
    ScheduleError,
    ScheduleKey,
    Stage,
    StageSchedule,
    schedule_from_json,
)

GRAPH = graph_of(wide(3), "model")
WEIGHTS = {"w": torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(1)) / 3}
SCHEDULE = StageSchedule(
    "ios", (Stage((("u0",),)), Stage((("u1",), ("u2", "u3"))), Stage((("u4",),)))
)
KEY = ScheduleKey(graph_hash(GRAPH), "cpu-1", "float32", 1, {"torch": torch.__version__})


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """The unpacked artifact."""
    path = tmp_path / "model.zip"
    plan = lower(SCHEDULE, GRAPH, 2)
    write_artifact(path, GRAPH, WEIGHTS, SCHEDULE, KEY, plan, {"latency_ms": 1.5}, parallelism=2)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    return tmp_path / "unpacked"


def execute(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "run.py", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def change(path: Path, edit: Any) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def test_it_holds_what_it_says_and_leaves_nothing_beside_it(artifact: Path) -> None:
    files = sorted(str(path.relative_to(artifact)) for path in artifact.rglob("*.*"))
    assert files == [
        "README.txt", "model/graph.json", "model/weights.safetensors", "run.py", "schedule.json",
    ]  # fmt: skip
    assert sorted(path.name for path in artifact.parent.iterdir()) == ["model.zip", "unpacked"]
    document = json.loads((artifact / "schedule.json").read_text())
    assert schedule_from_json(document) == (SCHEDULE, KEY)
    assert document["summary"] == {"latency_ms": 1.5}
    assert "scheduled by Plait (ios, batch size 1)" in (artifact / "README.txt").read_text()


@pytest.mark.parametrize("order", [(), ("--sequential",)], ids=["schedule", "sequential"])
def test_it_computes_what_the_interpreter_does(artifact: Path, order: tuple[str, ...]) -> None:
    inputs = random_inputs(GRAPH, 7)
    torch.save(inputs, artifact / "in.pt")
    finished = execute(artifact, "--input", "in.pt", "--output", "out.pt", *order)
    assert finished.stdout == "u4: float32 (8, 8)\n", finished.stderr
    outputs: dict[str, Tensor] = torch.load(artifact / "out.pt")
    expected = run_graph(GRAPH, WEIGHTS, inputs)
    assert outputs.keys() == expected.keys()
    torch.testing.assert_close(outputs["u4"], expected["u4"])


def test_random_inputs_are_those_of_its_seed(artifact: Path) -> None:
    assert execute(artifact, "--seed", "3", "--output", "out.pt").returncode == 0
    expected = run_graph(GRAPH, WEIGHTS, random_inputs(GRAPH, 3))
    torch.testing.assert_close(torch.load(artifact / "out.pt")["u4"], expected["u4"])


def test_bench_prints_both_medians(artifact: Path) -> None:
    finished = execute(artifact, "--bench", "--repeats", "5")
    assert [line.split()[0] for line in finished.stdout.splitlines()] == [
        "schedule", "sequential", "speed-up",
    ]  # fmt: skip


def test_it_can_be_imported_and_needs_only_torch(artifact: Path) -> None:
    code = (
        "import sys, torch; from run import load; model = load(); x = torch.ones(8, 8);"
        "assert torch.equal(model(x)['u4'], model(x=x, sequential=True)['u4']);"
        "assert not {'workers', 'safetensors', 'networkx'} & set(sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=artifact, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(
    ("file", "edit", "words"),
    [
        ("schedule.json", lambda d: d.update(version=9), "is plait.schedule 9"),
        ("model/graph.json", lambda d: d.update(format="onnx"), "is onnx 1"),
        ("model/graph.json", lambda d: d["weights"].append("w9"), "has no weight 'w9'"),
    ],
)
def test_files_of_another_kind_are_refused(
    artifact: Path, file: str, edit: Any, words: str
) -> None:
    change(artifact / file, edit)
    with pytest.raises(run.ArtifactError, match=words):
        run.load(artifact)


def test_the_command_line_tells_errors_in_one_line(artifact: Path) -> None:
    (artifact / "schedule.json").write_text("{")
    finished = execute(artifact)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: ")
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("os.system.default", "'os.system.default' is not allowed"),
        ("aten.from_file.default", "is not allowed"),
        ("aten.relu_.default", "changes its operands"),
        ("aten.nothing.default", "has no operator 'aten.nothing.default'"),
    ],
)
def test_operators_that_do_more_than_compute_are_refused(
    artifact: Path, target: str, words: str
) -> None:
    def edit(data: Any) -> None:
        data["units"][1]["operators"][0]["target"] = target

    change(artifact / "model" / "graph.json", edit)
    with pytest.raises(run.ArtifactError, match=words):
        run.load(artifact)


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + bytes(7) + b"{}"])
def test_broken_weights_are_refused(artifact: Path, content: bytes) -> None:
    (artifact / "model" / "weights.safetensors").write_bytes(content)
    with pytest.raises(run.ArtifactError, match=r"weights\.safetensors"):
        run.load(artifact)


def test_offsets_outside_the_weights_are_refused(artifact: Path) -> None:
    path = artifact / "model" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(run.ArtifactError, match="do not fit shape"):
        run.load(artifact)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
    ],
)
def test_safetensors_of_every_type(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {
        "matrix": torch.arange(6).reshape(2, 3).to(dtype),
        "scalar": torch.tensor(1).to(dtype),
        "empty": torch.empty(0, 4, dtype=dtype),
    }
    save_file(tensors, tmp_path / "t.safetensors")
    read = run.read_safetensors(tmp_path / "t.safetensors")
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


@pytest.mark.timeout(60)
def test_a_unit_that_fails_is_named_and_nothing_hangs(artifact: Path) -> None:
    def edit(data: Any) -> None:
        data["units"][3]["operators"][0]["arguments"][0] = 1.0

    change(artifact / "model" / "graph.json", edit)
    model = run.load(artifact)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="unit 'u3' failed"):
            model(torch.ones(SIDE, SIDE))


def test_a_unit_that_reads_what_it_does_not_list_is_refused(artifact: Path) -> None:
    def edit(data: Any) -> None:
        data["units"][3]["operators"][0]["arguments"][0] = {"value": "x"}

    change(artifact / "model" / "graph.json", edit)
    with pytest.raises(run.ArtifactError, match="unit 'u3' reads 'x' from nowhere"):
        run.load(artifact)


def test_wrong_inputs_are_named(artifact: Path) -> None:
    model = run.load(artifact)
    with pytest.raises(ValueError, match="input 'x' is missing; inputs: x"):
        model()
    with pytest.raises(ValueError, match=r"the model takes torch.float32 \(8, 8\)"):
        model(torch.ones(1))
    with pytest.raises(ValueError, match="input 'x' is missing"):
        model.time({})


def test_it_runs_on_fewer_cores_than_it_was_made_for(artifact: Path) -> None:
    plan = lower(SCHEDULE, GRAPH, 16)
    path = artifact / "wide.zip"
    write_artifact(path, GRAPH, WEIGHTS, SCHEDULE, KEY, plan, {}, parallelism=16)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(artifact)
    inputs = random_inputs(GRAPH, 0)
    outputs = run.load(artifact)(**inputs)
    torch.testing.assert_close(outputs["u4"], run_graph(GRAPH, WEIGHTS, inputs)["u4"])


def test_special_arguments_are_decoded() -> None:
    unit = {
        "operators": [
            {
                "target": "aten.full.default",
                "arguments": [[2], {"float": "-inf"}],
                "keywords": {"dtype": {"dtype": "float64"}},
                "outputs": ["f"],
            },
            {
                "target": "aten.cat.default",
                "arguments": [[{"value": "f"}, {"value": "x"}], 0],
                "keywords": {},
                "outputs": ["c"],
            },
            {
                "target": "aten.split.Tensor",
                "arguments": [{"value": "c"}, 2],
                "keywords": {},
                "outputs": ["a", "b"],
            },
        ],
        "inputs": ["x"],
        "weights": [],
        "outputs": ["a", "b"],
    }
    values = {"x": torch.ones(2, dtype=torch.float64)}
    run.compile_unit(unit)(values)
    assert values["a"].tolist() == [-torch.inf, -torch.inf]
    assert values["b"].tolist() == [1.0, 1.0]
    assert "c" not in values


def rewritten(path: Path, **files: bytes | None) -> Path:
    """A copy of the zip with files replaced, added, or left out where None; ``__`` is a slash and
    ``_0`` a dot."""
    changed = path.with_name("changed.zip")
    edits = {name.replace("__", "/").replace("_0", "."): data for name, data in files.items()}
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for entry in old.infolist():
            data = edits.pop(entry.filename, old.read(entry))
            if data is not None:
                new.writestr(entry.filename, data)
        for name, data in edits.items():
            new.writestr(name, data or b"")
    return changed


def edited(path: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("schedule.json"))
    edit(document)
    return rewritten(path, schedule_0json=json.dumps(document).encode())


def test_what_was_written_is_read_again(artifact: Path) -> None:
    found = read_artifact(artifact.parent / "model.zip")
    assert (found.graph, found.schedule, found.key) == (GRAPH, SCHEDULE, KEY)
    assert found.plan == lower(SCHEDULE, GRAPH, 2)
    assert torch.equal(found.weights["w"], WEIGHTS["w"])
    assert (found.provider, found.summary, found.parallelism) == ("aten", {"latency_ms": 1.5}, 2)
    assert found.graph_hash == found.key.graph_hash


def test_a_schedule_that_merges_keeps_both_graphs_apart(tmp_path: Path) -> None:
    """The plan is for the rewritten graph, which is stored; the key is the original's."""
    original = ScheduleKey("0" * 32, "cpu-1", "float32", 1, {})
    merging = StageSchedule("ios", (Stage((("a",), ("b",)), "merge"),))
    path, plan = tmp_path / "m.zip", lower(SCHEDULE, GRAPH, 2)
    write_artifact(path, GRAPH, WEIGHTS, merging, original, plan, {}, 2, provider="inductor")
    found = read_artifact(path)
    assert found.key.graph_hash == "0" * 32
    assert found.graph_hash == graph_hash(GRAPH)
    assert found.provider == "inductor"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    torch.testing.assert_close(
        run.load(tmp_path)(**random_inputs(GRAPH, 1))["u4"],
        run_graph(GRAPH, WEIGHTS, random_inputs(GRAPH, 1))["u4"],
    )


def _swap_launches(document: dict[str, Any]) -> None:
    launches = document["plan"]["launches"]
    launches[0], launches[-1] = launches[-1], launches[0]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d.update(version=7), "schedule version 7 is not 1; schedule again"),
        (lambda d: d.update(format="x"), "not a Plait schedule"),
        (lambda d: d.pop("plan"), "malformed, or of another version of Plait: KeyError('plan')"),
        (lambda d: d.pop("graph_hash"), "KeyError('graph_hash'); schedule again"),
        (lambda d: d.update(graph_hash="f" * 32), "but the stored one has"),
        (lambda d: d.update(parallelism=0), "'parallelism' is no count"),
        (lambda d: d["plan"]["launches"].pop(), "unit 'u4' is never launched"),
        (lambda d: d["plan"].update(launches=5), "malformed"),
        (_swap_launches, "waits for event"),
        (lambda d: d["plan"]["streams"][0].update(threads=1), "not what this version of Plait"),
        (lambda d: d["arrangement"]["hosts"].pop(), "'arrangement', which run.py follows"),
        (lambda d: d["stages"].pop(), "not of the same units"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(
    artifact: Path, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    path = edited(artifact.parent / "model.zip", edit)
    with pytest.raises(ArtifactError) as error:
        read_artifact(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_a_zip_of_something_else_is_refused(artifact: Path) -> None:
    good = artifact.parent / "model.zip"
    with pytest.raises(ArtifactError, match=r"it has no model/graph\.json"):
        read_artifact(rewritten(good, model__graph_0json=None))
    with pytest.raises(ArtifactError, match=r"it has '\.\./evil' besides"):
        read_artifact(rewritten(good, **{"../evil": b"x"}))
    with pytest.raises(ArtifactError, match=r"schedule\.json is not JSON"):
        read_artifact(rewritten(good, schedule_0json=b"{"))
    with pytest.raises(ArtifactError, match="the model is broken: cannot read the graph"):
        read_artifact(rewritten(good, model__weights_0safetensors=b"junk"))
    with pytest.raises(ArtifactError, match="cannot be read as a zip"):
        read_artifact(good.with_name("missing.zip"))
    text = good.with_name("text.zip")
    text.write_text("no zip")
    with pytest.raises(ArtifactError, match="cannot be read as a zip"):
        read_artifact(text)
    packed = good.with_name("packed.zip")
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    with pytest.raises(ArtifactError, match="is compressed"):
        read_artifact(packed)


def test_a_flipped_bit_in_the_weights_is_noticed(artifact: Path) -> None:
    path = artifact.parent / "model.zip"
    content = bytearray(path.read_bytes())
    at = content.index(WEIGHTS["w"].numpy().tobytes())
    content[at + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="Bad CRC-32"):
        read_artifact(path)


def test_an_operator_that_is_not_allowed_is_refused(artifact: Path) -> None:
    graph = (artifact / "model" / "graph.json").read_text()
    changed = graph.replace("aten.tanh.default", "os.system.default").encode()
    with pytest.raises(ArtifactError, match=r"calls 'os\.system\.default', which is not allowed"):
        read_artifact(rewritten(artifact.parent / "model.zip", model__graph_0json=changed))


def test_another_device_is_told_what_to_run_again(artifact: Path) -> None:
    found = read_artifact(artifact.parent / "model.zip")
    require_made_for(found, "cpu", "cpu-1", {"torch": torch.__version__}, graph_hash(GRAPH))
    with pytest.raises(ScheduleError) as error:
        require_made_for(found, "cpu", "cpu-2", {"torch": "9.9"})
    text = str(error.value)
    assert "device_fingerprint is 'cpu-1', here it is 'cpu-2'" in text
    assert "here it is {'torch': '9.9'}" in text
    assert text.endswith("schedule again: plait schedule MODEL --device cpu --batch 1")
    with pytest.raises(ScheduleError, match="graph_hash"):
        require_made_for(found, "cpu", "cpu-1", {"torch": torch.__version__}, "e" * 32)


def of_inductor(artifact: Path) -> run.Model:
    change(artifact / "schedule.json", lambda d: d.update(provider="inductor"))
    return run.load(artifact)


def test_units_are_compiled_where_they_were_tuned_compiled(artifact: Path) -> None:
    model = of_inductor(artifact)
    for seed in range(2):
        inputs = random_inputs(GRAPH, seed)
        for sequential in (False, True):
            outputs = model(sequential=sequential, **inputs)
            torch.testing.assert_close(outputs["u4"], run_graph(GRAPH, WEIGHTS, inputs)["u4"])
    assert model.notes == []


def test_a_unit_that_cannot_be_compiled_runs_as_it_is_and_says_so(
    artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_compiler(*arguments: object, **options: object) -> None:
        raise RuntimeError("InvalidCxxCompiler: there is none\nand more")

    monkeypatch.setattr(torch, "compile", no_compiler)
    model = of_inductor(artifact)
    inputs = random_inputs(GRAPH, 1)
    torch.testing.assert_close(model(**inputs)["u4"], run_graph(GRAPH, WEIGHTS, inputs)["u4"])
    assert sorted(model.notes) == [
        f"unit 'u{n}' runs uncompiled: InvalidCxxCompiler: there is none" for n in range(5)
    ]


def test_a_schedule_for_a_gpu_runs_in_sequence_on_the_cpu_and_says_so(artifact: Path) -> None:
    def edit(data: Any) -> None:
        data["key"]["device_fingerprint"] = "cuda-1"

    change(artifact / "schedule.json", edit)
    finished = execute(artifact, "--device", "cpu")
    assert finished.returncode == 0, finished.stderr
    assert "note: the schedule is for a GPU; on the CPU the units run one after" in finished.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_here_is_told(artifact: Path) -> None:
    finished = execute(artifact, "--device", "cuda")
    assert finished.returncode == 2
    assert finished.stderr == "error: device 'cuda' is not here; run with --device cpu\n"


CONVOLUTION, CONVOLUTION_WEIGHTS = convolution()
CONVOLUTION_SCHEDULE = StageSchedule("sequential", (Stage((("c",),)),))


@pytest.fixture
def with_kernels(tmp_path: Path) -> Path:
    """The unpacked artifact of a convolution with relu, fused for the CPU, on one thread."""
    (unit,) = CONVOLUTION.units
    kernels = kernels_to_json("cpu", {"c": create("aten").describe(CONVOLUTION, unit)})
    key = ScheduleKey(graph_hash(CONVOLUTION), "cpu-1", "float32", 2, {"torch": torch.__version__})
    plan = lower(CONVOLUTION_SCHEDULE, CONVOLUTION, 1)
    write_artifact(
        tmp_path / "c.zip",
        CONVOLUTION,
        CONVOLUTION_WEIGHTS,
        CONVOLUTION_SCHEDULE,
        key,
        plan,
        {},
        1,
        kernels=kernels,
    )
    with zipfile.ZipFile(tmp_path / "c.zip") as archive:
        archive.extractall(tmp_path / "convolution")
    return tmp_path / "convolution"


class Calls:
    """The fused operators that are looked up, and on how many threads."""

    def __init__(self, patch: pytest.MonkeyPatch, missing: str = "") -> None:
        self.made: list[tuple[str, int]] = []
        real = run._fused_operator

        def found(target: str, allowed: tuple[str, ...]) -> Any:
            if target == missing:
                raise AttributeError(f"there is no {target}")
            function = real(target, allowed)

            def call(*arguments: Any, **keywords: Any) -> Any:
                self.made.append((target, torch.get_num_threads()))
                return function(*arguments, **keywords)

            call._schema = function._schema  # type: ignore[attr-defined]  # as an operator has
            return call

        patch.setattr(run, "_fused_operator", found)


PACK = "mkldnn._reorder_convolution_weight.default"
CALL = "mkldnn._convolution_pointwise.default"


def check_convolution(model: run.Model, runs: int = 1, sequential: bool = False) -> None:
    for seed in range(runs):
        inputs = random_inputs(CONVOLUTION, seed)
        expected = run_graph(CONVOLUTION, CONVOLUTION_WEIGHTS, inputs)["r"]
        found = model(sequential=sequential, **inputs)["r"]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_it_calls_what_it_was_tuned_with_and_packs_weights_once(
    with_kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    model = run.load(with_kernels)
    check_convolution(model, runs=3)
    assert calls.made == [(PACK, 1), (CALL, 1), (CALL, 1), (CALL, 1)]
    check_convolution(model, sequential=True)
    assert len(calls.made) == 5, "the sequential order makes the same calls"
    assert model.notes == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_weights_are_packed_for_the_threads_of_the_host(
    with_kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edit(data: Any) -> None:
        (host,) = data["arrangement"]["hosts"]
        host["cores"] = [0, 1]
        host["steps"][0]["threads"] = 2

    calls = Calls(monkeypatch)
    change(with_kernels / "schedule.json", edit)
    check_convolution(run.load(with_kernels))
    assert calls.made == [(PACK, 2), (CALL, 2)]


@pytest.mark.parametrize("missing", [PACK, CALL])
def test_without_an_operator_units_run_plainly_and_say_so(
    with_kernels: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    calls = Calls(monkeypatch, missing)
    model = run.load(with_kernels)
    check_convolution(model, runs=2)
    assert calls.made in ([], [(PACK, 1)])
    assert model.notes == [f"units run without their fused calls: there is no {missing}"]


def test_calls_for_another_device_are_not_made_and_it_says_so(with_kernels: Path) -> None:
    change(with_kernels / "schedule.json", lambda d: d["kernels"].update(device="cuda"))
    model = run.load(with_kernels)
    check_convolution(model)
    assert model.notes == ["its fused calls are for cuda; they are not used here"]


def test_an_artifact_without_kernels_runs_plainly(with_kernels: Path) -> None:
    """As those of before they were written."""
    change(with_kernels / "schedule.json", lambda d: d.pop("kernels"))
    check_convolution(run.load(with_kernels))


def _first_call(document: dict[str, Any]) -> dict[str, Any]:
    return document["kernels"]["units"]["c"]["calls"][0]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: _first_call(d).update(target="aten.relu_.default"), "'aten.relu_.default'"),
        (lambda d: _first_call(d)["arguments"][1].update(packed="os.system"), "'os.system'"),
    ],
)
def test_calls_that_are_not_allowed_are_refused(
    with_kernels: Path, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    packed = with_kernels.with_name("c.zip")
    assert sum(len(unit.calls) for unit in read_artifact(packed).kernels.values()) == 1
    with pytest.raises(ArtifactError, match=f"{words}, which is not allowed"):
        read_artifact(edited(packed, edit))
    change(with_kernels / "schedule.json", edit)
    with pytest.raises(run.ArtifactError, match=f"{words} is not allowed"):
        run.load(with_kernels)


def test_what_may_be_called_is_the_same_on_both_sides() -> None:
    assert set(run.FUSED) == CALLS
    assert set(run.PACKINGS) == PACKINGS


def test_small_convolutions_have_their_weights_channels_last() -> None:
    graph, weights = convolution(channels=4, size=5)
    kernels = {"c": create("aten").describe(graph, graph.units[0])}
    schedule = {"plan": {"launches": []}, "kernels": kernels_to_json("cpu", kernels)}
    inputs = random_inputs(graph, 0)
    values = {**weights, **inputs}
    notes: list[str] = []
    run.Units(graph_to_json(graph), schedule, torch.device("cpu"), notes).get("c", 1)(values)
    torch.testing.assert_close(values["r"], run_graph(graph, weights, inputs)["r"])
    assert values["r"].is_contiguous(memory_format=torch.channels_last)
    assert notes == []


def test_a_transposed_weight_and_a_keyword() -> None:
    """As GPUs take them; this one operator computes the same on a CPU."""
    graph, weights = unit_graph("linear")
    (unit,) = graph.units
    call = FusedCall(
        tuple(operator.name for operator in unit.operators),
        "aten._addmm_activation.default",
        (ValueRef("b"), ValueRef("x"), Packed("w", TRANSPOSED)),
        "g",
        (("use_gelu", True),),
    )
    kernels = kernels_to_json("cpu", {unit.name: UnitKernels((call,))})
    schedule = {"plan": {"launches": []}, "kernels": kernels}
    inputs = random_inputs(graph, 0)
    values, notes = {**weights, **inputs}, list[str]()
    run.Units(graph_to_json(graph), schedule, torch.device("cpu"), notes).get(unit.name, 1)(values)
    assert notes == []
    torch.testing.assert_close(values["g"], run_graph(graph, weights, inputs)["g"])
