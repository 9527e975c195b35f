"""The functions behind operators' names: known, pure, and the same as ``torch.ops``'."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workers.graph.bindings import _FUNCTIONS, _IN_PLACE, binding, overload, returns_sequence
from workers.graph.graph import GraphError
from workers.graph.operators import KINDS, VIEW, is_kernel_free


@pytest.mark.parametrize("target", KINDS)
def test_every_allowed_operator_exists_and_changes_nothing(target: str) -> None:
    assert not overload(target)._schema.is_mutable


@pytest.mark.parametrize("target", [target for target in KINDS if KINDS[target] == VIEW])
def test_views_return_their_operand_s_memory(target: str) -> None:
    returned = overload(target)._schema.returns
    # torch keeps quiet about the alias of _unsafe_view, which is what makes it unsafe.
    assert any(r.alias_info for r in returned) or target == "aten._unsafe_view.default"
    assert is_kernel_free(target)


def test_other_operators_are_refused() -> None:
    for target in ("aten.add_.Tensor", "aten.as_strided.default", "aten.from_file.default"):
        with pytest.raises(GraphError, match=target):
            binding(target)


def _x(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


EXAMPLES: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "conv1d.default": ((_x(2, 4, 9), _x(6, 2, 3), _x(6), [2], [1], [1], 2), {}),
    "conv2d.default": ((_x(2, 4, 9, 8), _x(6, 2, 3, 2), None, [2, 1], [1, 0], [1, 2], 2), {}),
    "conv3d.default": ((_x(1, 2, 5, 5, 5), _x(3, 2, 2, 2, 2), _x(3), [1, 1, 1], [0, 1, 0]), {}),
    "linear.default": ((_x(3, 4), _x(5, 4), _x(5)), {}),
    "addmm.default": ((_x(5), _x(3, 4), _x(4, 5)), {"beta": 0.5, "alpha": 2}),
    "mm.default": ((_x(3, 4), _x(4, 5)), {}),
    "bmm.default": ((_x(2, 3, 4), _x(2, 4, 5)), {}),
    "matmul.default": ((_x(2, 3, 4), _x(4, 5)), {}),
    "max_pool2d.default": ((_x(1, 2, 9, 9), [3, 2], [2, 1], [1, 0], [1, 2], True), {}),
    "avg_pool2d.default": ((_x(1, 2, 9, 9), [3, 2], [2, 1], [1, 0], True, False, 3), {}),
    "adaptive_avg_pool2d.default": ((_x(1, 2, 9, 9), [4, 3]), {}),
    "cat.default": (([_x(2, 3), _x(2, 4)], -1), {}),
    "stack.default": (([_x(2, 3), _x(2, 3)], 1), {}),
    "relu.default": ((_x(3, 4),), {}),
    "gelu.default": ((_x(3, 4),), {"approximate": "tanh"}),
    "silu.default": ((_x(3, 4),), {}),
    "sigmoid.default": ((_x(3, 4),), {}),
    "tanh.default": ((_x(3, 4),), {}),
    "hardtanh.default": ((_x(3, 4), -0.5, 0.25), {}),
    "softmax.int": ((_x(3, 4), 1, torch.float64), {}),
    "layer_norm.default": ((_x(3, 4), [4], _x(4), _x(4), 0.5, False), {}),
    "group_norm.default": ((_x(2, 6, 3), 3, _x(6), _x(6), 0.5, False), {}),
    "scaled_dot_product_attention.default": (
        (_x(2, 3, 5, 4), _x(2, 3, 5, 4), _x(2, 3, 5, 4), None, 0.0, True),
        {"scale": 0.3},
    ),
    "mean.dim": ((_x(3, 4, 5), [0, 2], True), {"dtype": torch.float64}),
    "add.Tensor": ((_x(3, 4), _x(4)), {"alpha": 3}),
    "sub.Tensor": ((_x(3, 4), 2), {"alpha": 3}),
    "mul.Tensor": ((_x(3, 4), 2.5), {}),
    "div.Tensor": ((_x(3, 4), _x(3, 1)), {}),
    "reshape.default": ((_x(3, 4), [2, -1]), {}),
    "flatten.using_ints": ((_x(2, 3, 4, 5), 1, 2), {}),
    "permute.default": ((_x(2, 3, 4), [2, 0, 1]), {}),
    "transpose.int": ((_x(2, 3, 4), 0, -1), {}),
    "unsqueeze.default": ((_x(2, 3), 1), {}),
    "squeeze.dim": ((_x(2, 1, 3), 1), {}),
    "select.int": ((_x(2, 3), 1, 2), {}),
}


@pytest.mark.parametrize("target", _FUNCTIONS)
def test_a_function_of_its_own_computes_the_same(target: str) -> None:
    arguments, keywords = EXAMPLES[target.removeprefix("aten.")]
    assert torch.equal(
        binding(target)(*arguments, **keywords), overload(target)(*arguments, **keywords)
    )


@pytest.mark.parametrize("target", _IN_PLACE)
def test_an_in_place_function_writes_the_same_into_its_operand(target: str) -> None:
    (first, *rest), keywords = EXAMPLES[target.removeprefix("aten.")]
    assert isinstance(first, Tensor)
    written = first.clone()
    expected = overload(target)(first, *rest, **keywords)
    assert _IN_PLACE[target](written, *rest, **keywords) is written
    assert torch.equal(written, expected)


def test_a_list_of_one_tensor_is_still_a_list() -> None:
    assert returns_sequence("aten.split.Tensor")
    assert returns_sequence("aten.max.dim")
    assert not returns_sequence("aten.relu.default")
