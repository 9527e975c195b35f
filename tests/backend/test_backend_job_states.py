"""The transition table and the gate: which histories a job can have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import rows

from backend.jobs.gate import append, change
from backend.jobs.schemas import EventType, JobProblem
from backend.jobs.states import (
    ACTIVE,
    FINISHED,
    TRANSITIONS,
    JobAction,
    JobState,
    TransitionError,
    states_that_allow,
    transition,
)

histories = st.lists(st.sampled_from(JobAction), max_size=30)


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("action", JobAction)
def test_whatever_is_not_in_the_table_is_refused(state: JobState, action: JobAction) -> None:
    if (state, action) in TRANSITIONS:
        assert transition(state, action) is TRANSITIONS[state, action]
        assert state in states_that_allow(action)
    else:
        with pytest.raises(TransitionError, match=f"{state} cannot {action}"):
            transition(state, action)
        assert state not in states_that_allow(action)


def test_every_state_is_reached_and_every_unfinished_one_can_be_left() -> None:
    reached = {JobState.QUEUED}
    while True:
        more = {after for (before, _), after in TRANSITIONS.items() if before in reached}
        if more <= reached:
            break
        reached |= more
    assert reached == set(JobState)
    for state in set(JobState) - FINISHED:
        assert any(before is state for before, _ in TRANSITIONS)
    assert not any(before is JobState.SUCCEEDED for before, _ in TRANSITIONS)
    assert not ACTIVE & FINISHED


def test_every_active_state_can_fail_or_be_settled_and_be_cancelled() -> None:
    for state in ACTIVE - {JobState.CANCELLING}:
        for action in (JobAction.FAIL, JobAction.REQUEUE, JobAction.CANCEL):
            assert (state, action) in TRANSITIONS


@given(histories)
def test_the_gate_keeps_every_invariant_over_any_history(actions: list[JobAction]) -> None:
    job = rows.job()
    problem = JobProblem(kind="crashed", detail="it did")
    for action in actions:
        before = (job.state, job.fence, job.event_seq, job.worker)
        reason = problem if action is JobAction.FAIL else None
        if (JobState(job.state), action) not in TRANSITIONS:
            with pytest.raises(TransitionError):
                change(job, action, reason)
            assert (job.state, job.fence, job.event_seq, job.worker) == before
            continue
        event = change(job, action, reason)
        if action is JobAction.CLAIM:
            job.worker = "worker"
            job.lease_expires_at = datetime.now(UTC) + timedelta(seconds=5)
        state = JobState(job.state)
        assert state is TRANSITIONS[JobState(before[0]), action]
        assert (event.seq, event.type) == (before[2] + 1, EventType.STATE)
        assert (event.data["previous"], event.data["state"]) == (before[0], state)
        assert (job.worker is None) == (job.lease_expires_at is None) == (state not in ACTIVE)
        assert (job.fence > before[1]) == (state not in ACTIVE)
        assert (job.finished_at is not None) == (state in FINISHED)
        assert (job.problem is not None) == (state is JobState.FAILED)
        if action in (JobAction.RETRY, JobAction.RESUME):
            assert (job.attempt, job.summary) == (0, None)
        if action is JobAction.RETRY:
            assert job.started_at is None


@given(st.lists(st.sampled_from(EventType), max_size=20))
def test_events_are_numbered_without_gaps(kinds: list[EventType]) -> None:
    job = rows.job()
    assert [append(job, kind, {}).seq for kind in kinds] == list(range(1, len(kinds) + 1))
