"""Design spaces of real programs: their points, candidates and kernels."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

from support.tuners import decisions, matmul, padded_convolution, two_sums  # noqa: E402

from workers.tuning.points import Point  # noqa: E402
from workers.tuning.space import DesignSpace, SpaceError, scheduled, tvm_target  # noqa: E402
from workers.tuning.tuner import Candidate  # noqa: E402
from workers.tuning.tuners.order import spread  # noqa: E402
from workers.tuning.tuners.strategies import RandomTuner  # noqa: E402

PROGRAMS = {
    "matmul": matmul(16, 24, 32),
    "split reduction": matmul(4, 4, 512),
    "convolution": padded_convolution(4, 8, 8),
}


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def space(request: pytest.FixtureRequest) -> DesignSpace:
    return DesignSpace(PROGRAMS[request.param], "llvm")


@pytest.fixture(scope="module")
def on_gpu() -> DesignSpace:
    return DesignSpace(matmul(64, 64, 64), {"kind": "cuda", "arch": "sm_90"})


def found(space: DesignSpace, count: int) -> dict[Point, Candidate]:
    """The first candidates of the grid's order, by point."""
    every = ((at, space.candidate(at)) for at in map(space.point, spread(space.counts)))
    return dict(islice(((at, each) for at, each in every if each), count))


def test_a_candidate_is_what_its_point_decides(space: DesignSpace) -> None:
    candidates = found(space, 40)
    for point, candidate in candidates.items():
        decided = [
            list(each) if isinstance(each, tuple) else each for each in space.decisions(point)
        ]
        assert decisions(candidate) == decided
    assert len({candidate.key for candidate in candidates.values()}) == 40
    assert {point[0] for point in candidates} == set(range(len(space.sketches)))


def test_the_same_point_is_the_same_candidate_in_another_space(space: DesignSpace) -> None:
    again = DesignSpace(space.module_before["main"], "llvm")
    for point, candidate in found(space, 10).items():
        assert again.candidate(point) == candidate


def test_what_tvm_draws_is_a_point_of_the_space(space: DesignSpace) -> None:
    """Nothing that TVM's own sampling can decide is missing, and it is the same candidate."""
    for candidate in RandomTuner(space, seed=5).propose(40):
        assert candidate in [space.candidate(point) for point in points_like(space, candidate)]


def points_like(space: DesignSpace, candidate: Candidate) -> list[Point]:
    """The points of all sketches that decide the same."""
    decided = [tuple(each) if isinstance(each, list) else each for each in decisions(candidate)]
    knobs = [
        (
            number,
            *(each.options.index(option) for each, option in zip(sketch, decided, strict=True)),
        )
        for number, sketch in enumerate(space.sketches)
        if len(sketch) == len(decided)
        and all(option in each.options for each, option in zip(sketch, decided, strict=True))
    ]
    return [(*point, *(0,) * (space.knobs - len(point))) for point in knobs]


def test_tiles_honour_their_bounds(space: DesignSpace) -> None:
    for sketch in space.sketches:
        for decision in sketch:
            for option in decision.options:
                if isinstance(option, tuple):
                    assert option[-1] <= 64
                    assert min(option) >= 1


def test_kernels_compute_what_they_should(space: DesignSpace) -> None:
    function = space.module_before["main"]
    *inputs, output = [
        ([int(extent) for extent in parameter.shape], str(parameter.dtype))
        for parameter in function.params
    ]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) for shape, _ in inputs]
    results = []
    plain = tvm.IRModule({"main": function})
    by_sketch = {point[0]: candidate for point, candidate in found(space, 40).items()}
    kernels = [space.module(candidate) for candidate in list(by_sketch.values())[:3]]
    for module in (plain, *kernels):
        built = tvm.compile(module, target=space.target)
        tensors = [
            tvm.runtime.tensor(array) for array in (*arrays, np.zeros(output[0], np.float32))
        ]
        built["main"](*tensors)
        results.append(tensors[-1].numpy())
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-4)
    if len(arrays[0].shape) == 2:
        np.testing.assert_allclose(results[1], arrays[0] @ arrays[1], rtol=1e-4, atol=1e-4)


def test_a_process_that_only_builds_gets_the_same_kernel(space: DesignSpace) -> None:
    candidate = next(iter(found(space, 1).values()))
    sent = Candidate(json.loads(json.dumps(candidate.trace)))
    built = scheduled(space.module_before["main"], sent)
    tvm.ir.assert_structural_equal(built, space.module(candidate))


def test_a_place_that_does_not_exist_is_no_candidate() -> None:
    space = DesignSpace(PROGRAMS["convolution"], "llvm")
    every = [space.candidate(at) for at in map(space.point, islice(spread(space.counts), 200))]
    kept = [candidate.key for candidate in every if candidate]
    assert 20 < len(kept) < 200
    assert len(set(kept)) == len(kept)


def test_what_a_gpu_cannot_run_is_no_candidate(on_gpu: DesignSpace) -> None:
    every = [on_gpu.candidate(at) for at in map(on_gpu.point, islice(spread(on_gpu.counts), 150))]
    kept = [candidate for candidate in every if candidate]
    assert 0 < len(kept) < 150
    for candidate in kept:
        rows, columns, _ = [each for each in decisions(candidate) if isinstance(each, list)]
        assert rows[2] * columns[2] <= 1024


def test_a_tiny_space_is_listed_whole() -> None:
    space = DesignSpace(two_sums(4), "llvm")
    candidates = [space.candidate(space.point(index)) for index in range(space.count)]
    assert space.count < 200
    assert len({candidate.key for candidate in candidates if candidate}) == space.count


def test_targets_are_completed() -> None:
    assert int(tvm_target("llvm").attrs["num-cores"]) == 1
    assert int(tvm_target({"kind": "llvm", "num-cores": 4}).attrs["num-cores"]) == 4
    assert int(tvm_target({"kind": "cuda", "arch": "sm_90"}).attrs["max_threads_per_block"]) == 1024


def test_other_targets_are_refused() -> None:
    with pytest.raises(SpaceError, match="no design space for c;"):
        DesignSpace(PROGRAMS["matmul"], {"kind": "c"})
