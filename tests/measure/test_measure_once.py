"""What was measured once is known: to the next search, to other models, and to other jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.graphs import DIAMOND, SIDE, Dag, graph_of, wide
from support.noisy_device import NoisyDevice

from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import FileIndex, MemoryIndex, ProfileIndex
from workers.schedulers.base import SearchResult
from workers.schedulers.ios import IosScheduler
from workers.schedulers.ios.scheduler import Mode

BOTH: Dag = (*wide(4), (5,), (6,), (6,), (7, 8))
"""A block of four branches, and one of two."""

MODES: tuple[Mode, ...] = ("exhaustive", "exact", "guided")


def search(
    dag: Dag, device: NoisyDevice, index: ProfileIndex, mode: Mode
) -> tuple[SearchResult, MeasuringOracle]:
    graph = graph_of(dag)
    oracle = MeasuringOracle(graph, {"w": torch.eye(SIDE)}, device, index)
    return IosScheduler(mode=mode).schedule(graph, oracle), oracle


@pytest.mark.parametrize("mode", MODES)
def test_a_second_search_asks_the_device_nothing_and_answers_the_same(mode: Mode) -> None:
    device, index = NoisyDevice(luck=0.05), MemoryIndex()
    found, first = search(BOTH, device, index, mode)
    prepared = len(device.order)
    again, second = search(BOTH, device, index, mode)
    assert again == found
    assert len(device.order) == prepared > first.measured > 0
    assert first.rechecked > 0
    assert (second.measured, second.rechecked) == (0, 0)


def test_another_process_knows_it_too(tmp_path: Path) -> None:
    device, path = NoisyDevice(luck=0.05), tmp_path / "index.jsonl"
    found, _ = search(DIAMOND, device, FileIndex(path), "guided")
    prepared = len(device.order)
    again, _ = search(DIAMOND, device, FileIndex(path), "guided")
    assert again == found
    assert len(device.order) == prepared


@pytest.mark.parametrize("mode", MODES)
def test_a_model_of_known_blocks_asks_the_device_nothing(mode: Mode) -> None:
    """Two jobs' models have the blocks of a third one's, under other names."""
    device, index = NoisyDevice(luck=0.05), MemoryIndex()
    for dag in (wide(4), DIAMOND):
        search(dag, device, index, "exhaustive")
    _, oracle = search(BOTH, device, index, mode)
    assert oracle.measured == 0
    assert oracle.looked_up > 0


@pytest.mark.parametrize("mode", MODES)
def test_equal_blocks_are_measured_once(mode: Mode) -> None:
    twice: Dag = (*DIAMOND, (3,), (4,), (4,), (5, 6))
    lengths = {}
    for dag in (DIAMOND, twice):
        device = NoisyDevice(luck=0.05)
        search(dag, device, MemoryIndex(), mode)
        lengths[dag] = len(device.order)
    assert lengths[twice] == lengths[DIAMOND]
