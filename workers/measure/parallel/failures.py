"""Which failures of a round parallelism is to blame for (DOPpler, Section 4.3, Algorithm 2).

A failed measurement is repeated in isolation. What then succeeds had failed because d_p was too
high: N_err,dp of Algorithm 2, from which REACT learns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.measure.measurement import Failure


@dataclass(frozen=True, slots=True)
class FailureCount:
    """What became of a round's candidates; the four add up to all of them.

    ``successes`` (N_succ) have a latency from the round itself; ``due_to_parallelism`` (N_err,dp)
    have one only from the repetition; ``lasting`` have none; ``undecided`` could have been
    repeated and were not, as the budget or the device was gone.
    """

    successes: int
    due_to_parallelism: int
    lasting: int
    undecided: int


def count_failures(
    outcomes: Sequence[Failure | None], repetitions: Mapping[int, Failure | None]
) -> FailureCount:
    """Tell a round's failures apart: ``outcomes`` has how each candidate ended in parallel and
    ``repetitions`` how those ended in isolation that were repeated, by their place in
    ``outcomes``. None is a success.

    The paper leaves open which successes N_succ counts; here it is those of the round, so that
    N_err,dp / (N_err,dp + N_succ) is the share that parallelism failed of what can be measured.
    Raises ValueError for a repetition of what is not there, had not failed or is not repeated.
    """
    for place in repetitions:
        if not 0 <= place < len(outcomes):
            raise ValueError(f"candidate {place} was repeated, the round had {len(outcomes)}")
        kind = outcomes[place]
        if kind is None or not kind.repeated:
            ended = "succeeded" if kind is None else f"failed by {kind.value}"
            raise ValueError(f"candidate {place} was repeated though it {ended}")
    failed = {place: kind for place, kind in enumerate(outcomes) if kind is not None}
    undecided = sum(kind.repeated and place not in repetitions for place, kind in failed.items())
    blamed = sum(kind is None for kind in repetitions.values())
    return FailureCount(
        successes=len(outcomes) - len(failed),
        due_to_parallelism=blamed,
        lasting=len(failed) - blamed - undecided,
        undecided=undecided,
    )
