"""The figures of a job that tunes kernels: from hand-made rows, and from those of a database."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotly.graph_objects import Figure
from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.db.tables import JobEvent, TuningKernel, TuningProgram, TuningRound, TuningTrial
from backend.figures.schemas import Clock, FigureKind, Theme
from backend.figures.tuning_best import MOST_PROGRAMS, tuning_best
from backend.figures.tuning_processes import tuning_processes
from backend.figures.tuning_rounds import BY_KIND, TAU, tuning_cpu
from backend.figures.tuning_rounds import tuning_deviation as deviation
from backend.figures.tuning_rounds import tuning_failures as failures
from backend.figures.tuning_rounds import tuning_parallelism as parallelism
from backend.figures.tuning_rows import MAX_ROUNDS, History, Round, Span, Trial, TunedProgram
from workers.measure.measurement import Failure
from workers.measure.parallel.react import ReactPolicy
from workers.tuning.records import SpanKind

KINDS = [kind for kind in FigureKind if kind.startswith("tuning-")]
DENSE = TunedProgram("dense-key", "dense 1×512×512", weight=2, gflops=0.5)
CONV = TunedProgram("conv-key", "conv2d 64×56×56", gflops=0.2)


def measured(number: int, **fields: Any) -> Round:
    values: dict[str, Any] = {
        "session": 1,
        "program": DENSE.name,
        "degree_of_parallelism": number,
        "timeout_s": 4.0,
        "successes": 5,
        "lower": max(1, number - 1),
        "upper": number + 3,
        "failures": {"compile": 1},
        "outliers": 1,
        "remeasured": 2,
        "delta_mean": 0.02,
        "cpu_share": 0.5,
    }
    return Round(number=number, **{**values, **fields})


def history(*found: Round) -> History:
    return History(found, len(found))


def trials(program: TunedProgram, *latencies: float | None, first: int = 1) -> list[Trial]:
    return [
        Trial(program.key, first + place, 2.5 * (first + place), latency)
        for place, latency in enumerate(latencies)
    ]


BEGAN = datetime(2026, 11, 22, tzinfo=UTC)
SPANS = [
    Span("parallel", 1, "cpu", 1, 2.0, 2.5),
    Span("build", 0, "", 1, 0.0, 1.5),
    Span("build", 1, "", 2, 0.1, 1.9, "compile"),
    Span("alone", 1, "cpu", 1, 2.5, 2.75),
    Span("parallel", 2, "cpu", 3, 2.0, 6.0, "timeout"),
]


def plain(figure: Figure) -> dict[str, Any]:
    """As the browser gets it."""
    made: dict[str, Any] = orjson.loads(orjson.dumps(figure.to_plotly_json()))
    return made


def named(figure: Figure) -> dict[str, dict[str, Any]]:
    return {trace["name"]: trace for trace in plain(figure)["data"]}


def figures(theme: Theme = Theme.LIGHT) -> dict[FigureKind, Figure]:
    told = history(measured(1), measured(2))
    return {
        FigureKind.TUNING_BEST: tuning_best(
            [DENSE], trials(DENSE, 2.0, 1.0), [], Clock.TRIALS, theme
        ),
        FigureKind.TUNING_PROCESSES: tuning_processes(SPANS, [1], theme),
        **{kind: made(told, theme) for kind, made in BY_KIND.items()},
    }


EMPTY = {
    FigureKind.TUNING_BEST: tuning_best([DENSE], [], [], Clock.TIME, Theme.DARK),
    FigureKind.TUNING_PROCESSES: tuning_processes([], [], Theme.DARK),
    **{kind: made(history(), Theme.DARK) for kind, made in BY_KIND.items()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_zoom_survives_an_update_in_either_theme(kind: FigureKind) -> None:
    for made in (figures()[kind], figures(Theme.DARK)[kind], EMPTY[kind]):
        assert plain(made)["layout"]["uirevision"] == kind


@pytest.mark.parametrize("kind", KINDS)
def test_themes_differ_in_colour_alone(kind: FigureKind) -> None:
    light, dark = (plain(figures(theme)[kind]) for theme in Theme)
    inks = [made["layout"]["template"]["layout"]["font"]["color"] for made in (light, dark)]
    assert inks[0] != inks[1]
    assert [trace["y"] for trace in light["data"]] == [trace["y"] for trace in dark["data"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_of_nothing_says_so(kind: FigureKind) -> None:
    made = plain(EMPTY[kind])
    assert made["data"] == []
    assert made["layout"]["annotations"][0]["text"]


@pytest.mark.parametrize(
    ("kind", "titles"),
    {
        FigureKind.TUNING_BEST: {"trial", "best latency (ms)"},
        FigureKind.TUNING_PARALLELISM: {"round", "candidates at once"},
        FigureKind.TUNING_DEVIATION: {"round", "δ mean (%)", "candidates"},
        FigureKind.TUNING_FAILURES: {"round", "failed", "timeout (s)"},
        FigureKind.TUNING_PROCESSES: {"tuning time (s), round 1"},
        FigureKind.TUNING_CPU: {"round", "CPU use (%)"},
    }.items(),
)
def test_axes_name_their_units(kind: FigureKind, titles: set[str]) -> None:
    made = plain(figures()[kind])["layout"]
    axes = [value for key, value in made.items() if key.startswith(("xaxis", "yaxis"))]
    assert {axis["title"]["text"] for axis in axes if "title" in axis} == titles


@pytest.mark.parametrize("kind", KINDS)
def test_every_trace_keeps_its_identity_while_others_come(kind: FigureKind) -> None:
    """What a person has hidden stays hidden."""
    identities = [trace["uid"] for trace in plain(figures()[kind])["data"]]
    assert len(set(identities)) == len(identities)


# Best latency


def test_the_best_falls_only_and_holds_until_the_last_trial() -> None:
    told = trials(DENSE, None, 4.0, 5.0, 3.0, 3.5, None)
    line = named(tuning_best([DENSE], told, [], Clock.TRIALS, Theme.LIGHT))[DENSE.name]
    assert (line["x"], line["y"]) == ([2, 4, 6], [4.0, 3.0, 3.0])
    assert line["customdata"] == [2, 4, 4]
    over_time = named(tuning_best([DENSE], told, [], Clock.TIME, Theme.LIGHT))[DENSE.name]
    assert (over_time["x"], over_time["y"]) == ([5.0, 10.0, 15.0], line["y"])


@given(st.lists(st.none() | st.floats(1e-4, 1e4), min_size=1, max_size=60))
def test_trials_that_improved_nothing_may_be_left_out(latencies: list[float | None]) -> None:
    told = trials(DENSE, *latencies)
    best = float("inf")
    kept = []
    for trial in told:
        if trial.latency_ms is not None and trial.latency_ms < best:
            best = trial.latency_ms
            kept.append(trial)
    kept += [told[-1]] if told[-1] not in kept else []
    whole, thin = (
        plain(tuning_best([DENSE], some, [], Clock.TRIALS, Theme.LIGHT)) for some in (told, kept)
    )
    assert whole == thin
    if whole["data"]:
        bests = whole["data"][0]["y"]
        assert bests == sorted(bests, reverse=True)


def test_a_program_whose_trials_all_failed_has_no_line() -> None:
    told = [*trials(DENSE, None, None), *trials(CONV, 1.0, first=3)]
    assert set(named(tuning_best([DENSE, CONV], told, [], Clock.TRIALS, Theme.LIGHT))) == {
        CONV.name
    }
    made = plain(tuning_best([DENSE], trials(DENSE, None), [], Clock.TRIALS, Theme.LIGHT))
    assert made["data"] == []
    assert made["layout"]["annotations"]


def test_of_many_programs_those_that_compute_most_are_drawn_and_told_apart() -> None:
    many = [TunedProgram(f"p{n}", f"program {n}", weight=n, gflops=1.0) for n in range(1, 31)]
    told = [trial for n, one in enumerate(many) for trial in trials(one, 1.0, first=n + 1)]
    made = tuning_best(many, told, [], Clock.TRIALS, Theme.LIGHT)
    assert list(named(made)) == [f"program {n}" for n in range(30, 30 - MOST_PROGRAMS, -1)]
    looks = {(line["line"]["color"], line["line"]["dash"]) for line in plain(made)["data"]}
    assert len(looks) == MOST_PROGRAMS
    assert "18 more programs not drawn" in plain(made)["layout"]["xaxis"]["title"]["text"]


def test_chosen_kernels_are_marked_in_the_colour_of_their_program() -> None:
    told = [*trials(DENSE, 2.0, 1.0), *trials(CONV, 3.0, first=3)]
    kernels = [Trial(DENSE.key, 2, 5.0, 1.1), Trial(CONV.key, 3, 7.5, 2.9)]
    traces = plain(tuning_best([CONV, DENSE], told, kernels, Clock.TIME, Theme.LIGHT))["data"]
    *lines, marks = traces
    assert (marks["x"], marks["y"], marks["mode"]) == ([5.0, 7.5], [1.1, 2.9], "markers")
    shades = {line["name"]: line["line"]["color"] for line in lines}
    assert marks["marker"]["color"] == [shades[DENSE.name], shades[CONV.name]]


def test_another_clock_forgets_the_zoom_of_the_first() -> None:
    axes = [
        plain(tuning_best([DENSE], trials(DENSE, 1.0), [], clock, Theme.LIGHT))["layout"]["xaxis"]
        for clock in Clock
    ]
    assert axes[0]["uirevision"] != axes[1]["uirevision"]
    assert axes[1]["title"]["text"] == "tuning time (s)"


@pytest.mark.parametrize("latencies", [[4.2], [4.2, 3.9], [40.0, 3.0], [900.0, 2.0, 0.5]])
def test_all_latencies_are_within_the_scale_and_between_few_ticks(latencies: list[float]) -> None:
    axis = plain(tuning_best([DENSE], trials(DENSE, *latencies), [], Clock.TRIALS, Theme.LIGHT))[
        "layout"
    ]["yaxis"]
    low, high = axis["range"]
    assert 10**low < min(latencies)
    assert max(latencies) < 10**high
    ticks_in_a_decade = {"D1": 9, "D2": 3, None: 1}[axis.get("dtick")]
    assert (high - low) * ticks_in_a_decade < 8


# Rounds


def test_the_bounds_stand_behind_the_round_that_they_were_told_for() -> None:
    told = history(
        measured(1, degree_of_parallelism=1, lower=6, upper=18),
        measured(2, degree_of_parallelism=8, lower=12, upper=30),
    )
    traces = named(parallelism(told, Theme.LIGHT))
    line = traces["degree of parallelism"]
    assert (line["x"], line["y"]) == ([0.5, 1.5, 1.5, 2.5], [1, 1, 8, 8])
    lower, upper = traces["lower bound"], traces["bounds"]
    assert (lower["x"], lower["y"]) == ([1.5, 2.5, 2.5, 3.5], [6, 6, 12, 12])
    assert (upper["x"], upper["y"]) == (lower["x"], [18, 18, 30, 30])
    assert upper["fill"] == "tonexty"
    names = list(traces)
    assert names.index("bounds") == names.index("lower bound") + 1
    assert plain(parallelism(told, Theme.LIGHT))["layout"]["yaxis"]["range"][1] > 30


def test_a_measurer_of_fixed_degree_has_no_band() -> None:
    told = history(*(measured(n, degree_of_parallelism=8, lower=None, upper=None) for n in (1, 2)))
    assert set(named(parallelism(told, Theme.DARK))) == {"degree of parallelism"}


def test_a_round_in_which_nothing_could_be_built_is_a_gap() -> None:
    told = history(measured(1), measured(2, degree_of_parallelism=0, timeout_s=0.0))
    assert named(parallelism(told, Theme.LIGHT))["degree of parallelism"]["y"] == [1, 1, None, None]
    assert named(failures(told, Theme.LIGHT))["timeout allowed"]["y"] == [4.0, 4.0, None, None]


def test_one_round_is_as_wide_as_a_bar() -> None:
    for made in (parallelism, failures, tuning_cpu):
        assert plain(made(history(measured(1)), Theme.LIGHT))["data"][-1]["x"] == [0.5, 1.5]


def test_both_panels_of_the_deviation_are_there_from_the_first_round_on() -> None:
    told = history(measured(1, outliers=0, remeasured=0, delta_mean=None))
    assert {trace.get("yaxis", "y") for trace in plain(deviation(told, Theme.LIGHT))["data"]} == {
        "y",
        "y2",
    }


def test_a_resumption_is_a_line_between_two_rounds() -> None:
    told = history(measured(1), measured(2), measured(3, session=2), measured(4, session=2))
    for made in BY_KIND.values():
        drawn = plain(made(told, Theme.LIGHT))["layout"]
        [line], [words] = drawn["shapes"], drawn["annotations"]
        assert (line["x0"], words["x"], words["text"]) == (2.5, 2.5, "resumed")
    assert "shapes" not in plain(parallelism(history(*told.rounds[:2]), Theme.LIGHT))["layout"]


def test_of_very_many_rounds_the_axis_says_which_are_drawn() -> None:
    newest = [measured(number) for number in range(401, 1001)]
    for made in BY_KIND.values():
        title = plain(made(History(newest, 1000), Theme.LIGHT))["layout"]["xaxis"]["title"]["text"]
        assert title == "round (the last 600 of 1,000)"


def test_deviation_is_in_percent_against_the_threshold_of_react() -> None:
    told = history(measured(1, delta_mean=None), measured(2, delta_mean=0.125))
    traces = named(deviation(told, Theme.LIGHT))
    assert traces["δ mean"]["y"] == [None, 12.5]
    [threshold] = {value for name, one in traces.items() if name[0] == "τ" for value in one["y"]}
    assert threshold == 100 * TAU
    assert ReactPolicy().tau == TAU
    assert traces["re-measured"]["y"] == [2, 2]
    assert traces["outliers"]["y"] == [1, 1]
    assert {traces[name]["yaxis"] for name in ("re-measured", "outliers")} == {"y2"}
    assert plain(deviation(told, Theme.LIGHT))["layout"]["yaxis"]["range"][1] > 12.5


def test_failures_are_stacked_by_kind_in_one_order() -> None:
    told = history(
        measured(1, successes=0, failures={"timeout": 2, "compile": 3}),
        measured(2, successes=0, failures={"crash": 1, "budget": 1}),
    )
    traces = plain(failures(told, Theme.LIGHT))
    bars = {trace["name"]: trace["y"] for trace in traces["data"] if trace["type"] == "bar"}
    assert bars == {
        "does not compile": [3, 0],
        "crash": [0, 1],
        "timeout": [2, 0],
        "budget": [0, 1],
    }
    assert list(bars) == ["does not compile", "crash", "timeout", "budget"]
    assert traces["layout"]["barmode"] == "stack"
    assert traces["layout"]["yaxis"]["range"][1] > 5


def test_every_kind_of_failure_has_a_colour_of_its_own() -> None:
    """But that of a budget, which no candidate of a tuner can exceed."""
    kinds = [kind.value for kind in Failure if kind is not Failure.BUDGET]
    told = history(measured(1, failures=dict.fromkeys(kinds, 1)))
    bars = [one for one in plain(failures(told, Theme.DARK))["data"] if one["type"] == "bar"]
    assert len({bar["marker"]["color"] for bar in bars}) == len(kinds)


def test_no_failure_is_an_empty_stack_and_not_an_empty_figure() -> None:
    traces = plain(failures(history(measured(1, failures={})), Theme.LIGHT))["data"]
    assert [trace["name"] for trace in traces] == ["none failed", "timeout allowed"]
    assert traces[0]["y"] == [0]


def test_cpu_use_that_no_system_tells_is_said_to_be_unknown() -> None:
    made = plain(tuning_cpu(history(measured(1, cpu_share=None)), Theme.LIGHT))
    assert made["layout"]["annotations"][0]["text"] == "the CPU's use is not known"
    told = history(measured(1, cpu_share=None), measured(2, cpu_share=0.875))
    assert named(tuning_cpu(told, Theme.LIGHT))["CPU use"]["y"] == [None, None, 87.5, 87.5]


# Processes


def test_processes_have_a_row_each_and_work_a_trace_for_each_kind() -> None:
    made = plain(tuning_processes(SPANS, [3, 4], Theme.LIGHT))
    rows_ = made["layout"]["yaxis"]["categoryarray"]
    assert rows_ == ["build 0", "build 1", "cpu 1", "cpu 2"]
    assert [trace["name"] for trace in made["data"]] == [
        "built",
        "measured beside others",
        "measured alone",
        "failed",
    ]
    failed = made["data"][-1]
    assert (failed["y"], failed["base"], failed["x"]) == (
        ["build 1", "cpu 2"],
        [0.1, 2.0],
        [1.8, 4.0],
    )
    assert [words for _, _, words in failed["customdata"]] == [
        "built, compile",
        "measured beside others, timeout",
    ]
    assert "rounds 3 to 4" in made["layout"]["xaxis"]["title"]["text"]


@pytest.mark.parametrize("kind", SpanKind)
def test_every_kind_of_span_is_drawn(kind: SpanKind) -> None:
    made = plain(tuning_processes([replace(SPANS[0], kind=kind.value)], [1], Theme.LIGHT))
    assert len(made["data"]) == 1


# Out of a database


@pytest.fixture
def job(sessions: sessionmaker[Session]) -> UUID:
    made = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(made)
        session.flush()
        for place, program in enumerate((CONV, DENSE)):
            session.add(
                TuningProgram(
                    job_id=made.id,
                    program=program.key,
                    place=place,
                    name=program.name,
                    weight=program.weight,
                    units=[],
                    gflops=program.gflops,
                )
            )
        for number in (1, 2, 3):
            session.add(round_row(made.id, number))
        for seq, second in enumerate((0, 25), start=1):
            state = {"state": "importing", "previous": "queued", "attempt": 1, "problem": None}
            at = BEGAN + timedelta(seconds=second)
            session.add(JobEvent(job_id=made.id, seq=seq, type="state", data=state, created_at=at))
        latencies = {1: 4.0, 2: None, 3: 5.0, 4: 3.0, 5: 3.5}
        for trial, latency in latencies.items():
            session.add(trial_row(made.id, trial, latency))
        session.add(
            TuningKernel(
                job_id=made.id, program=DENSE.key, trial=4, candidate="4", latency_ms=3.1,
                wall_ms=3.2, tir="", source="", trace="", ranked=[], filename="", storage_key="",
                size_bytes=0, sha256="",
            )
        )  # fmt: skip
    return made.id


def round_row(job_id: UUID, number: int) -> TuningRound:
    values = asdict(measured(number, program=DENSE.key))
    del values["session"]
    return TuningRound(
        job_id=job_id,
        attempt=1,
        batch=1,
        asked=5,
        timeouts=0,
        started_s=10.0 * (number - 1),
        ended_s=10.0 * number,
        best_ms=None,
        react=None,
        created_at=BEGAN + timedelta(seconds=10 * number),
        spans=[asdict(replace(SPANS[0], started_s=10.0 * number, ended_s=10.0 * number + 1))],
        **values,
    )


def trial_row(job_id: UUID, trial: int, latency_ms: float | None) -> TuningTrial:
    return TuningTrial(
        job_id=job_id,
        trial=trial,
        round=(trial + 1) // 2,
        program=DENSE.key,
        candidate=str(trial),
        trace="",
        latency_ms=latency_ms,
        failure=None if latency_ms else "compile",
        reason="",
        build_s=1.0,
    )


async def get(client: httpx.AsyncClient, job: UUID, figure: str) -> dict[str, Any]:
    answer = await client.get(f"/api/v1/jobs/{job}/figures/{figure}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_the_best_latency_comes_from_the_trials_over_either_axis(
    client: httpx.AsyncClient, job: UUID
) -> None:
    line, marks = (await get(client, job, "tuning-best"))["data"]
    assert (line["name"], line["x"], line["y"]) == (DENSE.name, [1, 4, 5], [4.0, 3.0, 3.0])
    assert (marks["x"], marks["y"]) == ([4], [3.1])
    line, marks = (await get(client, job, "tuning-best?x=time"))["data"]
    assert (line["x"], marks["x"]) == ([10.0, 20.0, 30.0], [20.0])


async def test_figures_of_rounds_come_from_the_rounds(client: httpx.AsyncClient, job: UUID) -> None:
    made = await get(client, job, "tuning-parallelism?theme=dark")
    line = made["data"][-1]
    assert line["y"] == [1, 1, 2, 2, 3, 3]
    assert line["customdata"][0][:2] == [1, DENSE.name]
    assert made["layout"]["shapes"][0]["x0"] == 2.5
    for kind in BY_KIND:
        assert (await get(client, job, kind))["data"][0]["x"]


async def test_the_process_timeline_is_of_the_newest_rounds(
    client: httpx.AsyncClient, job: UUID
) -> None:
    made = await get(client, job, "tuning-processes?rounds=2")
    assert made["data"][0]["base"] == [20.0, 30.0]
    assert made["layout"]["xaxis"]["title"]["text"].endswith("rounds 2 to 3")
    assert (
        await client.get(f"/api/v1/jobs/{job}/figures/tuning-processes?rounds=0")
    ).status_code == 422


async def test_only_so_many_rounds_are_read(
    client: httpx.AsyncClient, sessions: sessionmaker[Session], job: UUID
) -> None:
    with sessions.begin() as session:
        session.add_all([round_row(job, number) for number in range(4, MAX_ROUNDS + 11)])
    made = await get(client, job, "tuning-cpu")
    assert made["data"][0]["customdata"][::2] == list(range(11, MAX_ROUNDS + 11))
    assert f"of {MAX_ROUNDS + 10:,}" in made["layout"]["xaxis"]["title"]["text"]
