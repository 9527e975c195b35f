"""Stages are measured on inputs that lie in memory as they do in the whole model."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.pass_graphs import call, graph_of_calls

from workers.devices import open_device
from workers.graph.graph import ValueRef
from workers.measure.layouts import laid_out, layout_of, read_layouts
from workers.measure.measurement import Round
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.serial import Batch, Candidate, SerialMeasurer
from workers.measure.surroundings import LEAD_IN
from workers.schedules.schedule import Stage

CHANNELS_LAST = (0, 2, 3, 1)


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=5), data=st.data())
def test_a_layout_is_given_and_read_back(shape: list[int], data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    tensor = torch.randn(shape)
    given_so = laid_out(tensor, order)
    assert torch.equal(given_so, tensor)
    found = layout_of(given_so)
    if found is None:
        assert given_so.is_contiguous()
    else:
        assert laid_out(tensor, found).stride() == given_so.stride() or 1 in shape
        assert given_so.permute(found).is_contiguous()


def test_channels_last_has_its_name_and_what_is_not_dense_has_no_layout() -> None:
    image = torch.randn(2, 3, 4, 5)
    assert layout_of(image) is None
    assert layout_of(image.contiguous(memory_format=torch.channels_last)) == CHANNELS_LAST
    assert layout_of(image[:, :, ::2]) is None
    assert layout_of(torch.randn(1, 4).expand(3, 4)) is None


class Keeping(SerialMeasurer):
    """Keeps the candidates that it is given to measure."""

    def __init__(self, device: object) -> None:
        super().__init__(device)  # type: ignore[arg-type]
        self.given: list[Candidate] = []

    def measure(self, candidates: object, *rest: object) -> Batch:  # type: ignore[override]
        self.given += candidates  # type: ignore[operator]
        return super().measure(candidates, *rest)  # type: ignore[arg-type]


@pytest.fixture
def many_convolutions() -> tuple[object, dict[str, torch.Tensor]]:
    shape = (1, 16, 24, 24)
    names = ("x", *(f"c{number}" for number in range(LEAD_IN + 2)))
    calls = [
        call(made, "conv2d.default", ValueRef(read), ValueRef(f"w_{made}"), None, (1, 1), (1, 1))
        for read, made in pairwise(names)
    ]
    return graph_of_calls(
        calls,
        outputs=names[-1:],
        inputs={"x": shape},
        weights={f"w_{made}": (16, 16, 3, 3) for made in names[1:]},
        shapes=dict.fromkeys(names[1:], shape),
    )


def test_a_stage_is_measured_on_the_layout_that_it_meets(many_convolutions: tuple) -> None:
    graph, weights = many_convolutions
    rounds: list[Round] = []
    with closing(open_device("cpu")) as device:
        layouts = read_layouts(device, graph, weights, "aten")
        assert layouts["c0"] == CHANNELS_LAST
        measurer, index = Keeping(device), MemoryIndex()
        oracle = MeasuringOracle(
            graph, weights, device, index, on_round=rounds.append, measurer=measurer
        )
        oracle.stage_latencies([Stage(((name,),)) for name in ("c0", "c1", graph.outputs[0])])
    first, second, last = (candidate.inputs(0) for candidate in measurer.given)
    assert first["x"].is_contiguous()
    assert second["x"].is_contiguous()  # what makes the stage's input runs before it
    assert last["c0"].is_contiguous(memory_format=torch.channels_last)
    contexts = [
        key.context.partition(" layouts=")[2].partition(" ")[0] for key, _ in index.entries()
    ]
    assert sorted(contexts) == ["", "", "0:0231"]


def test_nothing_runs_for_layouts_where_time_is_simulated(many_convolutions: tuple) -> None:
    graph, weights = many_convolutions
    with closing(open_device("sim:v100")) as device:
        assert read_layouts(device, graph, weights, "aten") == {}
