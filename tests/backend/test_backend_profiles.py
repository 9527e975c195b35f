"""Exporting, importing and counting the ProfileIndex over REST."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.db.tables import ProfileEntry
from backend.profiles.lines import MAX_LINE_BYTES
from backend.profiles.repository import EXPORTED_AT_ONCE

URL = "/api/v1/profiles"

MEASURED = {
    "version": 1,
    "device_fingerprint": "cpu-1",
    "provider": "aten",
    "context": "concurrent threads=1+1",
    "signature": "a:1|2",
    "latency_ms": 1.5,
    "low_ms": 1.25,
    "high_ms": 1.75,
    "samples": 30,
    "outliers": 2,
    "simulated": False,
    "failure": None,
    "reason": None,
}
FAILED = {
    **MEASURED,
    "signature": "b:1",
    "latency_ms": None,
    "low_ms": None,
    "high_ms": None,
    "samples": 0,
    "outliers": 0,
    "failure": "out_of_memory",
    "reason": 'it said "no" – twice\nand left',
}


def lines(*entries: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(entry)}\n" for entry in entries)


async def exported(client: httpx.AsyncClient, **query: str) -> list[dict[str, Any]]:
    answer = await client.get(URL, params=query)
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_what_is_imported_is_exported_again(client: httpx.AsyncClient) -> None:
    answer = await client.post(URL, content=lines(MEASURED, FAILED))
    assert (answer.status_code, answer.json()) == (200, {"lines": 2, "imported": 2})
    assert await exported(client) == [MEASURED, FAILED]
    first = (await client.get(URL)).text
    again = await client.post(URL, content=first)
    assert again.json() == {"lines": 2, "imported": 0}


async def test_a_measurement_that_is_known_stays(client: httpx.AsyncClient) -> None:
    await client.post(URL, content=lines(MEASURED))
    changed = {**MEASURED, "latency_ms": 1.6}
    answer = await client.post(URL, content=lines(changed, FAILED, FAILED))
    assert answer.json() == {"lines": 3, "imported": 1}
    assert await exported(client) == [MEASURED, FAILED]


async def test_an_export_can_be_of_one_device_or_provider(client: httpx.AsyncClient) -> None:
    other = {**MEASURED, "device_fingerprint": "cpu-2"}
    compiled = {**MEASURED, "provider": "inductor"}
    await client.post(URL, content=lines(MEASURED, other, compiled))
    assert await exported(client, device_fingerprint="cpu-2") == [other]
    assert await exported(client, provider="inductor") == [compiled]
    assert await exported(client, device_fingerprint="cpu-2", provider="inductor") == []


async def test_empty_lines_are_skipped(client: httpx.AsyncClient) -> None:
    answer = await client.post(URL, content=f"\n{lines(MEASURED)}\n  \n{lines(FAILED)[:-1]}")
    assert answer.json() == {"lines": 2, "imported": 2}
    assert (await client.post(URL, content="")).json() == {"lines": 0, "imported": 0}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("not json", "JSON"),
        ("[]", "object"),
        (json.dumps({**MEASURED, "samples": -1}), "samples: "),
        (json.dumps({**MEASURED, "latency_ms": math.nan}), "latency_ms"),
        (json.dumps({**FAILED, "latency_ms": math.inf}), "latency_ms"),
        (json.dumps({**MEASURED, "latency_ms": "1.5"}), "latency_ms"),
        (json.dumps({**MEASURED, "version": 2}), "version: "),
        (json.dumps({**MEASURED, "latency_ms": None}), "did not fail"),
        (json.dumps({**MEASURED, "samples": 0}), "did not fail"),
        (json.dumps({**MEASURED, "low_ms": 9.0}), "within its interval"),
        (json.dumps({**FAILED, "latency_ms": 1.0}), "no latency"),
        (json.dumps({**FAILED, "failure": "budget"}), "failure: "),
        (json.dumps({**MEASURED, "signature": ""}), "signature: "),
        (json.dumps({**MEASURED, "signature": "a\0b"}), "NUL"),
        (json.dumps({**MEASURED, "extra": 1}), "extra: "),
        (json.dumps({k: v for k, v in MEASURED.items() if k != "context"}), "context: "),
        (json.dumps({**MEASURED, "reason": "x" * MAX_LINE_BYTES}), "longer than"),
        ('{"device_fingerprint": "torn', "JSON"),
    ],
)
async def test_the_first_wrong_line_is_named_and_nothing_is_stored(
    client: httpx.AsyncClient, sessions: sessionmaker[Session], bad: str, said: str
) -> None:
    answer = await client.post(URL, content=f"{lines(MEASURED, FAILED)}{bad}\n{bad}\n")
    assert answer.status_code == 422, answer.text
    assert {error["field"] for error in answer.json()["errors"]} == {"line 3"}
    assert said in answer.json()["errors"][0]["message"]
    with sessions() as session:
        assert session.scalars(select(ProfileEntry)).all() == []


async def test_an_import_may_be_larger_than_any_json_body_but_not_without_limit(
    client: httpx.AsyncClient,
) -> None:
    many = [
        {**MEASURED, "signature": f"{number}", "reason": "x" * 400}
        for number in range(EXPORTED_AT_ONCE + 1)
    ]
    text = lines(*many)
    answer = await client.post(URL, content=text)  # the tests' limit for uploads is 1 MiB
    assert answer.json() == {"lines": len(many), "imported": len(many)}
    assert len(await exported(client)) == len(many)
    assert (await client.post(URL, content=text * 2)).status_code == 413


async def test_the_summary_counts_by_device_and_provider(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    with sessions() as session, session.begin():
        session.add(rows.device("cpu", fingerprint="cpu-1"))
        session.add(rows.device("cpu@other", fingerprint="cpu-1"))
    simulated = {**MEASURED, "device_fingerprint": "sim-1", "simulated": True}
    compiled = {**MEASURED, "provider": "inductor"}
    await client.post(URL, content=lines(MEASURED, FAILED, compiled, simulated))
    summary = (await client.get(f"{URL}/summary")).json()
    assert [
        (s["device_fingerprint"], s["provider"], s["simulated"], s["entries"], s["failures"])
        for s in summary
    ] == [
        ("cpu-1", "aten", False, 2, 1),
        ("cpu-1", "inductor", False, 1, 0),
        ("sim-1", "aten", True, 1, 0),
    ]
    assert [s["devices"] for s in summary] == [["cpu", "cpu@other"], ["cpu", "cpu@other"], []]
