"""Corrections by resemblance: gone by until they prove poor, and again once they do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.graphs import graph_of, wide
from support.oracles import FakeClockOracle

from workers.graph.graph import Graph
from workers.schedulers.base import ignore_progress
from workers.schedulers.endings import Pruning
from workers.schedulers.ios import guided, outlook
from workers.schedulers.ios.facts import facts_of
from workers.schedulers.ios.guided import Guided
from workers.schedulers.ios.guides import Exhaustive, Guide
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.outlook import Outlook, look
from workers.schedulers.ios.parts import divide
from workers.schedulers.ios.resemblance import Floats, Resemblance
from workers.schedulers.ios.search import Search
from workers.schedulers.ios.track_record import Forecast, TrackRecord
from workers.schedules.schedule import Stage


def forecast(plain: tuple[float, float], corrected: tuple[float, float], count: int) -> Forecast:
    """The same mean and deviation for each of the first ``count`` options."""
    return Forecast(
        np.arange(count),
        (np.full(count, plain[0]), np.full(count, plain[1])),
        (np.full(count, corrected[0]), np.full(count, corrected[1])),
    )


OVERCONFIDENT = forecast(plain=(0.0, 0.05), corrected=(0.0, 0.01), count=32)
BETTER = forecast(plain=(0.0, 0.05), corrected=(0.05, 0.02), count=32)


def test_corrections_are_gone_by_at_first() -> None:
    assert TrackRecord().for_corrections


def test_overconfident_corrections_are_dropped_and_come_back() -> None:
    record = TrackRecord()
    latencies = np.full(32, math.exp(0.05))
    record.score(OVERCONFIDENT, latencies)
    assert not record.for_corrections
    record.score(BETTER, latencies)
    record.score(BETTER, latencies)
    assert record.for_corrections


def test_good_corrections_stay() -> None:
    record = TrackRecord()
    for _ in range(5):
        record.score(BETTER, np.full(32, math.exp(0.05)))
    assert record.for_corrections
    assert record.lead > 0


def test_a_single_measurement_does_not_decide() -> None:
    record = TrackRecord()
    latencies = np.full(32, 1.0)
    latencies[7] = 2.0
    record.score(OVERCONFIDENT, latencies)
    assert record.for_corrections


@pytest.mark.parametrize("latency", [math.nan, math.inf, 0.0])
def test_what_has_no_latency_tells_nothing(latency: float) -> None:
    record = TrackRecord()
    record.score(OVERCONFIDENT, np.full(32, latency))
    assert record.lead == 0.0


def takes(stage: Stage) -> float:
    """Groups share a little of the device."""
    return 1.0 + 0.1 * len(stage.units) + 0.02 * len(stage.groups)


def searched(graph: Graph, guide: Guide) -> Knowledge:
    """What is known of the largest part once it was searched."""
    division = divide(graph, Pruning(3, 8), "paper", 10**6)
    search = Search(graph, division, FakeClockOracle(takes), strategies="parallel")
    search.run(guide, 32, None, ignore_progress)
    return max(search.parts, key=lambda known: len(known.options))


class Wrong(Resemblance):
    """Says of everything that it takes a tenth less than the model expects, and is sure."""

    def expected(self, units: Floats, kind: NDArray[np.int8]) -> tuple[Floats, Floats]:
        return np.full(len(units), math.log(0.9)), np.full(len(units), 0.01)


def looked(known: Knowledge, corrected: bool) -> Outlook:
    """A look at a part of which a model expects the same everywhere."""
    expected = np.full(len(known.options), 1.4)
    return look(known, facts_of(known), expected, 0.1, 8, hopeful=True, corrected=corrected)


def test_a_look_forecasts_both_ways_whichever_it_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    known = searched(graph_of(wide(6)), Guided(share=0.0, least=2))
    monkeypatch.setattr(outlook, "Resemblance", Wrong)
    with_them, without = looked(known, corrected=True), looked(known, corrected=False)
    assert with_them.expected < without.expected
    for found in (with_them, without):
        assert found.forecast is not None
        assert len(found.forecast.options)
        assert set(found.forecast.options.tolist()) <= set(found.wanted)
        assert found.forecast.plain[0] == pytest.approx(math.log(1.4))
        assert found.forecast.plain[1] == pytest.approx(0.1)
        assert found.forecast.corrected[0] == pytest.approx(math.log(0.9 * 1.4))
        assert found.forecast.corrected[1] == pytest.approx(0.01)


def test_a_search_stops_going_by_corrections_that_are_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways: list[bool] = []

    def noted(*given: Any, corrected: bool, **named: Any) -> Outlook:
        ways.append(corrected)
        return look(*given, corrected=corrected, **named)

    monkeypatch.setattr(guided, "look", noted)
    monkeypatch.setattr(outlook, "Resemblance", Wrong)
    graph = graph_of(wide(6))
    optimum = searched(graph, Exhaustive()).standing.best.latency_ms
    found = searched(graph, Guided()).standing.best.latency_ms
    assert found <= 1.01 * optimum
    assert ways[0]
    assert not all(ways)
