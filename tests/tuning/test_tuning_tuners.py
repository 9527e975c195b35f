"""What holds for every tuner, and what each of them alone does."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("tvm")
pytest.importorskip("xgboost")

from support.tuners import Search, answered, matmul, search, two_sums

from workers.tuning.space import DesignSpace
from workers.tuning.tuner import Candidate, Tuner
from workers.tuning.tuners.catalog import TUNERS, UnknownTunerError, open_tuner

SEED = 11
BATCH, TRIALS = 12, 24


@pytest.fixture(scope="module")
def space() -> DesignSpace:
    return DesignSpace(matmul(8, 8, 8), "llvm")


@pytest.fixture(scope="module")
def tiny() -> DesignSpace:
    return DesignSpace(two_sums(4), "llvm")


@pytest.fixture(scope="module", params=sorted(TUNERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def run(name: str, space: DesignSpace) -> Search:
    """One search that the tests look at, each for something else."""
    return search(open_tuner(name, space, SEED), TRIALS, BATCH)


def test_nothing_is_proposed_twice(run: Search) -> None:
    assert len(run.keys) == TRIALS
    assert len(set(run.keys)) == TRIALS


def test_no_more_is_proposed_than_asked_for(run: Search) -> None:
    assert all(0 < len(batch) <= BATCH for batch in run.batches)


def test_answers_replayed_give_the_same_next_proposals(
    name: str, space: DesignSpace, run: Search
) -> None:
    """How a job resumes: from its records alone."""
    tuner = open_tuner(name, space, SEED)
    answered(tuner, run)
    assert tuner.propose(run.asked[-1]) == run.batches[-1]


def test_candidates_are_of_the_space(space: DesignSpace, run: Search) -> None:
    for candidate in run.batches[0][:2] + run.batches[-1][:2]:
        assert space.module(candidate)["main"] is not None


def test_a_tiny_space_is_proposed_whole(name: str, tiny: DesignSpace) -> None:
    tuner = open_tuner(name, tiny, SEED)
    every = search(tuner, 10 * tiny.count, 16)
    listed = {tiny.candidate(tiny.point(index)) for index in range(tiny.count)} - {None}
    assert {each.key for each in listed if each} <= set(every.keys)
    assert len(set(every.keys)) == len(every.keys)
    assert tuner.propose(8) == []


def test_a_search_survives_failures_alone(name: str, space: DesignSpace) -> None:
    tuner = open_tuner(name, space, SEED)
    found = search(tuner, 8, 8, lambda candidate: math.inf)
    tuner.update([], [])
    more = tuner.propose(8)
    assert len(set(found.keys) | {candidate.key for candidate in more}) == 16


def test_answers_that_are_none_are_refused(name: str, space: DesignSpace) -> None:
    tuner = open_tuner(name, space, SEED)
    proposed = tuner.propose(3)
    with pytest.raises(ValueError, match="2 latencies for 3 candidates"):
        tuner.update(proposed, [1.0, 2.0])
    with pytest.raises(ValueError, match="NaN"):
        tuner.update(proposed, [1.0, math.nan, 2.0])


@pytest.mark.parametrize("name", ["annealing", "chameleon", "evolutionary"], scope="function")
def test_who_learns_refuses_answers_to_what_it_did_not_propose(
    name: str, space: DesignSpace
) -> None:
    tuner = open_tuner(name, space, SEED)
    tuner.propose(1)
    with pytest.raises(ValueError, match="was not proposed"):
        tuner.update([Candidate("[[], []]")], [1.0])


FRESH = """
import json, sys
from support.tuners import matmul, search
from workers.tuning.space import DesignSpace
from workers.tuning.tuners.catalog import TUNERS, open_tuner

space = DesignSpace(matmul(8, 8, 8), "llvm")
seed, trials, batch = map(int, sys.argv[1:])
print(json.dumps({name: search(open_tuner(name, space, seed), trials, batch).keys
                  for name in sorted(TUNERS)}))
"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[dict[str, list[str]]]:
    """The same searches in another process, which hashes strings by another seed."""
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", FRESH, str(SEED), str(TRIALS), str(BATCH)],
        cwd=root,
        env={"PYTHONPATH": f"{root}:{root / 'tests'}", "PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_another_process_proposes_the_same(
    name: str, run: Search, elsewhere: dict[str, list[str]]
) -> None:
    assert elsewhere[name] == run.keys


def test_an_unknown_tuner_is_named_with_those_there_are(space: DesignSpace) -> None:
    with pytest.raises(
        UnknownTunerError, match=r"no tuner 'best'; there are: annealing, chameleon"
    ):
        open_tuner("best", space)


def test_tuners_are_listed_without_what_they_need() -> None:
    """The service offers their names, and has neither TVM nor XGBoost."""
    script = (
        "import sys; from workers.tuning.tuners.catalog import TUNERS;"
        "assert 'grid' in TUNERS; assert not {'tvm', 'xgboost', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_grid_heeds_neither_seed_nor_latency(space: DesignSpace) -> None:
    one = search(open_tuner("grid", space, 1), 40, 40)
    other = search(open_tuner("grid", space, 2), 40, 7, lambda candidate: math.inf)
    assert one.keys == other.keys


def test_the_grid_begins_all_over_the_space(space: DesignSpace) -> None:
    met = _options_met(open_tuner("grid", space), space)
    assert all(few >= min(size, 64 // len(space.sketches)) / 2 for few, size in met)
    by_index = _options_met(open_tuner("grid-index", space), space)
    assert sum(few for few, _ in by_index) < sum(few for few, _ in met) / 2


def _options_met(tuner: Tuner, space: DesignSpace) -> list[tuple[int, int]]:
    """How many options of how many, of every decision, the first 64 candidates take."""
    traces = [json.loads(each.trace)[1] for each in tuner.propose(64)]
    decided = [[json.dumps(value) for _, value in sorted(trace)] for trace in traces]
    return [
        (len(set(values)), len(decision.options))
        for values, decision in zip(zip(*decided, strict=True), space.sketches[0], strict=True)
    ]


def test_chances_differ_by_seed(space: DesignSpace) -> None:
    for each in ("random", "annealing", "chameleon", "evolutionary"):
        assert open_tuner(each, space, 1).propose(4) != open_tuner(each, space, 2).propose(4)
