"""A search that was killed goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.fake_device import ScriptedDevice
from support.graphs import graph_of, wide

from workers.graph.graph import Graph
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import FileIndex, MemoryIndex
from workers.schedulers.ios import IosScheduler
from workers.schedules.plan import Plan

SEARCH = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.fake_device import ScriptedDevice
from support.graphs import graph_of, wide
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import FileIndex
from workers.schedulers.ios import IosScheduler

def latency(graph, plan):
    time.sleep(0.01)
    return float(len(plan.launches))

index = FileIndex(Path(sys.argv[1]))
oracle = MeasuringOracle(graph_of(wide(5)), {{}}, ScriptedDevice(latency), index)
IosScheduler(strategies="parallel").schedule(graph_of(wide(5)), oracle)
print("ended")
"""


def launches(graph: Graph, plan: Plan) -> float:
    return float(len(plan.launches))


@pytest.mark.timeout(120)
def test_a_killed_search_goes_on_without_measuring_anything_again(tmp_path: Path) -> None:
    path, tests = tmp_path / "index.jsonl", Path(__file__).parents[1]
    search = subprocess.Popen(
        [sys.executable, "-c", SEARCH.format(tests=str(tests)), str(path)],
        cwd=tests.parent,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tests.parent)},
    )
    try:
        deadline = time.monotonic() + 60
        while (not path.exists() or path.read_bytes().count(b"\n") < 3) and search.poll() is None:
            assert time.monotonic() < deadline, "the search measures nothing"
            time.sleep(0.002)
    finally:
        search.send_signal(signal.SIGKILL)
        output, _ = search.communicate()
    assert search.returncode == -signal.SIGKILL
    assert b"ended" not in output

    graph = graph_of(wide(5))
    before = len(list(FileIndex(path).entries()))
    resumed = MeasuringOracle(graph, {}, ScriptedDevice(launches), FileIndex(path))
    found = IosScheduler(strategies="parallel").schedule(graph, resumed)
    assert before >= 3
    fresh = MemoryIndex()
    IosScheduler(strategies="parallel").schedule(
        graph, MeasuringOracle(graph, {}, ScriptedDevice(launches), fresh)
    )
    keys = [key for key, _ in FileIndex(path).entries()]
    assert resumed.measured == len(keys) - before > 0
    assert set(keys) == set(fresh.lookup(keys))
    assert path.read_bytes().count(b"\n") == len(keys) == len(list(fresh.entries()))
    again = MeasuringOracle(graph, {}, ScriptedDevice(launches), FileIndex(path))
    assert IosScheduler(strategies="parallel").schedule(graph, again) == found
    assert again.measured == 0
