"""Event streams: nothing is missed, nothing comes twice, whatever happens in between."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest
from pydantic import SecretStr
from redis import Redis
from sqlalchemy.orm import Session, sessionmaker
from support import rows
from support.services import serving
from support.sse import Message, Reader

from backend import embedded
from backend.events import hub, stream
from backend.events.channel import channel
from backend.jobs.states import JobAction
from backend.settings import Settings

Open = Callable[..., Reader]


@pytest.fixture
def job(sessions: sessionmaker[Session]) -> UUID:
    made = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(made)
    return made.id


@pytest.fixture
def writer(sessions: sessionmaker[Session], redis_url: str, job: UUID) -> rows.Writer:
    return rows.Writer(sessions, redis_url, job)


@pytest.fixture
def follow(server: str, token: rows.Any) -> Open:
    """Opens a stream of the API: of one job, or of all."""
    bearer = {"Authorization": f"Bearer {token('read')}"}

    def open_stream(job: UUID | None, after: str = "", **headers: str) -> Reader:
        path = f"/jobs/{job}/events/stream{after}" if job else "/events/stream"
        return Reader(f"{server}/api/v1{path}", {**bearer, **headers})

    return open_stream


def seqs(messages: list[Message]) -> list[int]:
    return [message.data["seq"] for message in messages]


def is_log(text: str) -> Callable[[Message], bool]:
    return lambda message: message.event == "log" and message.data["data"]["message"] == text


# One job's stream


def test_what_was_and_what_comes_in_order(follow: Open, writer: rows.Writer, job: UUID) -> None:
    writer.log("one")
    writer.log("two")
    with follow(job) as reader:
        assert reader.response.headers["content-type"].startswith("text/event-stream")
        assert reader.response.headers["cache-control"] in {"no-cache", "no-store"}
        assert seqs([reader.take(), reader.take()]) == [1, 2]
        writer.log("three")
        third = reader.take()
        assert (third.event, third.id, third.data["seq"]) == ("log", "3", 3)
        assert third.data["data"] == {"level": "info", "message": "three"}


def test_the_stream_ends_with_the_job(follow: Open, writer: rows.Writer, job: UUID) -> None:
    with follow(job) as reader:
        writer.finish()
        messages = reader.take_until(lambda message: message.event == "end")
        assert seqs(messages[:-1]) == [1, 2, 3, 4]
        assert messages[-2].data["data"]["state"] == "succeeded"
        assert messages[-1].data == {"state": "succeeded"}
        assert reader.ends()


def test_a_finished_job_is_replayed_and_ended(follow: Open, writer: rows.Writer, job: UUID) -> None:
    writer.finish()
    with follow(job) as reader:
        messages = reader.take_until(lambda message: message.event == "end")
        assert seqs(messages[:-1]) == [1, 2, 3, 4]
        assert reader.ends()
    with follow(job, after="?after=4") as reader:
        assert reader.take().event == "end"


def test_a_reader_that_comes_back_goes_on_where_it_was(
    follow: Open, writer: rows.Writer, job: UUID
) -> None:
    for number in range(10):
        writer.log(str(number))
    with follow(job, after="?after=3") as reader:
        assert reader.take().data["seq"] == 4
    with follow(job, after="?after=3", **{"Last-Event-ID": "7"}) as reader:
        assert seqs([reader.take(), reader.take(), reader.take()]) == [8, 9, 10]
        assert reader.is_silent(0.3)


def test_a_retried_job_is_followed_again(follow: Open, writer: rows.Writer, job: UUID) -> None:
    writer.change(JobAction.CANCEL)
    with follow(job) as reader:
        assert reader.take_until(lambda message: message.event == "end")
    writer.change(JobAction.RETRY)
    with follow(job, after="?after=1") as reader:
        assert reader.take().data["data"]["state"] == "queued"
        writer.finish()
        assert seqs(reader.take_until(lambda message: message.event == "end")[:-1]) == [3, 4, 5, 6]


def test_more_than_one_batch_is_replayed(
    follow: Open, sessions: sessionmaker[Session], writer: rows.Writer, job: UUID
) -> None:
    count = 2 * stream.REPLAY_BATCH + 1
    with sessions() as session, session.begin():
        locked = session.scalars(rows.lock(job)).one()
        data = {"level": "info", "message": "x"}
        session.add_all([rows.append(locked, rows.EventType.LOG, data) for _ in range(count)])
    with follow(job) as reader:
        writer.log("the last")
        assert seqs(reader.take_until(is_log("the last"))) == list(range(1, count + 2))


def test_announcements_that_were_lost_are_made_up_for_at_the_next(
    follow: Open, writer: rows.Writer, job: UUID
) -> None:
    with follow(job) as reader:
        writer.log("heard")
        reader.take()
        writer.log("not announced", announce=False)
        writer.log("nor this", announce=False)
        assert reader.is_silent(0.3)
        writer.log("heard again")
        assert seqs([reader.take(), reader.take(), reader.take()]) == [2, 3, 4]


def test_announcements_that_were_lost_are_made_up_for_in_time(
    follow: Open, writer: rows.Writer, job: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.3)
    with follow(job) as reader:
        writer.finish(announce=False)
        assert seqs(reader.take_until(lambda message: message.event == "end")[:-1]) == [1, 2, 3, 4]


def test_repeated_late_and_foreign_announcements_change_nothing(
    follow: Open, writer: rows.Writer, job: UUID, redis_url: str
) -> None:
    with follow(job) as reader, Redis.from_url(redis_url) as redis:
        for number in range(5):
            event = writer.log(str(number))
            for _ in range(3):
                redis.publish(channel(job), rows.encode(event))
        redis.publish(channel(job), b"not an event")
        redis.publish(channel(job), b"\xff")
        redis.publish("plait:events:not-a-job", rows.encode(event))
        writer.log("the last")
        assert seqs(reader.take_until(is_log("the last"))) == [1, 2, 3, 4, 5, 6]


def test_a_reader_hears_only_its_own_job(
    follow: Open,
    sessions: sessionmaker[Session],
    writer: rows.Writer,
    job: UUID,
    redis_url: str,
) -> None:
    other = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(other)
    with follow(job) as reader:
        rows.Writer(sessions, redis_url, other.id).log("elsewhere")
        writer.log("here")
        assert reader.take().data["data"]["message"] == "here"


def test_many_writers_and_readers_see_one_order(
    follow: Open, writer: rows.Writer, job: UUID
) -> None:
    """Two write while three read, one of whom begins in the middle."""
    with follow(job) as first, follow(job) as second:
        threads = [
            threading.Thread(target=lambda: [writer.log("x") for _ in range(40)]) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        with follow(job) as third:
            for thread in threads:
                thread.join()
            writer.log("the last")
            for reader in (first, second, third):
                assert seqs(reader.take_until(is_log("the last"))) == list(range(1, 82))


def test_a_reader_who_falls_behind_is_sent_back_to_the_database(
    follow: Open, writer: rows.Writer, job: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "QUEUE_LENGTH", 2)
    orders = []
    resynchronise = hub.Subscription.resynchronise

    def noting(subscription: hub.Subscription) -> None:
        orders.append(subscription)
        resynchronise(subscription)

    monkeypatch.setattr(hub.Subscription, "resynchronise", noting)
    with follow(job) as reader:
        reader.wait_until_following()
        orders.clear()
        writer.burst(100)
        writer.log("the last")
        assert seqs(reader.take_until(is_log("the last"))) == list(range(1, 102))
        assert orders, "the queue never overflowed"


def test_a_full_queue_is_replaced_by_one_order_to_read_again() -> None:
    subscription = hub.Subscription()
    announcement = hub.Announcement(uuid4(), 1, rows.EventType.LOG, "{}")
    for _ in range(hub.QUEUE_LENGTH):
        subscription.offer(announcement)
    assert subscription._queue.qsize() == hub.QUEUE_LENGTH
    subscription.offer(announcement)
    assert subscription._queue.qsize() == 1
    assert subscription._queue.get_nowait() is None


def test_a_stream_does_not_outlive_the_look_at_its_token_by_much(
    follow: Open, writer: rows.Writer, job: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "LIFETIME_SECONDS", 0.2)
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(stream, "STATES_PATIENCE_SECONDS", 0.1)
    with follow(job) as one, follow(None) as every:
        assert one.ends()
        assert {m.event for m in every.take_until_the_end()} == {"resync"}


def test_a_silent_stream_is_kept_alive(
    follow: Open, job: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastapi.routing._PING_INTERVAL", 0.2)
    with follow(job) as reader:
        deadline = time.monotonic() + 5
        while reader.comments.count("ping") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_streams_hold_no_database_connection(
    server: str, follow: Open, token: rows.Any, job: UUID, writer: rows.Writer
) -> None:
    """More readers than the pool has connections, and requests still go through."""
    readers = [follow(job).__enter__() for _ in range(24)]
    try:
        headers = {"Authorization": f"Bearer {token('read')}"}
        assert httpx.get(f"{server}/api/v1/jobs", headers=headers).status_code == 200
        writer.log("hello")
        assert {reader.take().data["seq"] for reader in readers} == {1}
    finally:
        for reader in readers:
            reader.__exit__()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/jobs/{UUID(int=3)}/events/stream", {}, 404),
        (f"/jobs/{UUID(int=3)}/events", {}, 404),
        ("/jobs/{job}/events/stream?after=-1", {}, 422),
        ("/jobs/{job}/events/stream", {"Last-Event-ID": "x"}, 422),
        ("/jobs/{job}/events?limit=0", {}, 422),
    ],
)
def test_a_stream_that_cannot_be_is_a_problem(
    server: str,
    token: rows.Any,
    job: UUID,
    path: str,
    headers: dict[str, str],
    status: int,
) -> None:
    headers = {**headers, "Authorization": f"Bearer {token('read')}"}
    answer = httpx.get(f"{server}/api/v1{path.format(job=job)}", headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_events_can_be_had_as_a_list(
    server: str, token: rows.Any, job: UUID, writer: rows.Writer
) -> None:
    for number in range(5):
        writer.log(str(number))
    headers = {"Authorization": f"Bearer {token('read')}"}
    url = f"{server}/api/v1/jobs/{job}/events"
    assert [e["seq"] for e in httpx.get(url, headers=headers).json()] == [1, 2, 3, 4, 5]
    page = httpx.get(f"{url}?after=2&limit=2", headers=headers).json()
    assert [(e["seq"], e["data"]["message"]) for e in page] == [(3, "2"), (4, "3")]


def test_an_event_reaches_its_reader_soon_after_the_commit(
    follow: Open, writer: rows.Writer, job: UUID
) -> None:
    delays = []
    with follow(job) as reader:
        for number in range(60):
            writer.log(str(number))
            committed = time.perf_counter()
            delays.append(reader.take().at - committed)
    assert statistics.quantiles(delays, n=20)[-1] < 0.15


# All jobs' stream


def test_changes_of_state_of_every_job_are_told(
    follow: Open, sessions: sessionmaker[Session], writer: rows.Writer, job: UUID, redis_url: str
) -> None:
    other = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(other)
    with follow(None) as reader:
        assert reader.take().event == "resync"
        writer.log("of no interest here")
        writer.change(JobAction.CLAIM)
        rows.Writer(sessions, redis_url, other.id).change(JobAction.CANCEL)
        first, second = reader.take(), reader.take()
        assert (first.event, first.data["job_id"]) == ("state", str(job))
        assert first.data["data"]["state"] == "importing"
        assert (second.data["job_id"], second.data["seq"]) == (str(other.id), 1)
        assert second.data["data"]["state"] == "cancelled"


# When a part goes away


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[embedded.EmbeddedValkey]:
    running = embedded.start_valkey(tmp_path / "own")
    yield running
    running.stop()


def test_streams_survive_a_redis_that_goes_and_comes_back(
    settings: Settings,
    sessions: sessionmaker[Session],
    token: rows.Any,
    job: UUID,
    own_valkey: embedded.EmbeddedValkey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(hub, "RECONNECT_SECONDS", 0.1)
    alone = settings.model_copy(update={"redis_url": SecretStr(own_valkey.url)})
    bearer = {"Authorization": f"Bearer {token('read')}"}
    writer = rows.Writer(sessions, own_valkey.url, job)
    with (
        serving(alone) as url,
        Reader(f"{url}/api/v1/jobs/{job}/events/stream", bearer) as reader,
        Reader(f"{url}/api/v1/events/stream", bearer) as states,
    ):
        assert states.take().event == "resync"
        writer.log("heard")
        assert reader.take().data["seq"] == 1
        own_valkey.stop()
        writer.log("read from the database", announce=False)
        assert reader.take().data["seq"] == 2
        assert states.take_until(lambda message: message.event == "resync")
        assert httpx.get(f"{url}/healthz").json()["status"] == "degraded"

        embedded.start_valkey(tmp_path / "own")
        deadline = time.monotonic() + 10
        while not httpx.get(f"{url}/healthz").json()["checks"]["redis"]["ok"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        monkeypatch.setattr(stream, "PATIENCE_SECONDS", 60.0)
        rows.Writer(sessions, own_valkey.url, job).log("heard again")
        assert reader.take().data["seq"] == 3


def test_the_server_stops_at_once_although_streams_are_open(
    settings: Settings, token: rows.Any, job: UUID
) -> None:
    bearer = {"Authorization": f"Bearer {token('read')}"}
    with serving(settings) as url:
        readers = [
            Reader(f"{url}/api/v1{path}", bearer).__enter__()
            for path in (f"/jobs/{job}/events/stream", "/events/stream")
        ]
        readers[1].take()
        began = time.monotonic()
    assert time.monotonic() - began < 3
    for reader in readers:
        assert reader.ends()
        reader.__exit__()


def test_streams_are_counted(
    server: str, follow: Open, token: rows.Any, job: UUID, writer: rows.Writer
) -> None:
    headers = {"Authorization": f"Bearer {token('read')}"}

    def metric(name: str) -> float:
        text = httpx.get(f"{server}/metrics", headers=headers).text
        return float(next(line for line in text.splitlines() if line.startswith(name)).split()[-1])

    with follow(job) as reader:
        writer.log("one")
        reader.take()
        assert metric("plait_event_streams ") == 1
        assert metric("plait_events_sent_total ") == 1
    deadline = time.monotonic() + 5
    for _ in itertools.count():
        if metric("plait_event_streams ") == 0:
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
