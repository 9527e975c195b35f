"""A timeline as a Chrome trace: the rules of the Trace Event Format, and the download."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx
import orjson
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.db.tables import Timeline
from backend.results.filenames import result_filename
from backend.results.trace import TraceSubject, chrome_trace

SUBJECT = TraceSubject("squeezenet", 4, "ios", "sim:v100: Tesla V100", "aten", True, 1.5)

TIMES = st.floats(0, 1e4)
SPANS = st.lists(
    st.builds(
        lambda unit, stream, start, ms, waited: {
            "unit": unit,
            "kind": "conv",
            "stream": stream,
            "start_ms": start,
            "end_ms": start + ms,
            "waited": [{"reason": "threads", "ms": waited}],
        },
        st.text(max_size=8),
        st.integers(0, 40),
        TIMES,
        TIMES,
        TIMES,
    ),
    max_size=30,
)
STEPS = st.lists(st.tuples(TIMES, st.integers(0, 5120)), max_size=8)


def events(trace: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


@given(SPANS, STEPS)
def test_every_trace_keeps_the_rules_of_the_format(
    spans: list[dict[str, Any]], steps: list[tuple[float, int]]
) -> None:
    trace = orjson.loads(orjson.dumps(chrome_trace(SUBJECT, spans, steps)))
    assert trace["displayTimeUnit"] in {"ms", "ns"}
    for event in trace["traceEvents"]:
        assert event["ph"] in {"X", "C", "M"}
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        assert event["tid"] != event["pid"]
    slices, counters = events(trace, "X"), events(trace, "C")
    assert len(slices) == len(spans)
    assert [event["args"]["warps"] for event in counters] == [warps for _, warps in steps]
    assert all(event["ts"] >= 0 for event in slices + counters)
    named = {e["tid"]: e["args"]["name"] for e in events(trace, "M") if e["name"] == "thread_name"}
    assert set(named.values()) == {f"stream {span['stream']}" for span in spans}
    for track in named:
        on_track = [event for event in slices if event["tid"] == track]
        ordered = sorted(on_track, key=lambda event: (event["ts"], event["ts"] + event["dur"]))
        for earlier, later in pairwise(ordered):
            assert earlier["dur"] >= 0
            # Whole nanoseconds, as viewers keep them.
            assert round((earlier["ts"] + earlier["dur"]) * 1e3) <= round(later["ts"] * 1e3)


def test_times_are_microseconds_and_waits_are_told() -> None:
    waited = [{"reason": "event of unit 'squeeze'", "ms": 0.25}]
    span = {
        "unit": "expand1x1",
        "kind": "conv",
        "stream": 1,
        "start_ms": 1.25,
        "end_ms": 3.5,
        "waited": waited,
    }
    [slice_] = events(chrome_trace(SUBJECT, [span]), "X")
    assert (slice_["name"], slice_["ts"], slice_["dur"]) == ("expand1x1", 1250.0, 2250.0)
    assert slice_["args"]["waited"] == waited
    del span["waited"]  # as timelines were stored before they told of waits
    [slice_] = events(chrome_trace(SUBJECT, [span]), "X")
    assert slice_["args"]["waited"] == []


def test_the_process_says_the_device_and_that_it_is_simulated() -> None:
    def process(subject: TraceSubject) -> str:
        meta = events(chrome_trace(subject, []), "M")
        return next(str(e["args"]["name"]) for e in meta if e["name"] == "process_name")

    assert process(SUBJECT) == "sim:v100: Tesla V100 (simulated)"
    real = TraceSubject("m", 1, "ios", "cuda:0", "aten", simulated=False, latency_ms=1.0)
    assert process(real) == "cuda:0"
    assert chrome_trace(SUBJECT, [])["otherData"]["simulated"] is True


def test_file_names_hold_nothing_of_a_path() -> None:
    assert result_filename("a/b c.v2.onnx", 8, "ios", "zip") == "b-c-v2-batch8-ios.zip"
    assert result_filename("..", 1, "ios", "zip") == "model-batch1-ios.zip"


async def test_a_trace_is_downloaded_as_a_file(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    job = rows.job(device="sim:v100", model_name="my net.onnx")
    environment = {"device": "Tesla V100"}
    result = rows.result(job.id, simulated=True, environment=environment, provider="inductor")
    bare = rows.result(job.id, scheduler="greedy")
    span = {"unit": "a", "kind": "conv", "stream": 0, "start_ms": 0.0, "end_ms": 1.0}
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(job)
        session.flush()
        session.add_all([result, bare])
        session.flush()
        session.add(Timeline(result_id=result.id, spans=[span], resident_warps=[[0.0, 64.0]]))
    url = f"/api/v1/jobs/{job.id}/results/{result.id}/trace"
    answer = await client.get(url)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-disposition"].endswith("my-net-batch1-ios.trace.json")
    trace = answer.json()
    names = [e["args"]["name"] for e in events(trace, "M") if e["name"] == "process_name"]
    assert names == ["sim:v100: Tesla V100 (simulated)"]
    assert trace["otherData"]["provider"] == "inductor"
    assert [event["args"] for event in events(trace, "C")] == [{"warps": 64.0}]

    [listed] = [
        r for r in (await client.get(f"/api/v1/jobs/{job.id}/results")).json() if r["simulated"]
    ]
    assert (listed["environment"], listed["provider"]) == (environment, "inductor")
    for job_id, result_id in ((uuid4(), result.id), (job.id, uuid4()), (job.id, bare.id)):
        missing = await client.get(f"/api/v1/jobs/{job_id}/results/{result_id}/trace")
        assert missing.status_code == 404
