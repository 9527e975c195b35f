"""Verification: wrong results never pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
import torch
from support.graphs import DIAMOND, SIDE, graph_of
from support.schedules import sequential
from torch import Tensor

from workers.devices import open_device
from workers.devices.base import (
    Device,
    DeviceError,
    DeviceFacts,
    Executable,
    MemoryUse,
    Timeline,
)
from workers.graph.graph import Graph
from workers.graph.interpreter import compile_unit, run_graph
from workers.graph.random_inputs import random_inputs
from workers.hardware.kernel import Kernel
from workers.measure.tolerance import compare_outputs
from workers.measure.verify import (
    Case,
    Verification,
    fresh_seeds,
    reference_cases,
    verify,
)
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Stage, StageSchedule

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1000.0, 0.05], [1000.0, 0.0], 0.05),  # small against the largest
        ([INF, 1.0], [INF, 1.0], 0.0),
        ([], [], 0.0),
        ([-INF], [-INF], 0.0),
    ],
)
def test_what_passes(actual: list[float], expected: list[float], error: float) -> None:
    found, words = compare_outputs(torch.tensor(actual), torch.tensor(expected))
    assert words is None
    assert found == pytest.approx(error)


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0]), "it has NaN"),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), "it has NaN"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, NAN]), "the original has NaN"),
        (torch.tensor([INF]), torch.tensor([1.0]), "infinities"),
        (torch.tensor([1.0]), torch.tensor([INF]), "infinities"),
        (torch.tensor([INF]), torch.tensor([-INF]), "infinities"),
        (torch.tensor([1.001]), torch.tensor([1.0]), "at most 0.0001 is allowed"),
        (torch.tensor([1e-9]), torch.tensor([0.0]), "at most 0 is allowed"),
        (torch.tensor([3]), torch.tensor([4]), "no difference is allowed"),
        (torch.tensor([True]), torch.tensor([False]), "no difference is allowed"),
        (torch.tensor([1.0]), torch.tensor([1.0, 1.0]), r"its shape is (1,), expected (2,)"),
        (torch.tensor([1.0]), torch.tensor([1.0]).double(), "expected torch.float64"),
    ],
)
def test_what_does_not_pass(actual: Tensor, expected: Tensor, words: str) -> None:
    error, said = compare_outputs(actual, expected)
    assert error > 0
    assert said is not None
    assert words in said


@pytest.mark.parametrize(
    ("dtype", "close", "far"), [(torch.float16, 0.005, 0.02), (torch.bfloat16, 0.03, 0.1)]
)
def test_the_tolerance_is_that_of_the_type(dtype: torch.dtype, close: float, far: float) -> None:
    one = torch.ones(4, dtype=dtype)
    assert compare_outputs(one + close, one)[1] is None
    assert compare_outputs(one + far, one)[1] is not None


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = open_device("cpu")
    yield opened
    opened.close()


def test_a_plan_is_verified_on_every_case(device: Device) -> None:
    graph, weights = graph_of(DIAMOND), {"w": torch.eye(SIDE) / 2}
    plan = lower(sequential(graph), graph, device.facts.parallelism)
    cases = []
    for seed in range(3):
        inputs = random_inputs(graph, seed)
        cases.append(Case(inputs, tuple(run_graph(graph, weights, inputs).values())))
    verified = verify(device, graph, weights, plan, cases)
    assert verified.passed
    assert verified.cases == 3
    assert verified.max_abs_error < 1e-6

    wrong = replace(cases[1], expected=(cases[1].expected[0] + 0.25,))
    found = verify(device, graph, weights, plan, [cases[0], wrong, cases[2]])
    assert not found.passed
    assert found.max_abs_error == pytest.approx(0.25, rel=1e-3)
    assert found.difference is not None
    assert found.difference.startswith("output 'u3' of case 1: it differs by 0.25")


def test_nothing_is_verified_by_nothing(device: Device) -> None:
    graph, weights = graph_of(DIAMOND), {"w": torch.eye(SIDE)}
    plan = lower(sequential(graph), graph, device.facts.parallelism)
    with pytest.raises(ValueError, match="no cases"):
        verify(device, graph, weights, plan, [])
    two = Case(random_inputs(graph, 0), (torch.ones(1), torch.ones(1)))
    with pytest.raises(ValueError, match="case 0 expects 2 outputs; graph 'dag' has 1"):
        verify(device, graph, weights, plan, [two])


class Meddling(Executable):
    """A real executable whose results somebody changes: ``meddle`` is told which call it is, the
    inputs and the values by name, and returns the values as the device is to have computed them."""

    def __init__(self, real: Executable, graph: Graph, meddle: Meddle) -> None:
        self._real, self._graph, self._meddle = real, graph, meddle
        self._calls = 0

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        values = self._meddle("run", inputs, self._real.values(inputs))
        return {name: values[name] for name in self._graph.outputs}

    def values(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self._calls += 1
        return self._meddle(f"values {self._calls}", inputs, self._real.values(inputs))

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        return self._real.time(inputs, repeats)

    def timeline(self, inputs: Mapping[str, Tensor]) -> Timeline:
        return self._real.timeline(inputs)

    def profile(self, inputs: Mapping[str, Tensor]) -> tuple[Kernel, ...]:
        return self._real.profile(inputs)

    def memory(self, inputs: Mapping[str, Tensor]) -> MemoryUse:
        return self._real.memory(inputs)

    def cancel(self) -> None:
        self._real.cancel()

    def close(self) -> None:
        self._real.close()


Meddle = Callable[[str, Mapping[str, Tensor], dict[str, Tensor]], dict[str, Tensor]]


class MeddlingDevice(Device):
    """The CPU, but for what ``meddle`` makes of its results."""

    def __init__(self, real: Device, meddle: Meddle) -> None:
        self._real, self._meddle = real, meddle

    @property
    def facts(self) -> DeviceFacts:
        return self._real.facts

    def prepare(
        self, graph: Graph, weights: Mapping[str, Tensor], plan: Plan, provider: str = "aten"
    ) -> Executable:
        return Meddling(self._real.prepare(graph, weights, plan, provider), graph, self._meddle)

    def close(self) -> None:
        """The real device is the test's."""


GRAPH = graph_of(((), (0,), (0,), (1, 2), (3,), (4,)))
WEIGHTS = {"w": torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(5)) / 3}
STAGES = StageSchedule(
    "test",
    (
        Stage((("u0",),)),
        Stage((("u1",), ("u2",)), threads=(1, 1)),
        Stage((("u3", "u4", "u5"),), threads=(1,)),
    ),
)
PLAN = lower(STAGES, GRAPH, 2)


def recomputed(
    changed: str, value: Tensor, inputs: Mapping[str, Tensor], values: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """All values as they follow from ``changed`` being ``value``: nothing after it is wrong."""
    made: dict[str, Tensor] = {**WEIGHTS, **inputs}
    for unit in GRAPH.units:
        compiled = compile_unit(GRAPH, unit, WEIGHTS)
        (result,) = compiled.function(*(made[name] for name in compiled.inputs))
        made[unit.name] = value if unit.name == changed else result
    return {name: made[name] for name in values}


def verified(device: Device, meddle: Meddle) -> Verification:
    cases = reference_cases(GRAPH, WEIGHTS, [1, 2])
    return verify(MeddlingDevice(device, meddle), GRAPH, WEIGHTS, PLAN, cases)


def test_nothing_is_wrong_unless_somebody_meddles(device: Device) -> None:
    assert verified(device, lambda call, inputs, values: values).passed


@pytest.mark.parametrize("wrong", ["u0", "u2", "u4", "u5"])
def test_the_unit_that_is_wrong_is_named(device: Device, wrong: str) -> None:
    def meddle(
        call: str, inputs: Mapping[str, Tensor], values: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        return recomputed(wrong, values[wrong] + 0.5, inputs, values)

    found = verified(device, meddle)
    assert found.difference is not None
    assert found.difference.startswith("output 'u5' of case 0 (seed 1): it differs by ")
    stream = next(launch.stream for launch in PLAN.launches if launch.unit == wrong)
    operators = ", ".join(operator.target for operator in GRAPH.unit(wrong).operators)
    assert (
        f"the first wrong unit is {wrong!r} ({operators}) on stream {stream}:" in found.difference
    )
    assert f"value {wrong!r}" in found.difference
    assert "it differs by 0.5" in found.difference
    assert "race" not in found.difference


def test_an_error_that_grows_on_its_way_is_blamed_on_where_it_began(device: Device) -> None:
    """``u1`` is off by a little more than it may be, what follows makes much of it."""
    graph = graph_of(((), (0,), (1,)))
    weights = {"w": torch.eye(SIDE) * 0.9}

    def meddle(
        call: str, inputs: Mapping[str, Tensor], values: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        wrong = values["u0"] + 2e-3
        after = torch.tanh(wrong @ weights["w"])
        return {"u0": wrong, "u1": after, "u2": torch.tanh(after @ weights["w"]) + 1e-9}

    plan = lower(sequential(graph), graph, 2)
    cases = reference_cases(graph, weights, fresh_seeds(1))
    found = verify(MeddlingDevice(device, meddle), graph, weights, plan, cases)
    assert found.difference is not None
    assert "the first wrong unit is 'u0'" in found.difference


def test_a_unit_that_read_too_early_is_named_with_whom_it_reads(device: Device) -> None:
    """``u3`` joins two streams. It found zeros where ``u2``, on the other one, had not ended."""

    def early(
        call: str, inputs: Mapping[str, Tensor], values: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        stale = torch.tanh(values["u1"] @ WEIGHTS["w"])
        return recomputed("u3", stale, inputs, values)

    streams = {launch.unit: launch.stream for launch in PLAN.launches}
    (other,) = [name for name in ("u1", "u2") if streams[name] != streams["u3"]]
    always = verified(device, early).difference
    assert always is not None
    assert "the first wrong unit is 'u3'" in always
    assert f"it reads from {other!r} (stream {streams[other]}) on other streams" in always
    assert "race" not in always
    for lucky in ("values 1", "values 2"):
        found = verified(
            device, lambda call, i, v, lucky=lucky: v if call == lucky else early(call, i, v)
        ).difference
        assert found is not None
        assert "the first wrong unit is 'u3'" in found
        assert found.endswith("only in one of two runs, so it is a race")


def test_an_import_that_is_wrong_is_told_from_a_plan_that_is(device: Device) -> None:
    """The original model computed something else: no Unit is to blame."""
    (case,) = reference_cases(GRAPH, WEIGHTS, [3])
    wrong = replace(case, expected=[case.expected[0] + 0.25])
    found = verify(device, GRAPH, WEIGHTS, PLAN, [wrong])
    assert found.difference is not None
    assert "the import or an optimisation of the graph is wrong, not the plan" in found.difference


def test_what_is_wrong_only_when_memory_is_reused_is_told(device: Device) -> None:
    def reused(
        call: str, inputs: Mapping[str, Tensor], values: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        return values | {"u5": values["u5"] + 1} if call == "run" else values

    found = verified(device, reused).difference
    assert found is not None
    assert "memory is reused before its last reader has ended" in found


def test_errors_that_add_up_are_told_from_a_wrong_unit(device: Device) -> None:
    graph = graph_of(tuple((n - 1,) if n else () for n in range(40)))
    weights = {"w": torch.eye(SIDE)}

    def imprecise(
        call: str, inputs: Mapping[str, Tensor], values: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        made, value = {}, inputs["x"]
        for unit in graph.units:
            value = torch.tanh(value @ weights["w"]) * (1 + 5e-5)
            made[unit.name] = value
        return made

    plan = lower(sequential(graph), graph, 2)
    cases = reference_cases(graph, weights, [1])
    found = verify(MeddlingDevice(device, imprecise), graph, weights, plan, cases).difference
    assert found is not None
    assert "every unit is within its tolerance, but their errors add up" in found


def test_values_that_cannot_be_kept_leave_the_outputs_verdict(device: Device) -> None:
    def out_of_memory(
        call: str, inputs: Mapping[str, Tensor], values: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        if call != "run":
            raise DeviceError("no memory is left")
        return values | {"u5": values["u5"] * nan}

    nan = float("nan")
    found = verified(device, out_of_memory)
    assert found.difference is not None
    assert "it has NaN" in found.difference
    assert "which unit is wrong cannot be told" in found.difference
    assert found.max_abs_error == INF


def test_every_verification_has_fresh_inputs() -> None:
    seeds = fresh_seeds(4)
    assert len(set(seeds)) == 4
    assert set(seeds).isdisjoint(fresh_seeds(4))
    first, second = reference_cases(GRAPH, WEIGHTS, seeds[:2])
    assert first.seed == seeds[0]
    assert not torch.equal(first.inputs["x"], second.inputs["x"])
