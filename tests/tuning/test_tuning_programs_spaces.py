"""That TVM finds something to decide about every workload."""

from __future__ import annotations

import pytest
from support.programs import sketches

from workers.tuning.program import TensorProgram
from workers.tuning.programs import catalog

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
