"""Uploads: what is stored, what is refused, and that nothing is ever stored half."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import struct
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path, PurePath
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, sessionmaker
from support import archives, rows

from backend.db.tables import Upload
from backend.problems import InvalidFieldsError
from backend.settings import Settings
from backend.uploads.archive import MAX_ENTRIES, ArchiveError, check_archive
from backend.uploads.contents import check_bytes
from backend.uploads.formats import FORMATS, format_of, sanitise
from backend.uploads.receiver import SCRATCH_SECONDS, clear_scratch
from workers.graph.importers import catalog

UPLOADS = "/api/v1/uploads"
NET = {"filename": "net.pt2"}


@pytest.fixture(autouse=True)
def cpu(sessions: sessionmaker[Session]) -> None:
    with sessions() as session, session.begin():
        formats = {"formats": sorted(FORMATS)}
        session.add(rows.device(capabilities={**rows.CAPABILITIES, **formats}))


def stored_files(settings: Settings) -> list[Path]:
    """Whatever an upload may have left, finished or not."""
    endings = {".part", *(PurePath(f"file.{key}").suffix for key in FORMATS)}
    return [path for path in settings.home.rglob("*") if path.is_file() and path.suffix in endings]


def nothing_is_stored(settings: Settings, sessions: sessionmaker[Session]) -> bool:
    with sessions() as session:
        return not session.scalars(select(Upload)).all() and not stored_files(settings)


async def test_a_file_is_stored_whole_and_described(
    client: httpx.AsyncClient, settings: Settings
) -> None:
    data = archives.archive()
    answer = await client.post(UPLOADS, params=NET, content=data)
    assert answer.status_code == 201, answer.text
    upload = answer.json()
    assert upload["sha256"] == hashlib.sha256(data).hexdigest()
    assert (upload["filename"], upload["format"]) == ("net.pt2", "pt2")
    assert upload["size_bytes"] == len(data)
    assert answer.headers["location"] == f"{UPLOADS}/{upload['id']}"
    [path] = stored_files(settings)
    assert path.read_bytes() == data
    assert (await client.get(f"{UPLOADS}/{upload['id']}")).json() == upload
    assert (await client.get(UPLOADS)).json() == {"items": [upload], "next_cursor": None}


async def test_a_file_in_many_small_pieces_is_the_same_file(client: httpx.AsyncClient) -> None:
    data = archives.archive()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 7):
            yield data[start : start + 7]

    answer = await client.post(UPLOADS, params=NET, content=pieces())
    assert answer.json()["sha256"] == hashlib.sha256(data).hexdigest()


async def test_the_same_bytes_are_stored_once(
    client: httpx.AsyncClient, settings: Settings
) -> None:
    data = archives.archive()
    names = [f"net-{number}.pt2" for number in range(6)]
    answers = await asyncio.gather(
        *(client.post(UPLOADS, params={"filename": name}, content=data) for name in names)
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    assert len({answer.text for answer in answers}) == 1
    assert len(stored_files(settings)) == 1


async def test_a_deleted_file_is_gone_and_can_come_back(
    client: httpx.AsyncClient, settings: Settings, sessions: sessionmaker[Session]
) -> None:
    data = archives.archive()
    first = (await client.post(UPLOADS, params=NET, content=data)).json()
    assert (await client.delete(f"{UPLOADS}/{first['id']}")).status_code == 204
    assert nothing_is_stored(settings, sessions)
    assert (await client.get(f"{UPLOADS}/{first['id']}")).status_code == 404
    assert (await client.delete(f"{UPLOADS}/{first['id']}")).status_code == 404
    second = await client.post(UPLOADS, params=NET, content=data)
    assert second.status_code == 201
    assert second.json()["id"] != first["id"]


async def test_a_file_in_use_is_kept(client: httpx.AsyncClient, settings: Settings) -> None:
    upload = (await client.post(UPLOADS, params=NET, content=archives.archive())).json()
    await client.post("/api/v1/jobs", json={"model": f"upload:{upload['id']}"})
    answer = await client.delete(f"{UPLOADS}/{upload['id']}")
    assert answer.status_code == 409
    assert len(stored_files(settings)) == 1


async def test_uploads_come_in_pages(client: httpx.AsyncClient) -> None:
    for number in range(5):
        data = archives.archive({**archives.EXPORTED, "model/extra": bytes([number])})
        await client.post(UPLOADS, params={"filename": f"{number}.pt2"}, content=data)
    names: list[str] = []
    cursor = ""
    while cursor is not None:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await client.get(UPLOADS, params=params)).json()
        names += [upload["filename"] for upload in page["items"]]
        cursor = page["next_cursor"]
    assert names == [f"{number}.pt2" for number in reversed(range(5))]


HOSTILE = {
    "empty": (b"", "empty"),
    "text": (b"not a zip at all", "truncated"),
    "truncated": (archives.archive()[:-30], "truncated"),
    "cut in the middle": (archives.archive()[:500], "truncated"),
    "no members": (archives.archive({}), "empty"),
    "another zip": (archives.archive({"word/document.xml": b"<w/>"}), "torch.export"),
    "torchscript": (archives.archive(archives.SCRIPTED), "end in .pt"),
    "weights": (archives.archive(archives.PICKLED), "torch.export.export"),
    "a pickle": (b"\x80\x02}q\x00.", "torch.export.export"),
    "onnx": (archives.ONNX, "end in .onnx"),
    "a bundle": (archives.archive(archives.BUNDLE), "end in .zip"),
    "parent": (archives.archive({**archives.EXPORTED, "../x": b""}), "reaches out"),
    "inner parent": (archives.archive({**archives.EXPORTED, "a/../../x": b""}), "reaches out"),
    "backslashes": (archives.archive({**archives.EXPORTED, "a\\..\\x": b""}), "reaches out"),
    "absolute": (archives.archive({**archives.EXPORTED, "/etc/x": b""}), "absolute"),
    "drive": (archives.archive({**archives.EXPORTED, "C:/x": b""}), "absolute"),
    "link": (archives.with_link(), "link"),
    "duplicate": (archives.with_duplicate(), "twice"),
    "overlap": (archives.with_overlap(), "overlap"),
    "bomb": (archives.bomb(), "times its size"),
    "huge directory": (archives.with_huge_directory(), "central directory"),
    "encrypted": (archives.encrypted(), "encrypted"),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_what_is_no_exported_model_is_refused_and_leaves_nothing(
    client: httpx.AsyncClient, settings: Settings, sessions: sessionmaker[Session], kind: str
) -> None:
    data, said = HOSTILE[kind]
    answer = await client.post(UPLOADS, params=NET, content=data)
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert error["field"] == "file"
    assert said in error["message"]
    assert nothing_is_stored(settings, sessions)


FILES = {
    "onnx": archives.ONNX,
    "onnx.zip": archives.archive(archives.BUNDLE),
    "pt2": archives.archive(),
    "torchscript": archives.archive(archives.SCRIPTED),
}


@pytest.mark.parametrize("key", FORMATS)
async def test_every_format_is_told_from_every_ending(
    client: httpx.AsyncClient, settings: Settings, key: str
) -> None:
    identifiers = set()
    for ending in FORMATS[key].endings:
        answer = await client.post(
            UPLOADS, params={"filename": f"Net{ending.upper()}"}, content=FILES[key]
        )
        assert answer.status_code in {200, 201}, answer.text
        assert answer.json()["format"] == key
        identifiers.add(answer.json()["id"])
    assert len(identifiers) == 1
    [path] = stored_files(settings)
    assert path.read_bytes() == FILES[key]


@pytest.mark.parametrize("key", FORMATS)
async def test_only_formats_that_are_data_need_no_trust(
    client: httpx.AsyncClient, token: rows.Any, key: str
) -> None:
    client.headers["Authorization"] = f"Bearer {token('upload')}"
    params = {"filename": f"net{FORMATS[key].endings[0]}"}
    answer = await client.post(UPLOADS, params=params, content=FILES[key])
    assert answer.status_code == (403 if FORMATS[key].trusted else 201)
    assert FORMATS[key].trusted == (key in {"pt2", "torchscript"})


@pytest.mark.parametrize("claimed", FORMATS)
@pytest.mark.parametrize("found", FORMATS)
def test_a_file_under_the_name_of_another_format_says_what_it_is(
    tmp_path: Path, claimed: str, found: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(FILES[found])
    if claimed == found:
        check_bytes(path, claimed)
        return
    with pytest.raises(InvalidFieldsError) as caught:
        check_bytes(path, claimed)
    [error] = caught.value.errors
    assert error.field == "file"
    # An .onnx that is a zip could be either kind of archive.
    endings = {".zip", ".pt2"} if claimed == "onnx" else {FORMATS[found].endings[0]}
    assert all(ending in error.message for ending in endings)


@pytest.mark.parametrize("claimed", FORMATS)
@pytest.mark.parametrize("content", [b"", b"\x08", b"a text", b"PK", bytes(100), b"ir_version: 8"])
def test_what_is_of_no_format_is_refused_under_every_name(
    tmp_path: Path, claimed: str, content: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InvalidFieldsError):
        check_bytes(path, claimed)


def test_a_bundle_has_one_model(tmp_path: Path) -> None:
    path = tmp_path / "net.zip"
    path.write_bytes(archives.archive({**archives.BUNDLE, "net/other.ONNX": archives.ONNX}))
    with pytest.raises(InvalidFieldsError, match="2 ONNX models"):
        check_bytes(path, "onnx.zip")


def test_a_format_that_no_device_reads_is_not_accepted() -> None:
    assert format_of("net.zip", ["onnx.zip", "a format of a newer worker"]) == "onnx.zip"
    with pytest.raises(InvalidFieldsError, match=r"known endings: \.pt, \.pth, \.ts$"):
        format_of("net.onnx", ["torchscript"])


def test_every_importer_s_format_can_be_uploaded() -> None:
    assert set(catalog.FORMATS) <= set(FORMATS)


@pytest.mark.parametrize("entries", [MAX_ENTRIES + 1, 70_000])
def test_an_archive_of_too_many_entries_is_refused(tmp_path: Path, entries: int) -> None:
    path = tmp_path / "many.zip"  # beyond 65535 the zip64 record counts
    path.write_bytes(archives.archive({f"{number}": b"" for number in range(entries)}))
    with pytest.raises(ArchiveError, match=f"{entries} entries|central directory"):
        check_archive(path)


def test_a_zip64_record_that_points_nowhere_is_refused(tmp_path: Path) -> None:
    data = bytearray(archives.archive())
    struct.pack_into("<L", data, data.rindex(b"PK\x05\x06") + 12, 0xFFFFFFFF)
    path = tmp_path / "wrong.zip"
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match="zip64"):
        check_archive(path)


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8))
def test_no_damage_breaks_the_check(at: int, damage: bytes) -> None:
    data = bytearray(archives.archive({"model/archive_format": b"pt2", "model/x": b"y" * 100}))
    data[at % len(data) : at % len(data) + len(damage)] = damage
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(ArchiveError):
            check_archive(Path(file.name))


@pytest.mark.parametrize(
    ("filename", "field"),
    [
        ("net.exe", "file"),
        ("net", "file"),
        ("net.pt2.exe", "file"),
        ("net.onnx.pb", "file"),
        (".onnx", "file"),
        ("", "filename"),
        ("...", "filename"),
        ("/", "filename"),
        ("x" * 300 + ".pt2", "filename"),
    ],
)
async def test_a_wrong_name_is_refused(
    client: httpx.AsyncClient,
    settings: Settings,
    sessions: sessionmaker[Session],
    filename: str,
    field: str,
) -> None:
    answer = await client.post(UPLOADS, params={"filename": filename}, content=archives.archive())
    assert answer.status_code == 422, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert nothing_is_stored(settings, sessions)


async def test_the_name_is_required(client: httpx.AsyncClient) -> None:
    answer = await client.post(UPLOADS, content=archives.archive())
    assert [error["field"] for error in answer.json()["errors"]] == ["filename"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("net.pt2", "net.pt2"),
        ("../../etc/net.pt2", "net.pt2"),
        ("C:\\models\\net.pt2", "net.pt2"),
        ("a\x00b\nc.pt2", "abc.pt2"),
        (" . net.pt2 . ", "net.pt2"),
        ("модель.pt2", "модель.pt2"),
        ("n" * 200 + ".pt2", "n" * 116 + ".pt2"),
        ('<script>"x".pt2', "scriptx.pt2"),
        ("e\u0301.pt2", "é.pt2"),
        ("a\u202eb.pt2", "ab.pt2"),
    ],
)
def test_names_are_made_harmless(name: str, kept: str) -> None:
    assert sanitise(name) == kept


async def test_a_file_beyond_the_limit_is_refused_by_its_announced_size(
    client: httpx.AsyncClient, settings: Settings, sessions: sessionmaker[Session]
) -> None:
    data = bytes(settings.max_upload_bytes + 1)
    answer = await client.post(UPLOADS, params=NET, content=data)
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"][0]["field"] == "file"
    assert nothing_is_stored(settings, sessions)


async def test_a_file_beyond_the_limit_is_refused_while_it_arrives(
    client: httpx.AsyncClient, settings: Settings, sessions: sessionmaker[Session]
) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1 << 16
            yield bytes(1 << 16)

    answer = await client.post(UPLOADS, params=NET, content=endless())
    assert answer.status_code == 413
    assert sent < settings.max_upload_bytes + (4 << 20)
    assert nothing_is_stored(settings, sessions)


async def test_a_form_is_refused_with_what_to_send_instead(client: httpx.AsyncClient) -> None:
    answer = await client.post(UPLOADS, params=NET, files={"file": archives.archive()})
    assert answer.status_code == 415
    assert "octet-stream" in answer.json()["detail"]


async def test_a_format_that_executes_code_needs_trust(
    client: httpx.AsyncClient,
    token: rows.Any,
    settings: Settings,
    sessions: sessionmaker[Session],
) -> None:
    client.headers["Authorization"] = f"Bearer {token('upload', 'write')}"
    answer = await client.post(UPLOADS, params=NET, content=archives.archive())
    assert answer.status_code == 403
    assert "'upload:trusted'" in answer.json()["detail"]
    assert "executes code" in answer.json()["detail"]
    assert nothing_is_stored(settings, sessions)
    client.headers["Authorization"] = f"Bearer {token('upload:trusted')}"
    answer = await client.post(UPLOADS, params=NET, content=archives.archive())
    assert answer.status_code == 201


async def test_without_a_worker_no_format_is_known(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    with sessions() as session, session.begin():
        session.delete(session.get_one(rows.Device, "cpu"))
    answer = await client.post(UPLOADS, params=NET, content=archives.archive())
    assert "has a worker been started?" in answer.json()["errors"][0]["message"]


async def test_when_storing_fails_nothing_remains(
    app: FastAPI,
    client: httpx.AsyncClient,
    settings: Settings,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def break_down(source: Path, key: str) -> None:
        raise OSError(5, "the disk broke")

    monkeypatch.setattr(type(app.state.services.storage), "take", staticmethod(break_down))
    answer = await client.post(UPLOADS, params=NET, content=archives.archive())
    assert answer.status_code == 500
    assert nothing_is_stored(settings, sessions)


async def test_when_nobody_knows_whether_the_commit_came_through_the_file_is_kept(
    client: httpx.AsyncClient,
    settings: Settings,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def commit_and_lose_the_connection(session: AsyncSession) -> None:
        await session.execute(text("COMMIT"))
        raise OperationalError("COMMIT", {}, Exception("the connection broke"))

    with monkeypatch.context() as patched:
        patched.setattr(AsyncSession, "commit", commit_and_lose_the_connection)
        answer = await client.post(UPLOADS, params=NET, content=archives.archive())
    assert answer.status_code == 503
    again = await client.post(UPLOADS, params=NET, content=archives.archive())
    assert again.status_code == 200
    assert len(stored_files(settings)) == 1


def test_a_client_that_leaves_leaves_nothing(
    server: str, token: rows.Any, settings: Settings, sessions: sessionmaker[Session]
) -> None:
    address = urlsplit(server)
    head = (
        f"POST {UPLOADS}?filename=net.pt2 HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {token('upload:trusted')}\r\nContent-Length: 1000000\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head.encode() + bytes(100_000))
        wait_until(lambda: bool(stored_files(settings)))
    wait_until(lambda: not stored_files(settings))
    assert nothing_is_stored(settings, sessions)


def test_a_refusal_reaches_a_client_that_is_still_sending(
    server: str, token: rows.Any, settings: Settings
) -> None:
    headers = {"Authorization": f"Bearer {token('upload:trusted')}"}
    data = bytes(settings.max_upload_bytes * 8)
    answer = httpx.post(f"{server}{UPLOADS}", params=NET, content=data, headers=headers)
    assert answer.status_code == 413


def wait_until(condition: rows.Any, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_killed_process_left_is_cleared_in_time(tmp_path: Path) -> None:
    old, new = tmp_path / f"{uuid4().hex}.part", tmp_path / f"{uuid4().hex}.part"
    for path in (old, new):
        path.write_bytes(b"half")
    past = time.time() - SCRATCH_SECONDS - 1
    os.utime(old, (past, past))
    clear_scratch(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [new.name]
    clear_scratch(tmp_path / "not-there")
