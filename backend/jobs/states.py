"""The states of a job and the one table that decides every change."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    QUEUED = "queued"
    IMPORTING = "importing"
    TUNING = "tuning"
    VERIFYING = "verifying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


class JobAction(StrEnum):
    """What may happen to a job. ``claim`` is also how a worker takes over an expired lease."""

    CLAIM = "claim"
    TUNE = "tune"
    VERIFY = "verify"
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"
    CONFIRM_CANCEL = "confirm_cancel"
    REQUEUE = "requeue"
    RETRY = "retry"
    RESUME = "resume"


S, A = JobState, JobAction

TRANSITIONS: dict[tuple[JobState, JobAction], JobState] = {
    (S.QUEUED, A.CLAIM): S.IMPORTING,
    (S.IMPORTING, A.TUNE): S.TUNING,
    (S.IMPORTING, A.SUCCEED): S.SUCCEEDED,  # an inspection
    (S.TUNING, A.VERIFY): S.VERIFYING,
    (S.VERIFYING, A.TUNE): S.TUNING,  # the next batch size
    (S.VERIFYING, A.SUCCEED): S.SUCCEEDED,
    **{(state, A.FAIL): S.FAILED for state in (S.QUEUED, S.IMPORTING, S.TUNING, S.VERIFYING)},
    **{(state, A.REQUEUE): S.QUEUED for state in (S.IMPORTING, S.TUNING, S.VERIFYING)},
    **{(state, A.CANCEL): S.CANCELLING for state in (S.IMPORTING, S.TUNING, S.VERIFYING)},
    (S.QUEUED, A.CANCEL): S.CANCELLED,
    (S.CANCELLING, A.CONFIRM_CANCEL): S.CANCELLED,
    (S.FAILED, A.RETRY): S.QUEUED,
    (S.CANCELLED, A.RETRY): S.QUEUED,
    (S.FAILED, A.RESUME): S.QUEUED,
    (S.CANCELLED, A.RESUME): S.QUEUED,
}

ACTIVE = frozenset({S.IMPORTING, S.TUNING, S.VERIFYING, S.CANCELLING})
FINISHED = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED})


class TransitionError(ValueError):
    """An action that the job's state does not allow."""

    def __init__(self, state: JobState, action: JobAction) -> None:
        super().__init__(f"a job that is {state} cannot {action}")
        self.state, self.action = state, action


def transition(state: JobState, action: JobAction) -> JobState:
    """The state after ``action``; raises TransitionError if it is not allowed."""
    try:
        return TRANSITIONS[state, action]
    except KeyError:
        raise TransitionError(state, action) from None


def states_that_allow(action: JobAction) -> tuple[JobState, ...]:
    """The states in which ``action`` is allowed, for conditional updates."""
    return tuple(state for state, allowed in TRANSITIONS if allowed is action)
