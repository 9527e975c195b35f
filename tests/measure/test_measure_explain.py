"""What won and why: facts of known runs, floors of simulated ones, and sentences that fit both."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, SIDE, Dag, chain, dags, graph_of, wide
from support.schedules import schedules, stream_schedules

from workers.devices.base import Span, Timeline
from workers.devices.sim.arithmetic import memory_of
from workers.devices.sim.device import SimDevice
from workers.graph.graph import Graph, GraphError
from workers.graph.random_inputs import random_inputs
from workers.hardware.roofline import Roofline
from workers.measure.explain import Contender, Explanation, Floor, floors, in_ms, in_percent
from workers.measure.run_facts import RunFacts, run_facts
from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.schedule import Stage, StageSchedule

A100 = SimDevice("a100")
WEIGHT = random_inputs(graph_of(DIAMOND), 1)["x"]


def timeline(*spans: tuple[str, int, float, float]) -> Timeline:
    """Spans as (Unit, stream, start, end)."""
    return Timeline(tuple(Span(unit, "linear", s, start, end) for unit, s, start, end in spans))


OVERLAPPED = timeline(
    ("u0", 0, 0.0, 1.0), ("u1", 0, 1.1, 3.0), ("u2", 1, 1.5, 2.0), ("u3", 0, 3.5, 4.0)
)


def test_the_facts_of_a_known_run() -> None:
    """u0 feeds u1 and u2, which u3 joins: u2 is not on the chain, u1 ended later."""
    facts = run_facts(OVERLAPPED, graph_of(DIAMOND))
    assert facts.chain == ("u0", "u1", "u3")
    assert facts.span_ms == 4.0
    assert facts.chain_running_ms == pytest.approx(1.0 + 1.9 + 0.5)
    assert facts.chain_waiting_ms == pytest.approx(0.1 + 0.5)
    assert facts.nothing_ran_ms == pytest.approx(0.1 + 0.5)
    assert facts.unit_ms == pytest.approx(3.9)
    assert facts.overlap == pytest.approx(3.9 / 4)
    assert facts.idle_ms == pytest.approx(2 * 4 - 3.9)
    assert facts.idle_share == pytest.approx(4.1 / 8)
    assert (facts.units, facts.streams, facts.cores) == (4, 2, None)


def test_an_event_that_only_keeps_stages_apart_is_on_the_chain() -> None:
    """u1 reads nothing of u0's, but waits for it behind a barrier; and on cores, threads count."""
    graph = graph_of(((), ()))
    plan = Plan((Stream(1), Stream(3)), (Launch("u0", 0, (), 0), Launch("u1", 1, (0,))))
    run = timeline(("u0", 0, 0.0, 1.0), ("u1", 1, 1.0, 2.0))
    assert run_facts(run, graph).chain == ("u1",)
    facts = run_facts(run, graph, plan, cores=4)
    assert facts.chain == ("u0", "u1")
    assert (facts.cores, facts.core_ms) == (4, 4.0)
    assert facts.idle_ms == 4.0
    assert facts.idle_share == 0.5


def test_a_stream_keeps_its_order() -> None:
    run = timeline(("u0", 0, 0.0, 1.0), ("u1", 0, 1.0, 2.0))
    assert run_facts(run, graph_of(((), ()))).chain == ("u0", "u1")


def test_a_timeline_of_another_graph_or_of_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match="has no unit 'other'"):
        run_facts(timeline(("other", 0, 0.0, 1.0)), graph_of(DIAMOND))
    with pytest.raises(ValueError, match="the timeline of graph 'dag' has no units"):
        run_facts(Timeline(()), graph_of(DIAMOND))


def alone(graph: Graph) -> dict[str, float]:
    """The latency of each Unit alone on the simulated device."""
    plans = {u.name: Plan((Stream(),), (Launch(u.name, 0),)) for u in graph.units}
    return {name: A100.latency_ms(graph, plan) for name, plan in plans.items()}


def durations(graph: Graph) -> dict[str, float]:
    """How long each Unit's kernels take, from one profiled run."""
    plan = Plan((Stream(),), tuple(Launch(unit.name, 0) for unit in graph.units))
    taken = dict.fromkeys(plan_units(plan), 0.0)
    with A100.prepare(graph, {"w": WEIGHT}, plan) as executable:
        for kernel in executable.profile(random_inputs(graph, 0)):
            taken[kernel.unit] += kernel.duration_ms
    return taken


def plan_units(plan: Plan) -> list[str]:
    return [launch.unit for launch in plan.launches]


def ceilings() -> Roofline:
    """Of the simulated device, exactly."""
    gpu = A100.facts.gpu
    assert gpu is not None
    return Roofline(gpu.fp32_tflops * 1e12, memory_of(gpu).dram_bytes_per_s)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Graph, Plan]:
    dag: Dag = draw(dags())
    graph = graph_of(dag)
    schedule = draw(schedules(graph, dag) | stream_schedules(graph, dag))
    return graph, lower(schedule, graph, 1)


@settings(max_examples=30, deadline=None)
@given(runs())
def test_floors_never_exceed_a_simulated_latency(run: tuple[Graph, Plan]) -> None:
    """Of any valid Plan: there ceilings are exact, and a Unit alone is at its fastest."""
    graph, plan = run
    latency = A100.latency_ms(graph, plan)
    for found in (
        floors(graph, ceilings(), alone(graph)),
        floors(graph, ceilings(), durations(graph), fixed_ms=0.0),
    ):
        assert [floor.name for floor in found] == ["critical path", "arithmetic", "memory"]
        assert all(0 < floor.ms <= latency * (1 + 1e-9) for floor in found)


@settings(max_examples=30, deadline=None)
@given(runs())
def test_the_facts_of_simulated_runs_agree_with_one_another(run: tuple[Graph, Plan]) -> None:
    graph, plan = run
    inputs = random_inputs(graph, 0)
    with A100.prepare(graph, {"w": WEIGHT}, plan) as executable:
        shown = executable.timeline(inputs)
    facts = run_facts(shown, graph, plan)
    assert facts.units == len(graph.units)
    assert facts.chain_running_ms + facts.chain_waiting_ms == pytest.approx(facts.span_ms)
    assert facts.nothing_ran_ms <= facts.chain_waiting_ms + 1e-12
    assert facts.unit_ms + facts.idle_ms == pytest.approx(facts.streams * facts.span_ms)
    assert facts.span_ms <= A100.latency_ms(graph, plan)
    assert 0 < facts.overlap <= facts.streams + 1e-9
    last = max(span.end_ms for span in shown.spans)
    ends = {span.unit: span.end_ms for span in shown.spans}
    starts = {span.unit: span.start_ms for span in shown.spans}
    assert ends[facts.chain[-1]] == last
    for before, after in zip(facts.chain, facts.chain[1:], strict=False):
        assert ends[before] <= starts[after] + 1e-12
    reads = graph.predecessors
    assert not reads[graph.index[facts.chain[0]]], "a chain begins with what waits for nothing"


def test_the_critical_path_of_a_simulated_chain_is_nearly_all_of_it() -> None:
    """All but launching and the gaps between kernels."""
    graph = graph_of(chain(6))
    (floor,) = floors(graph, None, durations(graph), fixed_ms=0.0)
    (rougher,) = floors(graph, None, alone(graph))
    plan = Plan((Stream(),), tuple(Launch(unit.name, 0) for unit in graph.units))
    assert 0.6 < floor.ms / A100.latency_ms(graph, plan) < 1
    assert rougher.ms < floor.ms


def test_floors_are_of_what_is_known() -> None:
    graph = graph_of(wide(2))
    assert floors(graph, None, None) == ()
    some = {"u0": 2.0, "u1": 5.0}  # the others may be as fast as the fastest
    assert floors(graph, None, some) == (Floor("critical path", 5.0),)
    assert floors(graph, None, {}) == ()
    work, memory = floors(graph, Roofline(1e9, 1e6), None)
    assert work.ms == pytest.approx(4 * 2 * SIDE**3 / 1e9 * 1e3)
    assert memory.ms == pytest.approx((3 + 3 + 3 + 4) * SIDE**2 * 4 / 1e6 * 1e3)


BASE = RunFacts(4, 1, 2.4, ("a", "b", "c", "d"), 2.1, 0.3, 2.1, 0.3)
FAST = RunFacts(4, 2, 1.9, ("a", "b", "d"), 1.75, 0.15, 2.6, 0.05, cores=2, core_ms=2.85)
FLOORS = (Floor("critical path", 1.5), Floor("arithmetic", 1.234), Floor("memory", 2.2))


def test_the_words_for_a_schedule_that_won() -> None:
    found = Explanation(
        Contender("ios", 2.0, FAST), Contender("sequential", 2.5, BASE), 1.262, FLOORS, False
    )
    assert found.sentences == (
        "ios takes 2.00 ms, 1.26 times as fast as sequential with 2.50 ms.",
        (
            "In one recorded run of 1.90 ms the chain that ended last has 3 Units, which run for"
            " 1.75 ms and wait for 0.150 ms; with sequential it has 4 Units, which run for 2.10 ms"
            " and wait for 0.300 ms."
        ),
        (
            "On average 1.37 Units ran at once, and 25 % of the time of its 2 cores was idle; with"
            " sequential it was 0.88 Units, and 12 % of the time of its one stream was idle."
        ),
        (
            "For 0.0500 ms nothing ran, because of launches and waits: 0.250 ms less than with"
            " sequential."
        ),
        (
            "Of the 2.00 ms, 25 % is left above the highest floor, the critical path of the Units"
            " measured alone: 1.50 ms (estimate); it refutes the estimate of 2.20 ms for all bytes"
            " at the memory's bandwidth."
        ),
    )
    assert found.gap == 0.25
    assert found.contradicted == (FLOORS[2],)
    data = found.to_json()
    assert data["sentences"] == list(found.sentences)
    assert data["highest_floor"] == "critical path"
    assert data["winner"]["facts"]["chain"] == ["a", "b", "d"]


def test_a_simulated_winner_says_so_and_counts_the_way_to_the_device() -> None:
    found = Explanation(
        Contender("opara", 2.0, FAST), Contender("sequential", 2.5, BASE), 1.25, (), True
    )
    assert found.sentences[0].endswith("2.50 ms (simulated).")
    assert found.sentences[1].startswith("In the simulated run of 1.90 ms ")
    assert found.quiet_ms(found.winner) == pytest.approx(0.05 + 0.1)
    assert found.sentences[3].startswith("For 0.150 ms nothing ran")
    assert len(found.sentences) == 4
    assert (found.gap, found.highest_floor) == (None, None)


def test_the_baseline_is_delivered_beside_an_alternative_that_is_faster() -> None:
    base = Contender("sequential", 2.5, BASE)
    found = Explanation(base, base, 1.0, FLOORS[:1], False, alternative="eager")
    assert found.sentences[0] == (
        "sequential takes 2.50 ms; no schedule was proved to be faster than this baseline, and"
        " eager is."
    )


def test_what_can_be_said_without_a_timeline() -> None:
    compiled, base = Contender("torch.compile", 1.2), Contender("sequential", 2.5, BASE)
    found = Explanation(compiled, base, 2.08, FLOORS[:1], False)
    assert found.sentences == (
        "torch.compile takes 1.20 ms, 2.08 times as fast as sequential with 2.50 ms.",
        "There is no timeline of torch.compile: how much it gains is known, and where is not.",
        "With sequential nothing ran for 0.300 ms, between Units.",
        (
            "No estimated floor holds: 1.20 ms is less than 1.50 ms for the critical path of the"
            " Units measured alone."
        ),
    )
    assert found.to_json()["winner"]["facts"] is None


def test_a_baseline_that_won_is_described_alone() -> None:
    base = Contender("sequential", 2.5, BASE)
    sentences = Explanation(base, base, 1.0, FLOORS[1:], False).sentences
    assert sentences[0] == (
        "sequential takes 2.50 ms; nothing was found to be faster than this baseline."
    )
    assert len(sentences) == 5
    assert not any("with sequential" in sentence for sentence in sentences)


positive = st.floats(1e-4, 1e4)


@st.composite
def facts_of_runs(draw: st.DrawFn) -> RunFacts:
    span = draw(positive)
    streams, share = draw(st.integers(1, 9)), draw(st.floats(0.01, 1))
    running = draw(st.floats(0, 1)) * span
    names = tuple(f"u{number}" for number in range(draw(st.integers(1, 30))))
    busy = streams * span * share
    return RunFacts(40, streams, span, names, running, span - running, busy, span * (1 - share))


@settings(max_examples=50)
@given(facts_of_runs(), facts_of_runs(), positive, positive, st.booleans(), st.data())
def test_the_numbers_in_the_sentences_are_those_of_the_explanation(
    won: RunFacts, base: RunFacts, fast: float, slow: float, simulated: bool, data: st.DataObject
) -> None:
    names = ("critical path", "arithmetic", "memory")
    floor_ms = data.draw(st.lists(positive, max_size=3))
    lowest = tuple(Floor(name, ms) for name, ms in zip(names, floor_ms, strict=False))  # type: ignore[arg-type]  # of a tuple of literals
    winner, baseline = Contender("won", fast, won), Contender("lost", slow, base)
    found = Explanation(winner, baseline, slow / fast, lowest, simulated)
    quiet = [found.quiet_ms(winner) or 0.0, found.quiet_ms(baseline) or 0.0]
    known = {in_ms(value) for value in (fast, slow, won.span_ms, abs(quiet[0] - quiet[1]))}
    known |= {in_ms(floor.ms) for floor in lowest} | {in_ms(quiet[0])}
    known |= {in_ms(f.chain_running_ms) for f in (won, base)}
    known |= {in_ms(f.chain_waiting_ms) for f in (won, base)}
    known |= {in_percent(f.idle_share) for f in (won, base)}
    known |= {f"{f.overlap:.2f} Units" for f in (won, base)}
    known |= {f"{len(f.chain)} Unit" + "s" * (len(f.chain) != 1) for f in (won, base)}
    known |= {f"{f.streams} streams" for f in (won, base)} | {f"{slow / fast:.2f} times"}
    if found.gap is not None:
        known.add(in_percent(found.gap))
        assert 0 <= found.gap < 1
    assert 4 <= len(found.sentences) <= 5
    for sentence in found.sentences:
        assert sentence.endswith(".")
        told = set(re.findall(r"[\d.]+ (?:ms|%|Units?|streams|times)", sentence))
        assert told
        assert told <= known
        assert len(re.findall(r"\d+(?:\.\d+)?", sentence)) == len(
            re.findall(r"[\d.]+ (?:ms|%|Units?|streams|times)", sentence)
        )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0 ms"),
        (0.00171, "0.00171 ms"),
        (1.919, "1.92 ms"),
        (25.06, "25.1 ms"),
        (2510, "2510 ms"),
    ],
)
def test_three_digits_that_count(value: float, words: str) -> None:
    assert in_ms(value) == words


def test_a_stage_schedule_on_the_simulator_end_to_end() -> None:
    graph = graph_of(wide(4))
    names = [unit.name for unit in graph.units]
    stages = (
        Stage(((names[0],),)),
        Stage(tuple((name,) for name in names[1:-1])),
        Stage(((names[-1],),)),
    )
    sequential = Plan((Stream(),), tuple(Launch(name, 0) for name in names))
    ran = {}
    for name, plan in (
        ("sequential", sequential),
        ("staged", lower(StageSchedule("test", stages), graph, 1)),
    ):
        with A100.prepare(graph, {"w": WEIGHT}, plan) as executable:
            facts = run_facts(executable.timeline(random_inputs(graph, 0)), graph, plan)
        ran[name] = Contender(name, A100.latency_ms(graph, plan), facts)
    speedup = ran["sequential"].latency_ms / ran["staged"].latency_ms
    known = floors(graph, ceilings(), alone(graph))
    found = Explanation(ran["staged"], ran["sequential"], speedup, known, True)
    assert speedup > 1
    assert not found.contradicted
    assert found.highest_floor is not None
    assert found.highest_floor.name == "critical path"
    staged, before = found.winner.facts, found.baseline.facts
    assert staged is not None
    assert before is not None
    assert len(staged.chain) == 3
    assert len(before.chain) == 6
    assert staged.overlap > before.overlap
