"""That a family's TIR, its NumPy reference and torch compute the same, and its FLOPs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.programs import computed_by_torch, computed_by_tvm, small_programs
from torch.utils.flop_counter import FlopCounterMode

from workers.tuning.program import TensorProgram
from workers.tuning.programs import catalog, values

FAMILIES = sorted(catalog.FAMILIES)
COUNTED_BY_TORCH = [
    name for name in FAMILIES if name not in ("correlation_nchw", "lstm_cell", "self_attention")
]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_the_reference_computes_what_torch_does(family: str, data: st.DataObject) -> None:
    program = data.draw(small_programs(family))
    inputs = values.random_inputs(program, 0)
    for found, expected in zip(
        values.reference(program, inputs), computed_by_torch(program, inputs), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, strict=True)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_the_untuned_kernel_computes_what_the_reference_does(
    family: str, data: st.DataObject
) -> None:
    program = data.draw(small_programs(family))
    inputs = values.random_inputs(program, 0)
    assert values.matches(program, inputs, computed_by_tvm(program, inputs)) is None


@pytest.mark.parametrize("family", COUNTED_BY_TORCH)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_flops_are_those_that_torch_counts_and_one_for_each_relu(
    family: str, data: st.DataObject
) -> None:
    program = data.draw(small_programs(family))
    with FlopCounterMode(display=False) as counter:
        (y,) = computed_by_torch(program, values.random_inputs(program, 0))
    assert catalog.flops(program) == counter.get_total_flops() + relus(program, y.size)


def relus(program: TensorProgram, results: int) -> int:
    """How many there are."""
    return results * dict(program.sizes).get("relu", 0)


@pytest.mark.parametrize(
    ("family", "sizes", "expected"),
    [
        # 3 × 2 places, 9 displacements, 5 channels of patches of 3 × 3
        (
            "correlation_nchw",
            {
                "batch": 1, "channels": 5, "height": 9, "width": 8, "kernel": 3,
                "max_displacement": 2, "stride": 1, "displacement_stride": 2, "padding": 0,
            },
            (3 * 2) * 9 * (2 * 5 * 9),
        ),
        # 7 cells of 4 gates over 3 + 7 values, and 18 operations each
        ("lstm_cell", {"batch": 1, "inputs": 3, "hidden": 7}, 7 * (4 * 2 * 10 + 18)),
        # 2 × 4 × 5 scores: a product of 8, one of 3, a scaling, and 5 of a softmax
        (
            "self_attention",
            {
                "batch": 1, "heads": 2, "queries": 4, "keys": 5, "head_size": 8,
                "value_size": 3,
            },
            40 * (2 * 8 + 2 * 3 + 1 + 5),
        ),
    ],
)  # fmt: skip
def test_flops_that_torch_does_not_count(family: str, sizes: dict[str, int], expected: int) -> None:
    assert catalog.flops(catalog.program(family, sizes)) == expected


def test_products_of_the_largest_integers_do_not_overflow() -> None:
    program = catalog.program("dense_int8", {"rows": 1, "inner": 131_071, "columns": 1})
    inputs = [np.full(spec.shape, -128, np.int8) for spec in catalog.inputs(program)]
    (found,) = values.reference(program, inputs)
    assert found[0, 0] == 131_071 * 2**14
    assert values.matches(program, inputs, computed_by_tvm(program, inputs)) is None
