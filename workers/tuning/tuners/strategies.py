"""TVM MetaSchedule's own searches behind our interface: replay-trace, which is random, and
evolutionary search with its XGBoost model, Ansor's successor (Shao et al., "Tensor Program
Optimization with Probabilistic Programs", NeurIPS 2022)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tvm.s_tir.meta_schedule import MeasureCandidate, SearchStrategy
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.cost_model import XGBModel
from tvm.s_tir.meta_schedule.cost_model.xgb_model import XGBConfig
from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch, ReplayTrace

from workers.tuning.space import DesignSpace, candidate_of
from workers.tuning.tuner import Candidate
from workers.tuning.tuners.ledger import Ledger, checked

_FRUITLESS = 3
"""So many batches without anything new end a strategy's search; what is left of the space is then
proposed in the grid's order. TVM draws with replacement and cannot tell when it has seen all."""
_UNBOUNDED = 1 << 30
"""TVM's bound on the trials: whoever proposes bounds them here."""
_FAILED_S = 1e10
"""What TVM's model takes for the latency of what failed."""


class _Strategy:
    """A strategy's candidates, each once. The first call's ``count`` is TVM's batch size."""

    def __init__(self, space: DesignSpace, strategy: SearchStrategy, seed: int) -> None:
        # TVM's seeds are 1 … 2³¹ - 1.
        self.context = space.context(strategy, seed % (2**31 - 2) + 1)
        self._space = space
        self._ledger = Ledger(space)
        self._spare: list[Candidate] = []
        self._found: dict[str, MeasureCandidate] = {}
        self._begun = False
        self._ended = False

    def propose(self, count: int, database: Any = None, model: Any = None) -> list[Candidate]:
        if not self._begun:
            self.context.pre_tuning(
                _UNBOUNDED, count, self._space.schedules, database=database, cost_model=model
            )
            self._begun = True
        fruitless = 0
        while len(self._spare) < count and not self._ended:
            new = self._generated()
            self._spare += new
            fruitless = 0 if new else fruitless + 1
            self._ended |= fruitless >= _FRUITLESS
        found, self._spare = self._spare[:count], self._spare[count:]
        return found + self._ledger.rest(count - len(found))

    def measured(self, candidate: Candidate) -> MeasureCandidate:
        """TVM's object of one that was proposed. Raises ValueError for another."""
        found = self._found.get(candidate.key)
        if found is None and not self._ledger.add(candidate):
            found = self._found[candidate.key] = self._replayed(candidate)
        if found is None:
            raise ValueError("an answer to a candidate that was not proposed")
        return found

    def _generated(self) -> list[Candidate]:
        batch = self.context.generate_measure_candidates()
        if batch is None:
            self._ended = True
            return []
        new: list[Candidate] = []
        for measured in batch:
            candidate = candidate_of(measured.sch.trace)
            if self._ledger.add(candidate):
                self._found[candidate.key] = measured
                new.append(candidate)
        return new

    def _replayed(self, candidate: Candidate) -> MeasureCandidate:
        """Of what came from the rest of the space."""
        schedule = self._space.schedule(candidate)
        arguments = ArgInfo.from_prim_func(self._space.module_before["main"])
        return MeasureCandidate(schedule, list(arguments))


class RandomTuner:
    """TVM's replay-trace: sketches with every decision drawn anew. It learns nothing."""

    def __init__(self, space: DesignSpace, seed: int) -> None:
        self._strategy = _Strategy(space, ReplayTrace(), seed)

    def propose(self, count: int) -> list[Candidate]:
        """So many at random that were not drawn before."""
        return self._strategy.propose(count)

    def update(self, candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> None:
        """Learns nothing. Raises ValueError for answers that are none."""
        checked(candidates, latencies_ms)


class EvolutionaryTuner:
    """TVM's evolutionary search: mutates the traces of the fastest candidates and keeps what its
    model of the lowered loops takes for the best.

    ``population`` traces over four generations; TVM's default of 512 takes four times as long to
    propose. The model speaks from the first answers on, where TVM's waits for 100. Candidates that
    failed are told to the model, but not kept as parents. Some mutations are of no decision (how
    many jobs a parallel loop has), so that there are a few candidates that are no point of the
    space.
    """

    def __init__(self, space: DesignSpace, seed: int, population: int = 128) -> None:
        self._model = XGBModel(num_warmup_samples=1, config=XGBConfig(nthread=1))
        self._space = space
        self._database = MemoryDatabase()
        self._workload = self._database.commit_workload(space.module_before)
        search = EvolutionarySearch(population_size=population)
        self._strategy = _Strategy(space, search, seed)
        self._numpy = np.random.RandomState(seed % 2**32)

    def propose(self, count: int) -> list[Candidate]:
        """What the model takes for the fastest of some generations, and 5 % at random."""
        with _global_numpy(self._numpy):
            return self._strategy.propose(count, self._database, self._model)

    def update(self, candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> None:
        """Learn how fast they are. Raises ValueError for answers that are none."""
        checked(candidates, latencies_ms)
        if not candidates:
            return
        measured = [self._strategy.measured(candidate) for candidate in candidates]
        results = []
        for each, latency in zip(measured, latencies_ms, strict=True):
            if math.isinf(latency):
                results.append(RunnerResult(None, "failed"))
                continue
            results.append(RunnerResult([latency / 1e3], None))
            record = TuningRecord(
                each.sch.trace, self._workload, [latency / 1e3], self._space.target, each.args_info
            )
            self._database.commit_tuning_record(record)
        self._strategy.context.notify_runner_results(measured, results)
        with _global_numpy(self._numpy):
            self._model.update(self._strategy.context, measured, results)


@contextmanager
def _global_numpy(state: np.random.RandomState) -> Iterator[None]:
    """NumPy's global generator is ``state`` meanwhile: TVM's model draws from it while it knows
    nothing."""
    outside = np.random.get_state()
    np.random.set_state(state.get_state())
    try:
        yield
    finally:
        state.set_state(np.random.get_state())
        np.random.set_state(outside)
