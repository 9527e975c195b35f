"""Orders for other hosts on a real PostgreSQL: what is claimed, answered, lost and forgotten."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from support import rows
from support.measuring_hosts import measuring_worker, service_environment
from support.tuning_records import MATMUL, spec

from backend.db.tables import Job, MeasuringHost, MeasuringOrder
from backend.jobs.schemas import JobSpec
from backend.jobs.states import JobState
from backend.settings import Settings
from backend.storage import Storage
from workers.devices import discover
from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.hosts import Order, RemoteDevice
from workers.measure.parallel.subject import Outcome, Reading, Run
from workers.runner.remote.bell import HostBell
from workers.runner.remote.claims import ClaimedBatch, HostClaims
from workers.runner.remote.clearing import HOST_MEMORY, forget
from workers.runner.remote.files import OrderFiles, WrongFileError
from workers.runner.remote.forms import AnswerForm, EffortForm, KernelForm, capabilities
from workers.runner.remote.measurer import RemoteMeasurer
from workers.runner.remote.orders import DatabaseOrders
from workers.runner.remote.states import reference_key
from workers.runner.store import JobStore, LeaseLostError, claim_next
from workers.tuning.kernels.arguments import ProgramArguments, UnknownArguments
from workers.tuning.kernels.subject import KernelSubject
from workers.tuning.program import ProgramError

Sessions = sessionmaker[Session]
EFFORT = Effort(target_ms=1, limit_ms=10, min_repeats=3, max_repeats=3, warm_up_ms=1)
FACTS = next(facts for facts in discover() if facts.kind == "cpu")
OTHER = RemoteDevice("cpu@other", "host:1")
LIBRARY = b"machine code"
LEASE_S = 30.0


@dataclass
class Hosts:
    """A job that is being worked on, and the measuring host OTHER."""

    sessions: Sessions
    storage: Storage
    folder: Path
    rung: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted = JobSpec.model_validate(spec(hosts="all"))
        made = rows.job(spec=wanted.model_dump(mode="json"), purpose="kernels")
        with self.sessions(expire_on_commit=False) as session, session.begin():
            session.add(made)
        self.job = made.id
        self.orders = self.attempt()
        self.claims = self.host()
        self.claims.register(FACTS)

    def attempt(self, lease_s: float = LEASE_S) -> DatabaseOrders:
        """The orders of the job's next attempt."""
        claim = claim_next(self.sessions, lambda event: None, ["cpu"], "worker", lease_s)
        assert claim is not None
        store = JobStore(self.sessions, lambda event: None, claim, self.storage)
        return DatabaseOrders(
            store, self.sessions, self.storage, FACTS.fingerprint, LEASE_S, self.rung.append
        )

    def host(self, me: RemoteDevice = OTHER, lease_s: float = LEASE_S) -> HostClaims:
        return HostClaims(self.sessions, me, lease_s)

    def subject(self, library: bytes = LIBRARY) -> KernelSubject:
        """Of a program whose reference was written long ago."""
        path = self.folder / f"{uuid4()}.so"
        path.write_bytes(library)
        reference = self.folder / "reference.npz"
        if not reference.exists():
            np.savez(reference, np.zeros(3))
        return KernelSubject(path, ProgramArguments(MATMUL, 1, reference), True, 1 << 30)

    def place(self, count: int = 1, degree: int = 1, device: RemoteDevice = OTHER) -> list[int]:
        order = Order(self.subject(), device, degree, 3.0, EFFORT)
        return list(
            self.orders.place([replace(order, subject=self.subject()) for _ in range(count)])
        )

    def claim(self) -> ClaimedBatch:
        batch = self.claims.claim()
        assert batch is not None
        return batch

    def set(self, table: Any, **values: Any) -> None:
        with self.sessions() as session, session.begin():
            session.execute(update(table).values(**values))

    def all(self, table: Any) -> Sequence[Any]:
        with self.sessions(expire_on_commit=False) as session:
            return session.scalars(select(table)).all()

    @property
    def states(self) -> list[str]:
        with self.sessions() as session:
            return list(session.scalars(select(MeasuringOrder.state).order_by(MeasuringOrder.id)))


@pytest.fixture
def hosts(sessions: Sessions, settings: Settings, tmp_path: Path) -> Hosts:
    return Hosts(sessions, Storage(settings.storage_url), tmp_path)


def answer(latency: float = 2.0) -> dict[str, Any]:
    reading = Reading((Run(latency + 1, latency), Run(latency, latency, 10.0, 20.0)), 0.5)
    return AnswerForm.of(Outcome(0, "cpu", 4, 11.0, 12.5, reading), 10.0).model_dump(mode="json")


def test_an_order_comes_back_as_what_was_measured(hosts: Hosts) -> None:
    first, second = hosts.place(2, degree=2)
    assert hosts.rung == ["cpu@other"]
    batch = hosts.claim()
    assert [order.ticket for order in batch.orders] == [first, second]
    assert (batch.job_id, batch.degree, batch.timeout_s) == (hosts.job, 2, 3.0)
    assert EffortForm.model_validate(batch.effort).effort() == EFFORT
    files = OrderFiles(hosts.storage, hosts.folder / "host")
    form = KernelForm.model_validate(batch.orders[0].form)
    reference = files.reference(batch.job_id, form.reference)
    subject = form.subject(files.library(form.library, batch.orders[0].library), reference)
    assert subject.library.read_bytes() == LIBRARY
    assert (subject.cold, subject.memory_bytes) == (True, 1 << 30)
    assert subject.arguments == ProgramArguments(MATMUL, 1, reference)
    assert [*subject.arguments.expected()[0]] == [0, 0, 0]

    assert not hosts.orders.collect([first, second], 0.0).answers
    assert hosts.claims.answer(second, answer())
    found = hosts.orders.collect([first, second], 5.0)
    assert not found.lost
    (heard,) = found.answers
    assert (heard.ticket, heard.worker, heard.failure) == (second, 4, None)
    assert heard.reading == Reading((Run(3.0, 2.0), Run(2.0, 2.0, 10.0, 20.0)), 0.5)
    assert heard.ended_s - heard.started_s == pytest.approx(1.5)
    assert heard.started_s == pytest.approx(batch.claimed_s + 1.0, abs=0.5)
    assert hosts.states == ["claimed", "done"]
    done = [row for row in hosts.all(MeasuringOrder) if row.id == second]
    assert done[0].library is None


def test_each_host_gets_its_own_and_nobody_gets_an_order_twice(hosts: Hosts) -> None:
    third = RemoteDevice("cpu@third", "host:2")
    tickets = [*hosts.place(2), *hosts.place(1, device=third)]
    assert hosts.host(RemoteDevice("cpu@other", "started again")).claim() is None
    assert hosts.rung == ["cpu@other", "cpu@third"]
    claimed = [
        order.ticket
        for claims in (hosts.claims, hosts.claims, hosts.host(third))
        if (batch := claims.claim())
        for order in batch.orders
    ]
    assert claimed == tickets
    assert not hosts.host(third).answer(tickets[0], answer())


def test_a_late_answer_reaches_nobody(hosts: Hosts) -> None:
    given_up, kept = hosts.place(2)
    hosts.claim()
    hosts.orders.give_up([given_up])
    assert not hosts.claims.answer(given_up, answer())
    assert hosts.claims.answer(kept, answer(1.0))
    assert not hosts.claims.answer(kept, answer(9.0))  # nor does a second one
    found = hosts.orders.collect([given_up, kept], 0.0)
    assert [one.ticket for one in found.answers] == [kept]
    assert found.answers[0].reading is not None
    assert found.answers[0].reading.runs[0].device_ms == 1.0
    hosts.orders.give_up([kept])
    assert hosts.states == ["withdrawn", "done"]


def _stops_renewing(hosts: Hosts) -> None:
    hosts.set(MeasuringOrder, lease_expires_at=func.now() - HOST_MEMORY)


def _stops_in_order(hosts: Hosts) -> None:
    hosts.claims.leave()
    assert hosts.all(MeasuringHost) == []


def _refuses(hosts: Hosts) -> None:
    for row in hosts.all(MeasuringOrder):
        assert hosts.claims.refuse(row.id, "no such program")


def _says_nonsense(hosts: Hosts) -> None:
    for row in hosts.all(MeasuringOrder):
        assert hosts.claims.answer(row.id, {"runs": "many"})


@pytest.mark.parametrize("ends", [_stops_renewing, _stops_in_order, _refuses, _says_nonsense])
def test_what_its_host_does_not_measure_is_lost(
    hosts: Hosts, ends: Callable[[Hosts], None]
) -> None:
    tickets = hosts.place(2)
    hosts.claim()
    assert not hosts.orders.collect(tickets, 0.0).lost
    ends(hosts)
    assert hosts.orders.collect(tickets, 5.0).lost == set(tickets)


def test_what_is_held_is_renewed_and_what_nobody_begins_is_lost(hosts: Hosts) -> None:
    held, dropped = hosts.place(2)
    hosts.claim()
    hosts.set(MeasuringOrder, lease_expires_at=func.now() - HOST_MEMORY)
    assert hosts.claims.renew([held]).wanted
    assert hosts.orders.collect([held, dropped], 0.0).lost == {dropped}
    (waiting,) = hosts.place()
    assert not hosts.orders.collect([waiting], 0.0).lost
    hosts.orders.patience_s = 0.0
    assert hosts.orders.collect([waiting], 0.0).lost == {waiting}


def test_a_host_learns_that_nobody_waits_any_more(hosts: Hosts) -> None:
    tickets = hosts.place(2)
    hosts.claim()
    hosts.orders.give_up(tickets[:1])
    assert hosts.claims.renew(tickets).wanted
    hosts.orders.give_up(tickets)
    assert not hosts.claims.renew(tickets).wanted
    later = hosts.place()
    hosts.claim()
    assert hosts.claims.renew(later).wanted
    hosts.set(Job, lease_expires_at=func.now() - HOST_MEMORY)  # who placed it is dead
    assert not hosts.claims.renew(later).wanted


def test_orders_of_an_attempt_that_ended_are_not_measured(hosts: Hosts) -> None:
    hosts.place()
    stale = hosts.orders
    hosts.set(Job, state=JobState.QUEUED, worker=None, lease_expires_at=None)
    assert hosts.claims.claim() is None
    hosts.orders = hosts.attempt()
    assert hosts.claims.claim() is None
    with pytest.raises(LeaseLostError):
        stale.place([Order(hosts.subject(), OTHER, 1, 3.0, EFFORT)])
    (fresh,) = hosts.place()
    assert [order.ticket for order in hosts.claim().orders] == [fresh]


def test_only_hosts_that_are_alive_and_alike_take_part(hosts: Hosts) -> None:
    assert hosts.orders.devices() == [OTHER]
    unlike = {
        "another": replace(FACTS, fingerprint="cpu-another"),
        "older": FACTS,
        "silent": FACTS,
    }
    for name, facts in unlike.items():
        hosts.host(RemoteDevice(name, "host:3")).register(facts)
    with hosts.sessions() as session, session.begin():
        session.get_one(MeasuringHost, "older").capabilities = {**capabilities(), "tvm": "0.1"}
        session.get_one(MeasuringHost, "silent").seen_at = func.now() - HOST_MEMORY
    assert hosts.orders.devices() == [OTHER]
    again = RemoteDevice("cpu@other", "host:9")
    hosts.host(again).register(FACTS)
    assert hosts.orders.devices() == [again]
    assert not hosts.claims.renew([]).ours
    assert hosts.host(again).renew([]).ours


def test_only_kernels_of_tensor_programs_are_sent(hosts: Hosts) -> None:
    assert hosts.orders.accepts(hosts.subject())
    unknown = replace(hosts.subject(), arguments=UnknownArguments(()))
    assert not hosts.orders.accepts(unknown)


def test_a_reference_is_stored_once_and_forgotten_with_its_orders(hosts: Hosts) -> None:
    tickets = hosts.place(3)
    (reference,) = {row.form["reference"] for row in hosts.all(MeasuringOrder)}
    key = reference_key(hosts.job, reference)
    stored = Path(hosts.storage._root, key)
    assert [*stored.parent.iterdir()] == [stored]
    before = stored.stat().st_mtime_ns
    hosts.set(Job, state=JobState.QUEUED, worker=None, lease_expires_at=None)
    hosts.orders = hosts.attempt()
    hosts.place()
    assert stored.stat().st_mtime_ns == before
    assert forget(hosts.sessions, hosts.storage) == 0
    assert len(hosts.states) == len(tickets) + 1
    hosts.set(MeasuringHost, seen_at=func.now() - 2 * HOST_MEMORY)
    hosts.set(Job, state=JobState.SUCCEEDED)
    assert forget(hosts.sessions, hosts.storage) == 1
    assert not stored.exists()
    assert (hosts.all(MeasuringOrder), hosts.all(MeasuringHost)) == ([], [])


def test_files_are_those_that_were_placed(hosts: Hosts) -> None:
    files = OrderFiles(hosts.storage, hosts.folder / "host", kept_bytes=0)
    form = KernelForm.of(hosts.subject(), "0" * 64, "1" * 64)
    with pytest.raises(WrongFileError, match="library"):
        files.library(form.library, LIBRARY)
    with pytest.raises(FileNotFoundError):
        files.reference(hosts.job, form.reference)
    wrong = hosts.folder / "wrong"
    wrong.write_bytes(b"another")
    hosts.storage.put(wrong, reference_key(hosts.job, form.reference))
    with pytest.raises(WrongFileError, match="reference"):
        files.reference(hosts.job, form.reference)
    hosts.place()
    placed = KernelForm.model_validate(hosts.claim().orders[0].form)
    kept = [
        files.reference(hosts.job, placed.reference),
        files.library(placed.library, LIBRARY),
    ]
    files.clear()
    assert not any(path.exists() for path in kept)


def test_a_host_refuses_what_it_cannot_read_and_measures_on(hosts: Hosts) -> None:
    """With a real pool: libraries that are none fail to load, which is the candidates' fault."""
    pytest.importorskip("tvm")
    tickets = hosts.place(4)
    program, digest, missing, _ = tickets
    with hosts.sessions() as session, session.begin():
        for ticket, change in (
            (program, {"program": '{"family": "unheard of", "sizes": {}}'}),
            (digest, {"library": "0" * 64}),
            (missing, {"reference": "0" * 64}),
        ):
            row = session.get_one(MeasuringOrder, ticket)
            row.form = {**row.form, **change}
    ended: list[bool] = []
    measurer = RemoteMeasurer(
        hosts.claims, hosts.storage, FACTS, 0.05, 0.05, lambda: ended.append(True)
    )
    measurer.start()
    try:
        found = _until_all(hosts.orders, tickets)
        assert found == {program: None, digest: None, missing: None, tickets[3]: Failure.LAUNCH}
        (after,) = hosts.place()
        measurer.ring()
        assert _until_all(hosts.orders, [after]) == {after: Failure.LAUNCH}
        assert not ended
        hosts.host(RemoteDevice(OTHER.name, "host:9")).register(FACTS)
        deadline = time.monotonic() + 10
        while not ended:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        measurer.stop()


def _until_all(orders: DatabaseOrders, tickets: Sequence[int]) -> dict[int, Failure | None]:
    """How each ended: by its failure, or None if it was lost."""
    found: dict[int, Failure | None] = {}
    deadline = time.monotonic() + 60
    while len(found) < len(tickets):
        assert time.monotonic() < deadline
        collected = orders.collect([one for one in tickets if one not in found], 1.0)
        found |= {heard.ticket: heard.failure for heard in collected.answers}
        found |= dict.fromkeys(collected.lost, None)
    return found


latencies = st.floats(0, 1e6)
counts = st.none() | st.floats(0, 1e15)
runs = st.builds(Run, latencies, latencies, counts, counts)
readings = st.builds(Reading, st.lists(runs, min_size=1, max_size=4).map(tuple), latencies)


@given(reading=st.none() | readings, failure=st.sampled_from(Failure), reason=st.text())
def test_answers_are_the_same_after_json(
    reading: Reading | None, failure: Failure, reason: str
) -> None:
    ended = {"reading": reading} if reading else {"failure": failure, "reason": reason}
    outcome = Outcome(0, "cpu", 3, 5.0, 6.5, **ended)  # type: ignore[arg-type]
    sent = json.loads(json.dumps(AnswerForm.of(outcome, 4.0).model_dump(mode="json")))
    heard = AnswerForm.model_validate(sent).answer(7, 100.0)
    assert (heard.reading, heard.failure, heard.reason) == (
        outcome.reading,
        outcome.failure,
        outcome.reason,
    )
    assert (heard.ticket, heard.worker, heard.started_s, heard.ended_s) == (7, 3, 101.0, 102.5)


@pytest.mark.parametrize(
    "change",
    [
        {"library": "../../etc/passwd"},
        {"reference": "A" * 64},
        {"cold": "yes"},
        {"memory_bytes": -1},
        {"seed": "1"},
        {"unknown": 1},
    ],
)
def test_a_form_that_is_not_one_is_refused(change: dict[str, Any]) -> None:
    form = {
        "program": MATMUL.key,
        "seed": 1,
        "library": "0" * 64,
        "reference": "1" * 64,
        "cold": False,
        "memory_bytes": 0,
    }
    KernelForm.model_validate(form)
    with pytest.raises(ValidationError):
        KernelForm.model_validate({**form, **change})


def test_a_program_that_is_not_known_here_is_refused() -> None:
    form = KernelForm(
        program="{}",
        seed=1,
        library="0" * 64,
        reference="1" * 64,
        cold=False,
        memory_bytes=0,
    )
    with pytest.raises(ProgramError):
        form.subject(Path("kernel.so"), Path("reference.npz"))


def test_a_measuring_worker_that_is_stopped_leaves_in_order(
    hosts: Hosts, settings: Settings
) -> None:
    """The real process: it answers when it is rung, and hands back what it holds when it ends."""
    pytest.importorskip("tvm")
    hosts.claims.leave()
    # It looks by itself every hour, so what it answers soon it was rung for.
    environment = {**service_environment(settings), "PLAIT_SWEEP_SECONDS": "3600"}
    with (
        measuring_worker(environment, hosts.sessions, hosts.folder / "log") as other,
        closing(HostBell(settings.broker_url, 60.0)) as bell,
    ):
        (host,) = hosts.orders.devices()
        assert host.name == OTHER.name
        time.sleep(0.5)  # until it has looked for what was there before
        tickets = hosts.place(device=host)
        bell.ring(host.name)
        assert _until_all(hosts.orders, tickets) == dict.fromkeys(tickets, Failure.LAUNCH)
        other.terminate()
        assert other.wait(30) == 0, (hosts.folder / "log").read_text()
    assert hosts.all(MeasuringHost) == []
