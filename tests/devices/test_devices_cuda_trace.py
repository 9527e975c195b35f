"""Reading traces as torch.profiler writes them on a GPU, without one.

The events are what Kineto writes (``output_json.cpp``, ``CuptiActivity.cpp``): their categories,
fields and units, among others that must be passed over.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gpus import h200_facts
from support.graphs import DIAMOND, Dag, dags, graph_of
from support.schedules import stream_schedules

from workers.devices.cuda.replay import match_replay
from workers.devices.cuda.timeline import kernels, timeline
from workers.devices.cuda.trace import (
    Record,
    graph_records,
    launched_inside,
    read_trace,
    unclaimed,
)
from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.validate import happened_before

HOST, THREAD, OTHER_THREAD = 4021, 4021, 4055
MM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)"
TANH = "void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel>(int)"


def call(
    correlation: int, ts: float, name: str = "cudaLaunchKernel", tid: int = THREAD
) -> dict[str, Any]:
    category = "cuda_driver" if name.startswith("cu") and not name.startswith("cuda") else None
    return {
        "ph": "X", "cat": category or "cuda_runtime", "name": name, "pid": HOST, "tid": tid,
        "ts": ts, "dur": 4.352,
        "args": {"External id": 17, "cbid": 211, "correlation": correlation},
    }  # fmt: skip


def kernel(
    correlation: int, ts: float, dur: float, name: str = MM, stream: int = 7, **more: Any
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
        "args": {
            "External id": 17, "queued": 0, "device": 0, "context": 1, "stream": stream,
            "correlation": correlation, "registers per thread": 122, "shared memory": 12288,
            "blocks per SM": 0.242424, "warps per SM": 0.969697, "grid": [4, 8, 1],
            "block": [128, 1, 1], "est. achieved occupancy %": 2, **more,
        },
    }  # fmt: skip


def mark(name: str, ts: float, dur: float, tid: int = THREAD) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "user_annotation", "name": name, "pid": HOST, "tid": tid, "ts": ts,
        "dur": dur, "args": {"External id": 12, "Record function id": 0, "Ev Idx": 3},
    }  # fmt: skip


SIDE_BY_SIDE = Plan((Stream(), Stream()), (Launch("0", 0), Launch("1", 1)))

NOISE: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "ts": 0.0, "pid": 0, "tid": 0, "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": HOST, "tid": THREAD, "ts": 1005.0,
     "dur": 60.0, "args": {"External id": 17, "Sequence number": 4, "Fwd thread id": 0}},
    {"ph": "s", "id": 501, "pid": HOST, "tid": THREAD, "ts": 1010.0, "cat": "ac2g", "name": "ac2g"},
    {"ph": "f", "id": 501, "pid": 0, "tid": 7, "ts": 1100.0, "cat": "ac2g", "name": "ac2g",
     "bp": "e"},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "plait.launch.0", "pid": 0, "tid": 7,
     "ts": 1100.0, "dur": 400.0, "args": {"External id": 12}},
    {"ph": "X", "cat": "overhead", "name": "Activity Buffer Request", "pid": -1, "tid": 0,
     "ts": 1001.0, "dur": 900.0},
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
     "tid": "PyTorch Profiler", "ts": 900.0, "dur": 3000.0, "args": {"Op count": 0}},
    {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 4000.0},
]  # fmt: skip

EAGER = [
    *NOISE,
    mark("plait.launch.0", 1000.0, 100.0),
    call(501, 1010.0),
    # A driver call inside a runtime call shares its id.
    call(501, 1011.0, "cuLaunchKernel"),
    call(502, 1050.0, "cuLaunchKernelEx"),
    mark("plait.launch.1", 1200.0, 50.0),
    call(503, 1210.5, "cudaMemsetAsync"),
    call(504, 1220.25, "cudaLaunchKernelExC"),
    mark("somebody.else", 1300.0, 50.0),
    call(505, 1310.0),
    call(506, 1215.0, tid=OTHER_THREAD),
    mark("plait.launch.2", 1400.0, 20.0),
    kernel(504, 1900.5, 10.0, stream=13),
    kernel(501, 1500.0, 33.5),
    kernel(502, 1540.0, 2.25, TANH),
    {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 13, "ts": 1890.0,
     "dur": 1.5, "args": {"External id": 18, "device": 0, "context": 1, "stream": 13,
                          "correlation": 503, "bytes": 64, "memory bandwidth (GB/s)": 0.04}},
    kernel(505, 1700.0, 5.0),
    kernel(506, 1705.0, 5.0),
    kernel(999, 1800.0, 5.0),
]  # fmt: skip


def trace_of(*events: dict[str, Any]) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1763740000000000000,
        "traceEvents": list(events),
        "traceName": "trace.json",
    }


def test_kernels_are_found_by_the_launch_that_shares_their_correlation_id() -> None:
    data = json.loads(json.dumps(trace_of(*EAGER)))
    found = launched_inside(read_trace(data), "plait.launch.")
    assert [(unit, record.name, record.correlation) for unit, record in found] == [
        ("0", MM, 501),
        ("0", TANH, 502),
        ("1", "Memset (Device)", 503),
        ("1", MM, 504),
    ]
    assert [record.correlation for record in unclaimed(read_trace(data))] == [999]


def test_a_kernels_record_is_read() -> None:
    (_, first), (_, second), (_, memset), (_, last) = launched_inside(
        read_trace(trace_of(*EAGER)), "plait.launch."
    )
    assert first == Record(
        name=MM,
        category="kernel",
        start_us=1500.0,
        duration_us=33.5,
        correlation=501,
        stream=7,
        grid=(4, 8, 1),
        block=(128, 1, 1),
        registers_per_thread=122,
        shared_memory_bytes=12288,
    )
    assert memset.grid is None
    assert memset.registers_per_thread is None
    profile = kernels([("b", last), ("a", second), ("a", first)])
    assert [(entry.unit, entry.name, entry.duration_ms) for entry in profile] == [
        ("a", MM, 0.0335),
        ("a", TANH, 0.00225),
        ("b", MM, 0.01),
    ]
    assert profile[0].grid == (4, 8, 1)
    assert profile[0].shared_memory_bytes == 12288


def test_times_count_where_threads_are_numbered_differently() -> None:
    events = [
        mark("plait.launch.0", 1000.0, 100.0, tid=1),
        call(501, 1010.0, tid=140213),
        kernel(501, 1500.0, 33.5),
    ]
    ((unit, _),) = launched_inside(read_trace(trace_of(*events)), "plait.launch.")
    assert unit == "0"


@pytest.mark.parametrize("data", [{}, {"traceEvents": []}, trace_of(*NOISE)])
def test_a_trace_without_kernels(data: dict[str, Any]) -> None:
    trace = read_trace(data)
    assert (trace.records, trace.calls, trace.annotations) == ((), {}, ())


REPLAY = [
    call(700, 2000.0, "cudaGraphLaunch"),
    # By time; the graph runs both streams at once. Nodes are numbered as they were captured.
    kernel(700, 2100.0, 30.0, stream=20, **{"graph id": 9, "graph node id": (9 << 32) | 1}),
    kernel(700, 2105.0, 9.0, stream=21, **{"graph id": 9, "graph node id": (9 << 32) | 4}),
    kernel(700, 2131.0, 2.0, TANH, stream=20, **{"graph node id": (9 << 32) | 2}),
    {"ph": "X", "cat": "gpu_memset", "name": "Memset (Unknown)", "pid": 0, "tid": 21, "ts": 2101.0,
     "dur": 1.5, "args": {"correlation": 700, "graph node id": (9 << 32) | 3}},
]  # fmt: skip


def test_a_replays_nodes_are_matched_with_launches() -> None:
    launched = launched_inside(read_trace(trace_of(*EAGER)), "plait.launch.")
    replayed = graph_records(read_trace(trace_of(*NOISE, *REPLAY, kernel(999, 2200.0, 1.0))))
    assert [record.name for record in replayed] == [MM, "Memset (Unknown)", MM, TANH]
    matched = match_replay(SIDE_BY_SIDE, launched, replayed)
    assert not isinstance(matched, str)
    assert [(unit, record.start_us) for unit, record in matched] == [
        ("0", 2100.0),
        ("0", 2131.0),
        ("1", 2101.0),
        ("1", 2105.0),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda events: events[:-1], "the graph ran 3 kernels and copies, its launches 4"),
        (
            lambda events: [
                *events[:3],
                kernel(700, 2131.0, 2.0, "another", **{"graph node id": (9 << 32) | 2}),
                events[4],
            ],
            "unit '0' launched 'void at::native",
        ),
        (
            lambda events: [*events[:3], kernel(700, 2099.0, 2.0, TANH), events[4]],
            "fit the Plan's order in no way",
        ),
    ],
    ids=["fewer", "another kernel", "before what it needs"],
)
def test_a_replay_that_cannot_be_told_apart_says_why(change: Any, words: str) -> None:
    launched = launched_inside(read_trace(trace_of(*EAGER)), "plait.launch.")
    replayed = graph_records(read_trace(trace_of(*change(REPLAY))))
    matched = match_replay(SIDE_BY_SIDE, launched, replayed)
    assert isinstance(matched, str)
    assert words in matched


def test_without_numbers_the_plans_order_tells_a_replays_records_apart() -> None:
    """The first product is that of the Unit whose tanh follows, whoever was launched first."""

    def record(name: str, start: float, end: float, stream: int | None = None) -> Record:
        return Record(name, "kernel", start, end - start, 1, stream)

    launched = [
        ("0", record(MM, 0, 1)),
        ("0", record("relu", 1, 2)),
        ("1", record(MM, 2, 3)),
        ("1", record(TANH, 3, 4)),
    ]
    replayed = [
        record(MM, 10, 20, 5),
        record(TANH, 20, 30, 5),
        record(MM, 31, 40, 6),
        record("relu", 40, 41, 6),
    ]
    matched = match_replay(SIDE_BY_SIDE, tuple(launched), replayed)
    assert [unit for unit, _ in matched] == ["1", "1", "0", "0"]
    after = Plan((Stream(), Stream()), (Launch("0", 0, records=0), Launch("1", 1, waits=(0,))))
    assert isinstance(match_replay(after, tuple(launched), replayed), str)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), dag=dags(max_units=10), seed=st.integers(0, 999))
def test_replays_are_told_apart_as_numbers_tell_or_by_an_equal_kernel(
    data: st.DataObject, dag: Dag, seed: int
) -> None:
    """Any execution in the Plan's order, with few different kernels: by number exactly, without
    numbers so that each Unit has its kernels in order, after all before it."""
    graph = graph_of(dag)
    plan = lower(data.draw(stream_schedules(graph, dag)), graph, 1)
    draw = random.Random(seed)
    kernels = [[draw.choice("abc") for _ in range(draw.randrange(3))] for _ in plan.launches]
    happened = happened_before(plan)
    launched, numbered, number = [], {}, 0
    for position, launch in enumerate(plan.launches):
        for place, name in enumerate(kernels[position]):
            number += 1
            launched.append((launch.unit, Record(name, "kernel", float(number), 0.5, number)))
            numbered[position, place] = number
    done, replayed, time, truth = [0] * len(kernels), [], 0.0, {}
    while any(count < len(own) for count, own in zip(done, kernels, strict=True)):
        able = [
            n
            for n, own in enumerate(kernels)
            if done[n] < len(own)
            and all(done[m] == len(kernels[m]) for m in range(len(kernels)) if happened[n] >> m & 1)
        ]
        n = draw.choice(able)
        time += 1 + draw.random()
        record = Record(kernels[n][done[n]], "kernel", time, 1.0, 7, None, numbered[n, done[n]])
        truth[record.node] = plan.launches[n].unit
        done[n] += 1
        replayed.append(record)
    matched = match_replay(plan, tuple(launched), replayed)
    assert {record.node: unit for unit, record in matched} == truth
    blind = [replace(record, node=None) for record in replayed]
    matched = match_replay(plan, tuple(launched), blind)
    assert not isinstance(matched, str)
    spans: dict[str, list[Record]] = {}
    for unit, record in matched:
        spans.setdefault(unit, []).append(record)
    for position, launch in enumerate(plan.launches):
        own = spans.get(launch.unit, [])
        assert [record.name for record in own] == kernels[position]
        for m in range(len(kernels)):
            if happened[position] >> m & 1 and own:
                before = spans.get(plan.launches[m].unit, [])
                assert all(record.end_us <= own[0].start_us for record in before)


def test_a_timeline_of_records() -> None:
    """Units without kernels take no time, after what they read and what their stream did."""
    graph = graph_of(DIAMOND)
    plan = Plan(
        (Stream(), Stream()),
        (
            Launch("u0", 0, records=0),
            Launch("u1", 0),
            Launch("u2", 1, waits=(0,), records=1),
            Launch("u3", 0, waits=(1,)),
        ),
    )

    def record(start: float, end: float) -> Record:
        extent = {"grid": (132, 1, 1), "block": (256, 1, 1)}
        return Record(MM, "kernel", start, end - start, 1, **extent, registers_per_thread=32)

    recorded = [
        ("u0", record(1000, 1010)),
        ("u0", record(1015, 1040)),
        ("u2", record(1050, 1090)),
        ("u3", record(1100, 1110)),
    ]
    found = timeline(plan, graph, recorded, h200_facts().gpu)
    assert [(s.unit, s.stream, s.start_ms, s.end_ms) for s in found.spans] == [
        ("u0", 0, 0.0, pytest.approx(0.04)),
        ("u1", 0, pytest.approx(0.04), pytest.approx(0.04)),
        ("u2", 1, pytest.approx(0.05), pytest.approx(0.09)),
        ("u3", 0, pytest.approx(0.1), pytest.approx(0.11)),
    ]
    assert found.spans[0].kind == "linear"
    # One block of eight warps on each of 132 SMs, while a kernel runs.
    assert {warps for _, warps in found.resident_warps} == {0.0, 132 * 8.0}
    assert timeline(plan, graph, recorded, None).resident_warps == ()
    assert [span.end_ms for span in timeline(plan, graph, [], None).spans] == [0.0] * 4


@given(st.permutations(EAGER))
def test_the_order_of_events_in_the_file_does_not_matter(events: list[dict[str, Any]]) -> None:
    wanted = launched_inside(read_trace(trace_of(*EAGER)), "plait.launch.")
    assert launched_inside(read_trace(trace_of(*events)), "plait.launch.") == wanted


def test_annotations_of_a_real_trace_are_read(tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for number in range(3):
            with torch.profiler.record_function(f"plait.launch.{number}"):
                torch.ones(4).add(1)
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    trace = read_trace(json.loads(path.read_text()))
    names = [mark.name for mark in trace.annotations if mark.name.startswith("plait")]
    assert names == ["plait.launch.0", "plait.launch.1", "plait.launch.2"]
    assert all(mark.end_us > mark.start_us for mark in trace.annotations)
    assert trace.records == ()
