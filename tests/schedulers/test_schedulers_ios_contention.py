"""The model of contention: what it learns of a device from a few stages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from support.graphs import Dag, dags, graph_of, successors_of, wide
from support.oracles import FakeClockOracle

from workers.schedulers.endings import Pruning, components
from workers.schedulers.ios.contention import Contention
from workers.schedulers.ios.facts import Floats, PartFacts
from workers.schedulers.ios.facts import facts_of as facts_of_part
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.options import make_options
from workers.schedulers.ios.parts import divide
from workers.schedulers.ios.resemblance import Resemblance
from workers.schedulers.ios.space import build_space
from workers.schedulers.ios.stage_groups import groups_of

SIX_CHAINS: Dag = ((), *((0,) for _ in range(6)), *((unit,) for unit in range(1, 7)))


@settings(deadline=None)
@given(dags(max_units=8))
def test_groups_are_the_connected_components(dag: Dag) -> None:
    successors = successors_of(dag)
    space = build_space(successors, Pruning(3, 4))
    groups = groups_of(space)
    for stage, mask in enumerate(space.stages.tolist()):
        found = groups.masks[groups.of_stage[stage, : groups.count[stage]]]
        assert tuple(found.tolist()) == components(mask, successors)


def facts_of(dag: Dag, seed: int) -> PartFacts:
    space = build_space(successors_of(dag), Pruning(3, 8))
    count = len(space.stages)
    alone = np.random.default_rng(seed).uniform(0.5, 1.5, (1, space.units))
    everything = np.arange(count, dtype=np.int32)
    return PartFacts(
        graph_of(dag).units, alone, groups_of(space), everything, np.zeros(count, dtype=np.int8)
    )


def device(facts: PartFacts, overlap: str) -> Floats:
    """Every stage's latency on a device of that kind."""
    chains = np.append(facts.members[:-1] @ facts.alone[0], 0.0)
    longest = chains[facts.groups.of_stage].max(axis=1)
    work: Floats = facts.groups.units.T @ facts.alone[0]
    kinds = {"ideal": longest, "none": work, "half": np.maximum(longest, 0.5 * work)}
    return kinds[overlap]


@pytest.mark.parametrize("overlap", ["ideal", "none", "half"])
def test_it_learns_how_much_overlaps(overlap: str) -> None:
    facts = facts_of(SIX_CHAINS, 1)
    truth = device(facts, overlap)
    draw = np.random.default_rng(2)
    seen = draw.choice(len(truth), 60, replace=False)
    model = Contention([facts])
    before = np.abs(model.expected(0) / truth - 1).mean()
    model.fit([(0, seen, truth[seen])])
    after = np.abs(model.expected(0) / truth - 1)
    assert after.mean() < 0.03 < before
    assert model.deviation < 0.05


def test_what_is_learnt_of_one_part_helps_another() -> None:
    """Eight Units side by side tell of the shares of others of the same kind."""
    parts = [facts_of(wide(8), 3), facts_of(SIX_CHAINS, 4)]
    truth = [device(part, "none") for part in parts]
    model = Contention(parts)
    before = np.abs(model.expected(1) / truth[1] - 1).mean()
    seen = np.arange(0, len(truth[0]), 4)
    model.fit([(0, seen, truth[0][seen])])
    assert np.abs(model.expected(1) / truth[1] - 1).mean() < before / 2


def test_errors_carry_over_to_what_resembles() -> None:
    """Whatever has Unit 0 takes 10 % longer than expected, the rest 10 % less."""
    draw = np.random.default_rng(5)
    units = draw.integers(0, 2, (80, 6)).astype(np.float64) * np.array([4, 1, 1, 1, 1, 1])
    units = units[units.any(axis=1)]
    errors = np.where(units[:, 0] > 0, 0.1, -0.1)
    kind = np.zeros(len(units), dtype=np.int8)
    mean, deviation = Resemblance(units[:50], kind[:50], errors[:50]).expected(
        units[50:], kind[50:]
    )
    assert np.abs(mean - errors[50:]).max() < 0.08
    assert np.corrcoef(mean, errors[50:])[0, 1] > 0.9
    assert (deviation >= 0).all()


def test_few_stages_do_not_make_it_sure_of_itself() -> None:
    """A model may meet a few stages exactly; how far it is off elsewhere is not 0."""
    facts = facts_of(SIX_CHAINS, 1)
    several = np.flatnonzero(facts.of_several)
    scatter = np.random.default_rng(6).uniform(0.95, 1.05, len(facts.stage))
    truth = device(facts, "half") * np.where(facts.of_several, scatter, 1.0)
    alone = np.flatnonzero(~facts.of_several)
    seen = np.random.default_rng(7).choice(several, 18, replace=False)
    model = Contention([facts])
    options = np.append(alone, seen)
    model.fit([(0, options, truth[options])])
    off = np.sqrt(np.mean(np.log(truth[several] / model.expected(0)[several]) ** 2))
    assert 0.5 * off < model.deviation < 2 * off


def test_latencies_alone_with_other_threads() -> None:
    """Units of which half the time is shared evenly by threads: what was measured with 8, 4, 2 and
    1 threads says what 3 take, and a plain stage has the device's threads divided by its groups."""
    graph = graph_of(wide(3))
    latencies = FakeClockOracle(lambda stage: 1 + 1 / (stage.threads[0] if stage.threads else 8))
    parts = divide(graph, Pruning(3, 8), "paper", 10**6).parts
    part = max(parts, key=lambda part: part.space.units)
    known = Knowledge(graph, part, make_options(graph, part, "parallel", 8))
    for option in np.flatnonzero(np.bitwise_count(part.space.stages[known.options.stage]) == 1):
        known.record(int(option), latencies.stage_latencies([known.stage(int(option))])[0])
    facts = facts_of_part(known)
    assert facts.variant is not None
    assert (facts.alone[0] == 1 + 1 / 8).all()
    for option in range(len(facts.stage)):
        stage = known.stage(option)
        threads = stage.threads or (max(1, 8 // len(stage.groups)),) * len(stage.groups)
        for group, count in enumerate(threads):
            takes = facts.alone[facts.variant[option, group]]
            assert takes == pytest.approx(1 + 1 / count)
