"""Figures: what they show, that they say what is simulated, and that they stay small."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotly.graph_objects import Figure
from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.db.tables import JobEvent, JobResult, MeasurementRound, Timeline
from backend.figures.latency import FEW, latency
from backend.figures.rounds import rounds
from backend.figures.schemas import FigureKind, Theme
from backend.figures.search import MAX_POINTS, search
from backend.figures.steps import MAX_STEPS, Steps, coarsened, mean
from backend.figures.theme import GREEN, ORANGE, bar_style, palette
from backend.figures.timeline import FEW_STREAMS, UnitSpan, Wait, timeline
from backend.jobs.schemas import RoundEvent, SearchEvent
from backend.results.schemas import ResultRead


def result(scheduler: str, latency_ms: float, **fields: Any) -> ResultRead:
    values: dict[str, Any] = {
        "id": uuid4(),
        "batch_size": 1,
        "scheduler": scheduler,
        "latency_ms": latency_ms,
        "low_ms": latency_ms - 0.5,
        "high_ms": latency_ms + 2.0,
        "samples": 50,
        "simulated": False,
        "verified": True,
        "max_abs_error": 1e-6,
        "winner": False,
        "provider": "aten",
        "kind": "schedule",
        "place": None,
        "search": {},
        "environment": {},
        "created_at": datetime.now(UTC),
    }
    return ResultRead(**{**values, **fields})


def searched(scheduler: str, second: float, **fields: Any) -> SearchEvent:
    values: dict[str, Any] = {
        "batch_size": 1,
        "block": 1,
        "blocks": 4,
        "states": 3,
        "transitions": 5,
        "stages_measured": int(second * 10),
        "stages_total": 100,
        "best_ms": 100.0 - second,
    }
    return SearchEvent(scheduler=scheduler, elapsed_seconds=second, **{**values, **fields})


def measured(number: int, **fields: Any) -> RoundEvent:
    values: dict[str, Any] = {
        "scheduler": "ios",
        "batch_size": 1,
        "degree_of_parallelism": number,
        "candidates": 20,
        "timeout_seconds": 4.0,
        "failures": 2,
        "timeouts": 1,
        "outliers": 3,
        "remeasured": 3,
        "mean_deviation": 0.02,
        "duration_seconds": 1.0,
    }
    return RoundEvent(number=number, **{**values, **fields})


def span(unit: str, kind: str, stream: int, start: float, end: float) -> UnitSpan:
    return UnitSpan(unit=unit, kind=kind, stream=stream, start_ms=start, end_ms=end)


SPANS = [
    span("conv1", "conv", 0, 0.0, 1.0),
    span("conv2", "conv", 1, 0.2, 0.9),
    span("relu", "elementwise", 0, 1.0, 1.25),
]


def plain(figure: Figure) -> dict[str, Any]:
    """As the browser gets it."""
    made: dict[str, Any] = orjson.loads(orjson.dumps(figure.to_plotly_json()))
    return made


def figures(theme: Theme = Theme.LIGHT, simulated: bool = False) -> dict[FigureKind, Figure]:
    results = [result("ios", 9.0, winner=True, simulated=simulated), result("greedy", 12.0)]
    return {
        FigureKind.LATENCY: latency(results, ["ios", "greedy"], theme),
        FigureKind.SEARCH: search([searched("ios", 1.0)], simulated, theme),
        FigureKind.ROUNDS: rounds([measured(1)], theme),
        FigureKind.TIMELINE: timeline(SPANS, "ios, batch 1", simulated, theme),
    }


OF_SCHEDULES = [kind for kind in FigureKind if not kind.startswith("tuning-")]
EMPTY = {
    FigureKind.LATENCY: latency([], [], Theme.DARK),
    FigureKind.SEARCH: search([], False, Theme.DARK),
    FigureKind.ROUNDS: rounds([], Theme.DARK),
    FigureKind.TIMELINE: timeline([], "", False, Theme.DARK),
}


@pytest.mark.parametrize("kind", OF_SCHEDULES)
def test_zoom_survives_because_the_revision_never_changes(kind: FigureKind) -> None:
    for made in (figures()[kind], figures(Theme.DARK)[kind], EMPTY[kind]):
        assert plain(made)["layout"]["uirevision"] == kind


@pytest.mark.parametrize("kind", OF_SCHEDULES)
def test_each_theme_is_readable_on_its_own_background(kind: FigureKind) -> None:
    def ink(theme: Theme) -> str:
        template = plain(figures(theme)[kind])["layout"]["template"]["layout"]
        assert template["paper_bgcolor"] == template["plot_bgcolor"] == "rgba(0,0,0,0)"
        colour: str = template["font"]["color"]
        return colour

    assert luminance(ink(Theme.LIGHT)) < 0.1
    assert luminance(ink(Theme.DARK)) > 0.7


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2, without the gamma correction that matters little here)."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2


@pytest.mark.parametrize("theme", Theme)
def test_no_two_colours_are_alike(theme: Theme) -> None:
    for one, other in itertools.combinations(palette(theme), 2):
        assert sum(abs(int(one[i : i + 2], 16) - int(other[i : i + 2], 16)) for i in (1, 3, 5)) > 60


@pytest.mark.parametrize("theme", Theme)
def test_no_two_of_many_classes_of_bars_look_alike(theme: Theme) -> None:
    styles = [bar_style(position, theme) for position in range(20)]
    assert len({orjson.dumps(style) for style in styles}) == len(styles)


@pytest.mark.parametrize("kind", [FigureKind.LATENCY, FigureKind.SEARCH, FigureKind.TIMELINE])
def test_what_is_simulated_says_so_and_what_is_measured_does_not(kind: FigureKind) -> None:
    assert "simulated" in orjson.dumps(plain(figures(simulated=True)[kind])["layout"]).decode()
    assert "simulated" not in orjson.dumps(plain(figures()[kind])["layout"]).decode()


@pytest.mark.parametrize("kind", OF_SCHEDULES)
def test_an_empty_figure_says_why(kind: FigureKind) -> None:
    made = plain(EMPTY[kind])
    assert made["data"] == []
    assert made["layout"]["annotations"][0]["text"]


@pytest.mark.parametrize("kind", OF_SCHEDULES)
def test_axes_name_their_units(kind: FigureKind) -> None:
    text = orjson.dumps(plain(figures()[kind])["layout"]).decode()
    assert {
        FigureKind.LATENCY: "latency (ms)",
        FigureKind.SEARCH: "predicted (ms)",
        FigureKind.ROUNDS: "candidates",
        FigureKind.TIMELINE: "time (ms)",
    }[kind] in text


# Latency


def test_latency_marks_the_winner_and_keeps_the_jobs_order() -> None:
    results = [result("ios", 9.0, winner=True), result("sequential", 10.0), result("greedy", 12.0)]
    made = plain(latency(results, ["sequential", "greedy", "ios"], Theme.LIGHT))
    traces = {trace["name"]: trace for trace in made["data"]}
    assert set(traces) == {"winner", "others"}
    assert traces["winner"]["x"] == ["ios"]
    assert traces["winner"]["marker"]["color"] == GREEN != traces["others"]["marker"]["color"]
    assert made["layout"]["xaxis"]["categoryarray"] == ["sequential", "greedy", "ios"]


def test_latency_has_the_interval_as_error_bars() -> None:
    made = plain(latency([result("ios", 9.0)], ["ios"], Theme.LIGHT))
    bars = made["data"][0]["error_y"]
    assert (bars["symmetric"], bars["array"], bars["arrayminus"]) == (False, [2.0], [0.5])


def test_what_failed_verification_is_set_apart() -> None:
    results = [result("ios", 1.0, verified=False), result("greedy", 12.0, winner=True)]
    made = plain(latency(results, ["ios", "greedy"], Theme.LIGHT))
    assert {trace["name"]: trace["x"] for trace in made["data"]} == {
        "winner": ["greedy"],
        "not verified": ["ios"],
    }


def test_latency_is_by_place_and_sets_alternatives_apart() -> None:
    results = [
        result("sequential", 10.0, place=3),
        result("torch.compile", 8.9, place=2, kind="alternative"),
        result("ios", 9.0, place=1, winner=True),
    ]
    made = plain(latency(results, ["auto"], Theme.LIGHT))
    traces = {trace["name"]: trace for trace in made["data"]}
    assert {name: trace["x"] for name, trace in traces.items()} == {
        "winner": ["ios"],
        "others": ["sequential"],
        "alternatives": ["torch.compile"],
    }
    assert traces["alternatives"]["marker"]["color"] == ORANGE
    assert made["layout"]["xaxis"]["categoryarray"] == ["ios", "torch.compile", "sequential"]


def test_many_bars_lie_down_with_a_row_for_each_name() -> None:
    names = [f"contender {number}" for number in range(2 * FEW)]
    results = [result(name, 10.0, place=place) for place, name in enumerate(names, start=1)]
    made = plain(latency(results, ["auto"], Theme.LIGHT))
    [bars] = made["data"]
    assert (bars["orientation"], bars["y"], bars["x"][0]) == ("h", names, 10.0)
    assert bars["error_x"]["array"] == [2.0] * len(names)
    layout = made["layout"]
    assert (layout["yaxis"]["categoryarray"], layout["yaxis"]["autorange"]) == (names, "reversed")
    assert (
        layout["height"] > plain(latency(results[: FEW + 1], [], Theme.LIGHT))["layout"]["height"]
    )
    assert "latency (ms)" in layout["xaxis"]["title"]["text"]
    twice = [*results, *(r.model_copy(update={"id": uuid4(), "batch_size": 8}) for r in results)]
    rows_of_both = plain(latency(twice, [], Theme.LIGHT))["layout"]["yaxis"]["categoryarray"]
    assert rows_of_both[-1] == f"{names[-1]}, batch 8"


def test_several_batch_sizes_stand_beside_each_other() -> None:
    results = [
        result(scheduler, 10.0 * size, batch_size=size)
        for size in (8, 1)
        for scheduler in ("ios", "greedy")
    ]
    made = plain(latency(results, ["greedy", "ios"], Theme.LIGHT))
    assert made["layout"]["xaxis"]["categoryarray"] == [
        "greedy<br>batch 1",
        "ios<br>batch 1",
        "greedy<br>batch 8",
        "ios<br>batch 8",
    ]


# Search


def named(figure: Figure) -> dict[str, dict[str, Any]]:
    """The traces of one scheduler, those of the lower panels with their axis before the name."""
    return {
        trace["name"] if trace["yaxis"] == "y" else f"{trace['yaxis']}: {trace['name']}": trace
        for trace in plain(figure)["data"]
    }


def guided(second: float, **fields: Any) -> SearchEvent:
    """An event of a lazy search that has a model."""
    values: dict[str, Any] = {
        "states": 500,
        "states_visited": 20,
        "states_pruned": 300,
        "stages_measured": 200,
        "stages_pruned": 150_000,
        "stages_total": 190_000,
        "best_ms": 3.71,
        "bound_ms": 3.52,
        "expected_ms": 3.7,
    }
    return searched("ios", second, **{**values, **fields})


def test_search_has_a_trace_for_each_class_however_long_it_was() -> None:
    events = [
        guided(second, best_ms=9 - second / 1e4).model_copy(update={"scheduler": name})
        for name in ("greedy", "ios")
        for second in range(5000)
    ]
    made = plain(search(events, False, Theme.LIGHT))
    assert len(made["data"]) == 2 * 9
    for trace in made["data"]:
        assert len(trace["x"]) == len(trace["y"]) <= MAX_POINTS + 1
        assert trace["x"][0] == 0
        assert trace["x"][-1] == 4999
        assert trace["x"] == sorted(trace["x"])
    assert len(orjson.dumps(made)) < 130_000


def test_search_shades_the_gap_between_the_best_and_the_proven_bound() -> None:
    events = [guided(1.0, bound_ms=3.0, expected_ms=None), guided(2.0)]
    made = plain(search(events, False, Theme.LIGHT))
    best, bound, expected = made["data"][:3]
    assert [best["name"], bound["name"]] == ["best", "proven bound"]
    assert bound["y"] == [3.0, 3.52]
    assert bound["fill"] == "tonexty"  # to the trace before it, which is the best
    assert "fill" not in best
    assert expected["y"] == [None, 3.7]
    assert expected["line"]["dash"] == "dot"
    assert all(trace["line"]["shape"] == "hv" for trace in (best, bound, expected))


def test_a_bound_that_did_not_hold_is_not_called_proven() -> None:
    made = search([guided(1.0), guided(2.0, bound_holds=False)], False, Theme.LIGHT)
    assert "bound, not proven" in named(made)
    assert "proven bound" not in orjson.dumps(plain(made)).decode()


def test_what_a_search_learns_in_its_last_moment_can_be_seen() -> None:
    events = [guided(1.0), guided(2.0), guided(2.0, best_ms=4.1, stages_rechecked=3)]
    traces = plain(search(events, False, Theme.LIGHT))["data"]
    assert [trace["marker"]["size"] for trace in traces[:3]] == [[0, 0, 7]] * 3
    assert traces[0]["y"][-1] == 4.1


@pytest.mark.parametrize(("last", "in_view"), [(32.0, 1.3 * 32.0), (57.0, 1.05 * 57.0)])
def test_what_a_search_ends_with_is_in_view_and_its_first_schedule_is_not(
    last: float, in_view: float
) -> None:
    events = [guided(1.0, best_ms=99.0), guided(2.0, best_ms=32.0), guided(3.0, best_ms=last)]
    axis = plain(search(events, False, Theme.LIGHT))["layout"]["yaxis"]
    assert axis["autorangeoptions"]["clipmax"] == pytest.approx(in_view)


def test_a_bound_that_needs_no_assumption_at_last_was_still_not_proven_before() -> None:
    events = [guided(1.0, bound_holds=False), guided(2.0, ended="complete")]
    traces = named(search(events, False, Theme.LIGHT))
    assert "bound, proven at the end" in traces
    assert "proven bound" not in traces


def test_no_line_begins_before_a_schedule_is_known() -> None:
    events = [guided(0.0, best_ms=None, bound_ms=1.0, expected_ms=None), guided(1.0)]
    traces = named(search(events, False, Theme.LIGHT))
    assert (traces["best"]["x"], traces["proven bound"]["x"]) == ([1.0], [1.0])
    assert traces["y2: measured"]["x"] == [0.0, 1.0]


def test_few_of_very_many_stages_can_still_be_read() -> None:
    made = search([guided(0.0, stages_pruned=0), guided(1.0)], False, Theme.LIGHT)
    traces = named(made)
    assert traces["y2: measured"]["y"] == [200, 200]
    assert traces["y2: pruned"]["y"] == [None, 150_000]  # a logarithm has no zero
    assert traces["y2: all"]["y"] == [190_000, 190_000]
    assert traces["y3: visited"]["y"] == [20, 20]
    assert traces["y3: pruned"]["y"] == [300, 300]
    assert traces["y3: all"]["y"] == [500, 500]
    axis = plain(made)["layout"]["yaxis2"]
    assert axis["type"] == "log"
    assert 10 ** axis["range"][0] < 1
    assert 190_000 < 10 ** axis["range"][1] < 1_000_000


def test_a_legend_names_each_class_once_and_schedulers_by_colour() -> None:
    events = [
        guided(float(second)).model_copy(update={"scheduler": name})
        for name in ("astra", "ios")
        for second in range(3)
    ]
    made = plain(search(events, False, Theme.LIGHT))["data"]
    shown: dict[str, list[str]] = {}
    for trace in made:
        if trace["showlegend"]:
            shown.setdefault(trace.get("legend", "legend"), []).append(trace["name"])
    assert shown == {
        "legend": ["astra", "proven bound", "expected", "ios"],
        "legend2": ["measured", "pruned", "all"],
        "legend3": ["visited", "pruned", "all"],
    }
    colours = [{trace["line"]["color"] for trace in made[i : i + 9]} for i in (0, 9)]
    assert [len(each) for each in colours] == [1, 1]
    assert colours[0] != colours[1]


def test_the_search_of_an_older_service_still_draws() -> None:
    events = [searched("ios", 0.0, best_ms=None), searched("ios", 1.0)]
    made = search(events, False, Theme.LIGHT)
    traces = named(made)
    assert set(traces) == {"best", "y2: measured", "y2: all"}
    assert traces["best"]["y"] == [99.0]
    assert traces["y2: measured"]["y"] == [None, 10]
    assert "yaxis3" not in plain(made)["layout"]


@pytest.mark.parametrize("count", [1, 2, 399, 400, 401, 800, 801])
def test_thinning_keeps_the_ends(count: int) -> None:
    made = plain(search([searched("ios", float(i)) for i in range(count)], False, Theme.LIGHT))
    seconds = made["data"][0]["x"]
    assert (seconds[0], seconds[-1]) == (0, count - 1)
    assert len(seconds) == len(set(seconds))


# Rounds


def test_rounds_stack_every_candidate_by_outcome() -> None:
    made = plain(rounds([measured(number) for number in (1, 2, 3)], Theme.LIGHT))
    traces = {trace["name"]: trace["y"] for trace in made["data"]}
    assert traces["measured"] == [15, 15, 15]
    assert traces["outliers"] == [3, 3, 3]
    assert traces["failures"] == [2, 2, 2]
    assert traces["degree of parallelism"] == [1, 2, 3]
    assert traces["mean deviation"] == [0.02] * 3
    assert made["layout"]["barmode"] == "stack"


def test_rounds_of_several_searches_follow_each_other() -> None:
    history = [measured(1), measured(2), measured(1, scheduler="greedy")]
    made = plain(rounds(history, Theme.LIGHT))
    bars = made["data"][0]
    assert bars["x"] == [1, 2, 3]
    assert bars["customdata"] == [["ios", 1, 1], ["ios", 1, 2], ["greedy", 1, 1]]


# Timeline


def test_the_timeline_has_one_trace_per_kind_and_one_row_per_stream() -> None:
    made = plain(timeline(SPANS, "ios, batch 1", False, Theme.LIGHT))
    traces = {trace["name"]: trace for trace in made["data"]}
    assert set(traces) == {"conv", "elementwise"}
    assert traces["conv"]["y"] == ["stream 0", "stream 1"]
    assert traces["conv"]["base"] == [0.0, 0.2]
    assert traces["conv"]["x"] == [1.0, 0.7]
    assert traces["conv"]["customdata"] == [["conv1", 1.0, 1.0, ""], ["conv2", 0.9, 0.7, ""]]
    assert traces["conv"]["orientation"] == "h"
    assert made["layout"]["yaxis"]["categoryarray"] == ["stream 0", "stream 1"]
    assert made["layout"]["xaxis"]["title"]["text"].endswith("ios, batch 1")


def test_a_timeline_of_a_thousand_units_stays_small() -> None:
    spans = [span(f"u{i}", f"k{i % 6}", i % 4, i, i + 1.0) for i in range(1000)]
    made = plain(timeline(spans, "ios", False, Theme.LIGHT))
    assert len(made["data"]) == 6
    assert len(orjson.dumps(made)) < 70_000


def test_the_hover_tells_what_a_unit_waited_for_the_longest_first() -> None:
    waits = tuple(Wait(reason=f"event of unit 'u{i}'", ms=0.01 * i) for i in range(1, 6))
    spans = [*SPANS, span("sum", "elementwise", 1, 1.5, 1.75).model_copy(update={"waited": waits})]
    made = plain(timeline(spans, "ios", False, Theme.LIGHT))
    words = {entry[0]: entry[3] for trace in made["data"] for entry in trace["customdata"]}
    assert words["sum"] == (
        "<br>waited 0.05 ms for event of unit 'u5'<br>waited 0.04 ms for event of unit 'u4'"
        "<br>waited 0.03 ms for event of unit 'u3'<br>and 0.03 ms for 2 more"
    )
    assert words["conv1"] == ""
    title = made["layout"]["xaxis"]["title"]["text"]
    assert title == "time (ms)<br>ios<br>waits (ms): event 0.15"
    assert all("%{customdata[3]}" in trace["hovertemplate"] for trace in made["data"])


def test_the_figure_says_what_all_units_waited_for_most() -> None:
    reasons = {"launch": 0.3, "threads": 0.2, "registers": 0.1, "event of unit 'conv1'": 0.4}
    waits = tuple(Wait(reason=reason, ms=ms) for reason, ms in reasons.items())
    spans = [entry.model_copy(update={"waited": waits}) for entry in SPANS]
    made = plain(timeline(spans, "ios", False, Theme.LIGHT))
    assert made["layout"]["xaxis"]["title"]["text"].endswith(
        "<br>waits (ms): event 1.2, launch 0.9, threads 0.6 ..."
    )
    without = plain(timeline(SPANS, "ios", False, Theme.LIGHT))
    assert "waits" not in without["layout"]["xaxis"]["title"]["text"]


def test_forty_streams_each_have_a_row_with_a_label() -> None:
    spans = [span(f"u{i}", "conv", i % 40, i, i + 1.0) for i in range(80)]
    layout = plain(timeline(spans, "opara", False, Theme.LIGHT))["layout"]
    assert layout["yaxis"]["ticktext"] == [str(stream) for stream in range(40)]
    assert layout["yaxis"]["tickvals"] == layout["yaxis"]["categoryarray"]
    assert layout["height"] / 40 > layout["yaxis"]["tickfont"]["size"]
    few = plain(timeline(spans[:FEW_STREAMS], "opara", False, Theme.LIGHT))["layout"]
    assert "height" not in few
    assert "tickvals" not in few["yaxis"]


WARPS = [(0.0, 64.0), (0.5, 128.0), (1.0, 32.0)]


def test_resident_warps_stand_below_on_the_same_axis_of_time() -> None:
    made = plain(timeline(SPANS, "ios", False, Theme.LIGHT, WARPS, 256))
    *_, steps = made["data"]
    assert (steps["x"], steps["y"]) == ([0.0, 0.5, 1.0, 1.25], [64.0, 128.0, 32.0, 32.0])
    assert steps["line"]["shape"] == "hv"
    assert "xaxis" not in steps
    assert made["layout"]["xaxis"]["anchor"] == steps["yaxis"] == "y2"
    assert made["layout"]["yaxis"]["domain"][0] > made["layout"]["yaxis2"]["domain"][1]
    # 64 and 128 for half a millisecond each, then 32 for a quarter.
    words = made["layout"]["annotations"][0]["text"]
    assert words == "estimated resident warps: mean 83 of 256 (32%)"


def test_simulated_warps_are_called_simulated() -> None:
    layout = plain(timeline(SPANS, "ios", True, Theme.LIGHT, WARPS))["layout"]
    assert layout["annotations"][0]["text"] == "simulated resident warps: mean 83"
    assert "simulated" in layout["xaxis"]["title"]["text"]


def test_a_device_without_warps_has_one_panel() -> None:
    made = plain(timeline(SPANS, "ios", False, Theme.LIGHT))
    assert "yaxis2" not in made["layout"]
    assert {trace["type"] for trace in made["data"]} == {"bar"}


def test_a_timeline_of_many_streams_kinds_waits_and_steps_stays_small() -> None:
    wait = (Wait(reason="registers", ms=0.0123),)
    spans = [
        span(f"unit_{i}", f"k{i % 9}", i % 40, i, i + 1.0).model_copy(update={"waited": wait})
        for i in range(5000)
    ]
    steps = [(i / 10, float(i % 97)) for i in range(50_000)]
    made = plain(timeline(spans, "opara", True, Theme.LIGHT, steps, 5120))
    assert len(made["data"]) == 10
    assert len(made["data"][-1]["x"]) <= MAX_STEPS + 1
    assert len(orjson.dumps(made)) < 600_000


@st.composite
def stepwise(draw: st.DrawFn) -> tuple[Steps, float]:
    """More steps than are drawn, and an end after the last of them."""
    gaps = st.floats(0.001, 2.0)
    block = draw(st.lists(st.tuples(gaps, st.floats(0, 5000)), min_size=1, max_size=40))
    repeats = MAX_STEPS * 2 // len(block) + 1
    times = list(itertools.accumulate(gap for gap, _ in block * repeats))
    values = [value for _, value in block * repeats]
    return list(zip(times, values, strict=True)), times[-1] + draw(gaps)


@given(stepwise())
def test_coarsening_keeps_the_mean_and_stays_within_the_values(case: tuple[Steps, float]) -> None:
    steps, end = case
    coarse = coarsened(steps, end)
    assert len(coarse) == MAX_STEPS
    # The mean the plain way: each value for as long as it held.
    ends = [*(time for time, _ in steps[1:]), end]
    area = sum(value * (after - time) for (time, value), after in zip(steps, ends, strict=True))
    assert mean(steps, end) == pytest.approx(area / end)
    assert mean(coarse, end) == pytest.approx(area / end, rel=1e-6, abs=1e-9)
    most = max(value for _, value in steps)
    assert all(-1e-6 <= value <= most * (1 + 1e-9) + 1e-6 for _, value in coarse)


def test_few_steps_are_left_as_they_are() -> None:
    assert coarsened(WARPS, 2.0) is WARPS
    assert mean([], 1.0) == 0.0
    assert mean([(0.5, 8.0)], 1.0) == 4.0


# Over REST


@pytest.fixture
def job(sessions: sessionmaker[Session]) -> UUID:
    """Two batch sizes; the second attempt has searched both."""
    made = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(made)
        session.flush()
        for size, (name, ms) in itertools.product((1, 4), (("ios", 9.0), ("greedy", 12.0))):
            row = result(name, ms * size, batch_size=size, winner=name == "ios")
            session.add(JobResult(job_id=made.id, schedule={}, **row.model_dump()))
            session.flush()
            spans = [entry.model_dump() for entry in SPANS[: 2 if name == "ios" else 3]]
            session.add(Timeline(result_id=row.id, spans=spans))
        for attempt, size in ((1, 1), (2, 1), (2, 4)):
            if size == 1:
                made.event_seq += 1
                claim = {"state": "importing", "previous": "queued", "attempt": attempt}
                session.add(JobEvent(job_id=made.id, seq=made.event_seq, type="state", data=claim))
            for second in range(attempt * 2):
                made.event_seq += 1
                data = searched("ios", second, batch_size=size).model_dump()
                session.add(JobEvent(job_id=made.id, seq=made.event_seq, type="search", data=data))
            session.add(
                MeasurementRound(
                    job_id=made.id,
                    attempt=attempt,
                    scheduler="ios",
                    batch_size=size,
                    number=1,
                    degree_of_parallelism=2,
                    candidates=20,
                    timeout_s=4.0,
                    failures=0,
                    timeouts=0,
                    outliers=0,
                    remeasured=0,
                    mean_deviation=0.01,
                    duration_s=1.0,
                )
            )
    return made.id


async def get(client: httpx.AsyncClient, job: UUID, what: str) -> dict[str, Any]:
    answer = await client.get(f"/api/v1/jobs/{job}/figures/{what}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    made: dict[str, Any] = answer.json()
    assert set(made) == {"data", "layout"}
    return made


async def test_figures_over_rest_show_what_was_asked_for(
    client: httpx.AsyncClient, job: UUID
) -> None:
    every = await get(client, job, "latency")
    assert len(every["layout"]["xaxis"]["categoryarray"]) == 4
    four = await get(client, job, "latency?batch_size=4")
    assert {trace["name"]: trace["y"] for trace in four["data"]} == {
        "winner": [36.0],
        "others": [48.0],
    }
    dark = await get(client, job, "latency?theme=dark")
    assert [trace["y"] for trace in dark["data"]] == [trace["y"] for trace in every["data"]]
    assert dark["layout"]["template"] != every["layout"]["template"]


async def test_the_search_figure_is_of_the_latest_attempt(
    client: httpx.AsyncClient, job: UUID
) -> None:
    assert (await get(client, job, "search"))["data"][0]["x"] == [0, 1, 2, 3]
    assert (await get(client, job, "search?batch_size=1"))["data"][0]["x"] == [0, 1, 2, 3]
    assert (await get(client, job, "search?scheduler=greedy"))["data"] == []


async def test_the_rounds_figure_is_of_every_attempt(client: httpx.AsyncClient, job: UUID) -> None:
    assert (await get(client, job, "rounds"))["data"][0]["x"] == [1, 2, 3]
    assert (await get(client, job, "rounds?batch_size=4"))["data"][0]["x"] == [1]


async def test_the_timeline_is_the_winners_unless_another_is_named(
    client: httpx.AsyncClient, job: UUID
) -> None:
    winner = await get(client, job, "timeline")
    assert winner["layout"]["xaxis"]["title"]["text"].endswith("ios, batch 1, on cpu")
    assert len(winner["data"]) == 1
    other = await get(client, job, "timeline?batch_size=4&scheduler=greedy")
    assert other["layout"]["xaxis"]["title"]["text"].endswith("greedy, batch 4, on cpu")
    assert len(other["data"]) == 2


async def test_an_alternative_has_no_timeline_and_is_not_shown_for_one(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    made = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(made)
        session.flush()
        names = {"torch.compile": "alternative", "ios": "schedule"}
        for place, (name, kind) in enumerate(names.items(), start=1):
            row = rows.result(made.id, scheduler=name, kind=kind, place=place, winner=False)
            session.add(row)
            session.flush()
            spans = [entry.model_dump() for entry in SPANS] if kind == "schedule" else []
            session.add(Timeline(result_id=row.id, spans=spans))
    shown = await get(client, made.id, "timeline")
    assert shown["layout"]["xaxis"]["title"]["text"].endswith("ios, batch 1, on cpu")
    url = f"/api/v1/jobs/{made.id}/figures/timeline?scheduler=torch.compile"
    answer = await client.get(url)
    assert answer.status_code == 404
    assert "neither a schedule nor a timeline" in answer.json()["detail"]
    assert (await get(client, made.id, "latency"))["data"]


async def test_the_timeline_of_a_gpu_shows_its_warps_of_all_that_it_can_hold(
    client: httpx.AsyncClient, sessions: sessionmaker[Session]
) -> None:
    gpu = {"sm_count": 80, "threads_per_sm": 2048, "warp_size": 32}
    made = rows.job(device="sim:v100")
    row = result("opara", 1.25, winner=True, simulated=True)
    spans = [
        {**entry.model_dump(), "waited": [{"reason": "threads", "ms": 0.1}]} for entry in SPANS
    ]
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add_all([made, rows.device("sim:v100", facts={"gpu": gpu})])
        session.flush()
        session.add(JobResult(job_id=made.id, schedule={}, **row.model_dump()))
        session.flush()
        steps = [[0.0, 2560.0], [0.625, 0.0]]
        session.add(Timeline(result_id=row.id, spans=spans, resident_warps=steps))
    figure = await get(client, made.id, "timeline")
    words = figure["layout"]["annotations"][0]["text"]
    assert words == "simulated resident warps: mean 1,280 of 5,120 (25%)"
    assert figure["layout"]["xaxis"]["title"]["text"].endswith(
        "opara, batch 1, on sim:v100<br>waits (ms): threads 0.3"
    )
    assert figure["data"][0]["customdata"][0][3] == "<br>waited 0.1 ms for threads"


@pytest.mark.parametrize("kind", FigureKind)
async def test_a_job_without_results_has_empty_figures(
    client: httpx.AsyncClient, sessions: sessionmaker[Session], kind: FigureKind
) -> None:
    made = rows.job()
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(made)
    assert (await get(client, made.id, kind))["data"] == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{UUID(int=9)}/figures/latency", 404),
        ("{job}/figures/pie", 422),
        ("{job}/figures/latency?theme=blue", 422),
        ("{job}/figures/latency?batch_size=0", 422),
    ],
)
async def test_a_figure_that_cannot_be_is_a_problem(
    client: httpx.AsyncClient, job: UUID, path: str, status: int
) -> None:
    answer = await client.get(f"/api/v1/jobs/{path.format(job=job)}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
