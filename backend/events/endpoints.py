"""Reading a job's events, as a list or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent

from backend.auth.dependencies import Reader
from backend.edge import TransactionDep
from backend.events.repository import EventRepository
from backend.events.stream import EventStreams
from backend.jobs.dependencies import KnownJob
from backend.jobs.schemas import EventRead
from backend.problems import responses
from backend.services import ServicesDep

router = APIRouter(tags=["events"], responses=responses(401, 403, 422))

After = Annotated[int, Query(ge=0, description="the last sequence number already seen")]


async def _streams(services: ServicesDep) -> EventStreams:
    return EventStreams(services.sessions, services.hub, services.metrics)


Streams = Annotated[EventStreams, Depends(_streams)]


@router.get("/jobs/{job_id}/events", responses=responses(404))
async def list_job_events(
    _: Reader,
    job_id: KnownJob,
    transaction: TransactionDep,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> list[EventRead]:
    """The job's events after ``after``, in order."""
    events = await EventRepository(transaction.session).after(job_id, after, limit)
    return [EventRead.model_validate(event) for event in events]


@router.get(
    "/jobs/{job_id}/events/stream",
    response_class=EventSourceResponse,
    responses=responses(404),
)
async def stream_job_events(
    _: Reader,
    job_id: KnownJob,
    streams: Streams,
    after: After = 0,
    last_event_id: Annotated[int | None, Header(ge=0)] = None,
) -> AsyncIterable[ServerSentEvent]:
    """Server-sent events: what was missed since ``Last-Event-ID`` (or ``after``), then what comes.

    ``id`` is the sequence number, ``event`` the event's type, ``data`` an EventRead. Once the job
    is finished and everything is sent comes ``event: end``, and the stream closes.
    """
    seen = after if last_event_id is None else last_event_id
    async for event in streams.of_job(job_id, seen):
        yield event


@router.get("/events/stream", response_class=EventSourceResponse)
async def stream_state_events(_: Reader, streams: Streams) -> AsyncIterable[ServerSentEvent]:
    """Server-sent events: every job's changes of state from now on, each a JobEventRead.

    ``event: resync`` comes first, and again whenever a change may have been missed: read the list
    of jobs again.
    """
    async for event in streams.of_states():
        yield event
