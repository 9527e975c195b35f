"""Inspections: a real child process imports a model and stores the facts of its graph."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.db.tables import Job, JobEvent, JobResult, ModelGraph
from backend.jobs.schemas import JobSpec, Purpose
from backend.models.schemas import BlockCounted, GraphFacts
from backend.settings import Settings
from backend.storage import Storage
from workers.runner.store import Claim, JobStore, claim_next
from workers.runner.supervisor import Supervisor

Sessions = sessionmaker[Session]
AddJob = Callable[..., UUID]


@pytest.fixture
def add_job(sessions: Sessions) -> AddJob:
    def add(purpose: Purpose = Purpose.INSPECT, age: int = 0, **spec: Any) -> UUID:
        wanted = JobSpec(**{"model": "zoo:squeezenet", "purpose": purpose, **spec})
        job = rows.job(
            spec=wanted.model_dump(mode="json"),
            purpose=purpose.value,
            created_at=datetime.now(UTC) - timedelta(seconds=age),
        )
        with sessions(expire_on_commit=False) as session, session.begin():
            session.add(job)
        return job.id

    return add


@pytest.fixture
def environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The child reads its settings from the environment, as it does in a worker."""
    monkeypatch.setenv("PLAIT_HOME", str(settings.home))
    monkeypatch.setenv("DATABASE_URL", settings.database_url.get_secret_value())
    monkeypatch.setenv("REDIS_URL", settings.redis_url.get_secret_value())
    return settings


def claim(sessions: Sessions) -> Claim:
    held = claim_next(sessions, lambda event: None, ["cpu"], "one", 30)
    assert held is not None
    return held


def stored(sessions: Sessions) -> list[ModelGraph]:
    with sessions(expire_on_commit=False) as session:
        return list(session.scalars(select(ModelGraph).order_by(ModelGraph.id)))


def test_an_inspection_stores_the_facts_and_tunes_nothing(
    environment: Settings, sessions: Sessions, add_job: AddJob
) -> None:
    job_id = add_job(batch_sizes=[2])
    Supervisor(environment, sessions, lambda event: None, "test").work("cpu")
    with sessions() as session:
        job = session.get_one(Job, job_id)
        assert (job.state, job.problem, job.summary) == ("succeeded", None, [])
        assert session.scalars(select(JobResult.id)).all() == []
        events = session.scalars(select(JobEvent).order_by(JobEvent.seq)).all()
        states = [event.data["state"] for event in events if event.type == "state"]
        assert states == ["importing", "succeeded"]
    (graph,) = stored(sessions)
    assert (graph.model, graph.batch_size, graph.granularity) == ("zoo:squeezenet", 2, "fused")
    facts = GraphFacts.model_validate(graph.facts)
    assert (facts.graph_hash, facts.batch_size) == (graph.graph_hash, 2)
    # SqueezeNet with complex bypass: the squeeze, two expansions, concat, bypass and sum of a fire.
    fires = [block for block in facts.blocks if block.n == 6]
    assert fires
    assert all(block.width == 3 for block in fires)
    counted = fires[0].counts.paper
    assert isinstance(counted, BlockCounted)
    assert int(counted.schedules) > counted.stages > facts.blocks[0].n
    assert len(facts.units) == facts.totals.units == sum(block.n for block in facts.blocks)
    assert facts.inputs[0].shape == [2, 3, 224, 224]
    for position, unit in enumerate(facts.units):
        block = facts.blocks[unit.block]
        assert block.first <= position < block.first + block.n
        assert all(successor > position for successor in unit.successors)


def test_inspections_are_claimed_before_tuning_jobs(sessions: Sessions, add_job: AddJob) -> None:
    older = add_job(Purpose.TUNE, age=60)
    newer = add_job(Purpose.INSPECT)
    assert [claim(sessions).job_id, claim(sessions).job_id] == [newer, older]


def facts(**changes: Any) -> dict[str, Any]:
    return {
        "graph_hash": "a",
        "batch_size": 1,
        "sequence_length": None,
        "granularity": "fused",
        **changes,
    }


def test_a_later_import_replaces_the_facts_but_tuning_keeps_what_an_inspection_counted(
    sessions: Sessions, add_job: AddJob, tmp_path: Path
) -> None:
    def record(purpose: Purpose, found: dict[str, Any]) -> None:
        job_id = add_job(purpose)
        held = claim(sessions)
        assert held.job_id == job_id
        storage = Storage(f"file://{tmp_path}")
        JobStore(sessions, lambda event: None, held, storage).graph(found)

    record(Purpose.TUNE, facts(counted="hastily"))
    record(Purpose.INSPECT, facts(counted="well"))
    assert [row.facts["counted"] for row in stored(sessions)] == ["well"]
    record(Purpose.TUNE, facts(counted="hastily"))
    assert [row.facts["counted"] for row in stored(sessions)] == ["well"]
    record(Purpose.TUNE, facts(counted="hastily", graph_hash="b"))
    assert [row.graph_hash for row in stored(sessions)] == ["b"]
    record(Purpose.INSPECT, facts(sequence_length=7))
    assert [row.sequence_length for row in stored(sessions)] == [None, 7]
