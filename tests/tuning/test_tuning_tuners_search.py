"""Whether the searches search: on latencies that are computed, at equal numbers of trials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import pytest

pytest.importorskip("tvm")
pytest.importorskip("xgboost")

from support.tuners import matmul, search

from workers.tuning.space import DesignSpace
from workers.tuning.tuner import Tuner
from workers.tuning.tuners.catalog import open_tuner
from workers.tuning.tuners.chameleon import ChameleonTuner, Exploring
from workers.tuning.tuners.strategies import EvolutionaryTuner

TRIALS, BATCH = 64, 16


@pytest.fixture(scope="module")
def space() -> DesignSpace:
    return DesignSpace(matmul(128, 128, 128), "llvm")


@pytest.fixture(scope="module")
def by_chance(space: DesignSpace) -> float:
    return _median_best(partial(open_tuner, "random"), space, 5)


def _median_best(
    opened: Callable[[DesignSpace, int], Tuner], space: DesignSpace, seeds: int
) -> float:
    return median(search(opened(space, seed), TRIALS, BATCH).best for seed in range(seeds))


# Fewer agents and individuals than by default, so that the test is quick.
LEARNING = {
    "annealing": partial(open_tuner, "annealing"),
    "chameleon": partial(ChameleonTuner, options=Exploring(rollouts=6, agents=32)),
    "evolutionary": partial(EvolutionaryTuner, population=64),
}


@pytest.mark.parametrize("name", LEARNING)
def test_learning_beats_chance(name: str, space: DesignSpace, by_chance: float) -> None:
    assert _median_best(LEARNING[name], space, 3) < 0.9 * by_chance
