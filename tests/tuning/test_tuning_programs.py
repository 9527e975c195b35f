"""What the catalog offers, refuses and tells of tensor programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs import families_table, small_programs, workloads_table

from workers.tuning.program import ProgramError, TensorProgram
from workers.tuning.programs import catalog, values
from workers.tuning.programs.workloads import SOURCES, TABLE_2

DOCUMENT = Path(__file__).parents[2] / "docs" / "tensor_programs.md"


def test_there_are_two_workloads_of_each_of_the_18_families_of_table_2() -> None:
    found = catalog.workloads()
    assert len(TABLE_2) == 18
    assert len(found) == len(set(found.values())) == 36
    assert [program.family for program in found.values()] == [
        family for family in TABLE_2 for _ in range(2)
    ]


def test_every_workload_has_a_source() -> None:
    named = {f"{name}.{one}" for name, of in catalog.FAMILIES.items() for one in of.workloads}
    assert named == set(SOURCES)


def test_all_workloads_of_a_family_give_all_of_its_sizes_in_one_order() -> None:
    for family in catalog.FAMILIES.values():
        assert len({tuple(sizes) for sizes in family.workloads.values()}) == 1


@pytest.mark.parametrize("table", [families_table, workloads_table])
def test_the_document_has_the_tables_of_what_there_is(table) -> None:  # type: ignore[no-untyped-def]
    assert table() in DOCUMENT.read_text()


def test_sizes_that_are_not_given_are_the_first_workload_s() -> None:
    first = next(iter(catalog.FAMILIES["conv2d_nchw"].workloads.values()))
    program = catalog.program("conv2d_nchw", {"width": 9, "height": 7})
    assert dict(program.sizes) == {**first, "height": 7, "width": 9}
    assert [name for name, _ in program.sizes] == list(first)


def test_the_order_in_which_sizes_are_given_makes_no_other_program() -> None:
    sizes = {"rows": 2, "inner": 3, "columns": 4}
    assert catalog.program("dense", sizes) == catalog.program(
        "dense", dict(reversed(sizes.items()))
    )


@settings(deadline=None)
@given(st.sampled_from(sorted(catalog.FAMILIES)).flatmap(small_programs))
def test_a_program_is_found_by_its_key(program: TensorProgram) -> None:
    assert catalog.from_key(program.key) == program


@pytest.mark.parametrize(
    "key",
    ["", "dense", "[]", "{}", '{"family": "dense"}', '{"family": "dense", "sizes": 3}', "null"],
)
def test_other_text_is_no_key(key: str) -> None:
    with pytest.raises(ProgramError, match="no tensor program's key"):
        catalog.from_key(key)


def test_a_key_of_a_program_that_does_not_exist_is_refused_as_the_program_is() -> None:
    with pytest.raises(ProgramError, match="perhaps dense"):
        catalog.from_key(json.dumps({"family": "dens", "sizes": {}}))
    with pytest.raises(ProgramError, match="no family"):
        catalog.from_key(json.dumps({"family": ["dense"], "sizes": {}}))


@pytest.mark.parametrize(
    ("family", "sizes", "message"),
    [
        ("conv2d_ncwh", {}, "no family of tensor programs is called 'conv2d_ncwh'; perhaps conv2d"),
        ("zzz", {}, "there are conv1d_ncw, conv1d_nwc, "),
        ("dense", {"row": 3}, "dense has no size 'row'; perhaps rows is meant"),
        ("dense", {"rows": 2.0}, "dense: rows is 2.0, not an integer"),
        ("dense", {"rows": True}, "dense: rows is True, not an integer"),
        ("dense", {"rows": 0}, "dense: rows is 0, at least 1 is needed"),
        ("dense", {"bias": 2}, "dense: bias is 2; 0 is without it, 1 is with it"),
        ("dense", {"rows": 10**12}, "rows is 1,000,000,000,000, at most"),
        ("dense_int8", {"inner": 200_000}, "int32 holds sums of at most 131,071 products"),
        ("conv2d_nchw", {"padding_width": -1}, "padding_width is -1, at least 0"),
        ("conv2d_nchw", {"kernel_width": 40}, "the kernel spans 40 of the width, which is 30"),
        ("conv2d_nchw", {"dilation_width": 20}, "the kernel spans 41 of the width"),
        ("grouped_conv2d", {"groups": 3}, r"groups \(3\) do not divide in_channels \(128\)"),
        ("conv1d_ncw", {"groups": 512, "out_channels": 3}, "do not divide out_channels"),
        ("depthwise_conv2d", {"multiplier": 0}, "multiplier is 0"),
        ("tconv1d_ncw", {"output_padding_width": 8}, "it must be less than stride_width"),
        ("tconv1d_ncw", {"padding_width": 200}, "padding_width leaves nothing of the result"),
        ("tconv1d_ncw", {"groups": 5}, r"groups \(5\) do not divide in_channels"),
        ("correlation_nchw", {"kernel": 2}, "a patch with a centre has an odd size"),
        ("correlation_nchw", {"height": 0}, "height is 0"),
        ("correlation_nchw", {"padding": 0, "height": 4}, "larger than images of 4 by 64"),
        ("lstm_cell", {"hidden": 0}, "hidden is 0"),
        ("self_attention", {"heads": -1}, "heads is -1"),
        ("self_attention", {"queries": 50_000, "keys": 50_000}, "the matrix of scores has"),
        ("matmul", {"rows": 2**16, "columns": 2**16}, "elements, at most 2,147,483,647 can be"),
        ("matmul", {"rows": 30_000, "columns": 40_000}, "at most 4 GiB can be tuned"),
        ("conv2d_nchw", {"padding_width": 10**6, "stride_width": 10**6}, "the padded input has"),
    ],
)
def test_a_program_that_does_not_exist_is_refused_in_words(
    family: str, sizes: dict[str, int], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        catalog.program(family, sizes)


def test_random_inputs_are_the_same_for_the_same_seed_and_no_other() -> None:
    program = catalog.program("dense_int8", {})
    first, again, other = (values.random_inputs(program, seed) for seed in (1, 1, 2))
    assert [given.tobytes() for given in first] == [given.tobytes() for given in again]
    assert first[0].tobytes() != other[0].tobytes()


def test_random_inputs_have_the_program_s_shapes_and_types() -> None:
    for program in catalog.workloads().values():
        if catalog.flops(program) < 2e7:
            for spec, given in zip(
                catalog.inputs(program), values.random_inputs(program, 0), strict=True
            ):
                assert (given.shape, str(given.dtype)) == (spec.shape, spec.dtype)


def test_random_integers_reach_both_ends_of_their_range() -> None:
    x, _ = values.random_inputs(catalog.program("dense_int8", {}), 0)
    assert (x.min(), x.max()) == (-128, 127)


def test_what_the_reference_computes_matches_and_what_is_wrong_is_told() -> None:
    program = catalog.program("dense", {"rows": 3, "inner": 50, "columns": 4})
    inputs = values.random_inputs(program, 0)
    (right,) = values.reference(program, inputs)
    assert values.matches(program, inputs, [right]) is None
    assert values.matches(program, inputs, [right * np.float32(1 + 1e-6)]) is None

    wrong = right.copy()
    wrong[2, 1] += 0.01
    assert "at (2, 1)" in str(values.matches(program, inputs, [wrong]))
    missing = right.copy()
    missing[0, 0] = np.nan
    assert "finite" in str(values.matches(program, inputs, [missing]))
    assert "shape" in str(values.matches(program, inputs, [right.T]))
    assert "float64" in str(values.matches(program, inputs, [right.astype(np.float64)]))
    assert "2 outputs, expected 1" in str(values.matches(program, inputs, [right, right]))


def test_integers_must_agree_exactly() -> None:
    program = catalog.program("dense_int8", {})
    inputs = values.random_inputs(program, 0)
    (right,) = values.reference(program, inputs)
    assert values.tolerance(program) == 0
    assert values.matches(program, inputs, [right]) is None
    wrong = right.copy()
    wrong[0, 17] += 1
    assert "no difference is allowed" in str(values.matches(program, inputs, [wrong]))


def test_the_catalog_is_read_without_tvm_and_torch() -> None:
    code = (
        "import sys; from workers.tuning.programs import catalog, values; catalog.workloads(); "
        "print(sorted({'tvm', 'torch'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_without_tvm_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['tvm'] = None; from workers.tuning.programs import catalog; "
        "catalog.FAMILIES['dense'].prim_func(dict(catalog.program('dense', {}).sizes))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'plait[tvm]'" in told.stderr.splitlines()[-1]
