"""That TVM finds something to decide about every workload."""

from __future__ import annotations

import pytest
from support.programs import computed_by_candidates, sketches

from workers.tuning.program import TensorProgram
from workers.tuning.programs import catalog, values

PROGRAMS = {
    f"{family}.{name}": catalog.program(family, sizes)
    for family, found in catalog.FAMILIES.items()
    for name, sizes in found.workloads.items()
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_every_workload_has_a_design_space_of_tiles(program: TensorProgram) -> None:
    """TVM tiles no sum whose operands are addressed by divisions: then it would sample no more than
    how far loops are unrolled and where a block is computed."""
    found = sketches(program)
    assert found
    for trace in found:
        sampled = [instruction.kind.name for instruction in trace.insts]
        assert sampled.count("SamplePerfectTile") >= 3


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        (
            "self_attention",
            {"heads": 2, "queries": 12, "keys": 10, "head_size": 8, "value_size": 6},
        ),
        ("lstm_cell", {"batch": 2, "inputs": 12, "hidden": 8}),
        ("tconv1d_ncw", {"in_channels": 8, "width": 9, "out_channels": 6, "kernel_width": 5}),
    ],
)
def test_random_candidates_of_programs_with_several_sums_and_phases_are_right(
    family: str, sizes: dict[str, int]
) -> None:
    """Of attention more than a quarter were wrong while TVM was free to place a softmax's sums."""
    program = catalog.program(family, sizes)
    inputs = values.random_inputs(program, 0)
    expected = values.reference(program, inputs)
    for outputs in computed_by_candidates(program, inputs, 12):
        assert values.differ(program, outputs, expected) is None
