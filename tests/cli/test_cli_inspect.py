"""``plait inspect`` from a shell: numbers, tables, and what it says of what it cannot read."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from schedulers.ios_table1 import BLOCKS, RANDWIRE_LARGE, SQUEEZENET, Table1Block
from typer.testing import CliRunner, Result

from backend.cli.exits import ExitCode
from backend.cli.inspect_tables import (
    blocks_table,
    exactly,
    scaled,
    scientific,
    totals_table,
    units_table,
)
from backend.cli.main import app


def plait_inspect(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)])


def complaint(result: Result) -> str:
    """What it says on standard error, in one line."""
    return " ".join(result.stderr.split())


def adjacency_json(*arguments: str | Path) -> dict[str, Any]:
    result = plait_inspect("--adjacency", *arguments, "--json")
    assert result.exit_code == ExitCode.OK, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("block", BLOCKS, ids=[block.file.stem for block in BLOCKS])
def test_table_1_from_files(block: Table1Block) -> None:
    found = adjacency_json(block.file, "--convention", "published")
    assert (found["model"], found["n"], found["width"]) == (
        block.file.stem,
        block.units,
        block.width,
    )
    assert (found["r"], found["s"]) == (None, None)
    counts = found["counts"]["published"]
    assert scientific(counts["transitions"]) == scientific(int(float(block.transitions)))
    assert scientific(counts["schedules"]) == scientific(int(float(block.schedules)))
    exact = block.published.get((None, None))
    if exact is not None:
        assert counts == {
            "states": exact.states,
            "transitions": exact.transitions,
            "schedules": exact.schedules,
            "distinct_stages": exact.stages,
        }


def test_pruned_under_both_conventions() -> None:
    found = adjacency_json(SQUEEZENET.file, "--r", "3", "--s", "8")
    assert (found["r"], found["s"]) == (3, 8)
    assert {name: counts["transitions"] for name, counts in found["counts"].items()} == {
        "paper": SQUEEZENET.paper[3, 8].transitions,
        "published": SQUEEZENET.published[3, 8].transitions,
    }


def test_the_table_has_all_digits() -> None:
    result = plait_inspect("--adjacency", RANDWIRE_LARGE.file, "--convention", "published")
    assert result.exit_code == ExitCode.OK
    assert "n = 33, width = 8" in result.stdout
    assert "91,973,106,270,886,052,032,664 (9.2e22)" in result.stdout


def test_counting_is_given_up(tmp_path: Path) -> None:
    file = tmp_path / "wide.json"
    file.write_text(json.dumps({"successors": [[]] * 64}))
    found = adjacency_json(file, "--max-transitions", "10000", "--convention", "paper")
    assert found["counts"]["paper"] == {
        "more_than": 10_000,
        "reason": "counting stopped after 10,000 transitions",
    }
    text = plait_inspect("--adjacency", file, "--max-transitions", "10000").stdout
    assert "more than 10,000" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("successors", "not JSON: Expecting value at line 1, column 1"),
        ('{"nodes": []}', 'no "successors"'),
        ('{"successors": [[1], [2]]}', "successors[1] holds 2, but the Units are 0 to 1"),
        ('{"successors": [[0]]}', "successors[0] holds 0: a Unit cannot follow itself"),
        ('{"successors": [[1], [0]]}', "cycle: 0 → 1 → 0"),
        (
            json.dumps({"successors": [[]] * 65}),
            "65 Units and at most 64 are searched or counted at once",
        ),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "graph.json"
    file.write_text(content)
    result = plait_inspect("--adjacency", file)
    assert result.exit_code == ExitCode.USAGE
    assert message in complaint(result)
    assert "graph.json" in complaint(result)


def test_no_such_file(tmp_path: Path) -> None:
    result = plait_inspect("--adjacency", tmp_path / "none.json")
    assert result.exit_code == ExitCode.USAGE
    assert "No such file" in complaint(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either a model or --adjacency"),
        (["zoo:squeezenet", "--adjacency", "x"], "either a model or --adjacency"),
        (["--adjacency", "x", "--batch", "2"], "--batch means something only with a model"),
        (["zoo:squeezenet", "--convention", "paper"], "only with --adjacency"),
        (["none.onnx"], "no such file"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    result = plait_inspect(*arguments)
    assert result.exit_code == ExitCode.USAGE
    assert message in complaint(result)


def test_bounds_below_one_are_refused() -> None:
    assert plait_inspect("--adjacency", SQUEEZENET.file, "--r", "0").exit_code == ExitCode.USAGE


def test_counting_needs_no_torch() -> None:
    program = (
        "import sys\n"
        "from backend.cli.main import app\n"
        "app(['inspect', '--adjacency', sys.argv[1]], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, SQUEEZENET.file], check=True, timeout=60)


@pytest.fixture(scope="module")
def squeezenet() -> dict[str, Any]:
    arguments = ("--batch", "2", "--granularity", "operator", "--r", "1")
    result = plait_inspect("zoo:squeezenet", *arguments, "--json")
    assert result.exit_code == ExitCode.OK, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_model_of_the_zoo(squeezenet: dict[str, Any]) -> None:
    assert squeezenet["name"] == "squeezenet"
    assert (squeezenet["granularity"], squeezenet["batch_size"]) == ("operator", 2)
    assert squeezenet["inputs"][0]["shape"] == [2, 3, 224, 224]
    assert "activation" in {unit["kind"] for unit in squeezenet["units"]}  # none is fused
    # With r = 1, either definition admits the same endings.
    assert squeezenet["pruning"] == {"r": 1, "s": None}
    for block in squeezenet["blocks"]:
        assert block["counts"]["paper"] == block["counts"]["published"]


def test_the_tables_of_a_model(squeezenet: dict[str, Any]) -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    for table in (
        totals_table(squeezenet),
        units_table(squeezenet, 3),
        blocks_table(squeezenet, 2),
    ):
        console.print(table)
    text = console.export_text()
    totals = squeezenet["totals"]
    assert "squeezenet at batch 2" in text
    assert f"{totals['units']} (operator) of {totals['operators']} operators" in text
    assert f"the first 3 of {totals['units']} (all with --all)" in text
    assert squeezenet["units"][2]["name"] in text
    assert f"{totals['parameters']:,}" in text
    assert f"counted with r = 1, s = any: the first 2 of {len(squeezenet['blocks'])}" in text


def test_a_model_that_is_not_in_the_zoo() -> None:
    result = plait_inspect("zoo:nothing")
    assert result.exit_code == ExitCode.JOB_FAILED
    assert "nothing" in complaint(result)


def test_blocks_that_were_not_counted_say_so() -> None:
    block = {"first": 0, "n": 80, "width": 9, "equal_to": None, "divided": True}
    counts = {"paper": {"more_than": 1000}, "published": {"too_wide": "…"}}
    table = blocks_table(
        {"blocks": [{**block, "counts": counts}], "pruning": {"r": 3, "s": None}}, None
    )
    assert table.title == "Blocks, counted with r = 3, s = any"
    assert [list(column.cells) for column in table.columns] == [
        *(["0*"], ["0–79"], ["80"], ["9"]),
        *(["> 1,000"], ["–"], ["not counted"], ["–"], [""]),
    ]


def test_numbers() -> None:
    assert scientific(7_150_961_274_600) == "7.2e12"
    assert scientific(10**99) == "1.0e99"
    assert exactly(999_999) == "999,999"
    assert exactly(1_000_000) == "1,000,000 (1.0e6)"
    assert [scaled(n) for n in (0, 999, 1000, 11_459_930_112)] == ["0", "999", "1 k", "11.5 G"]
    assert scaled(238_595_052, "B") == "239 MB"
    assert scaled(5 * 10**15) == "5,000 T"
