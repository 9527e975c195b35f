"""Scaled dot-product attention of several heads (Vaswani et al. 2017, Section 3.2.1, Eq. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from workers.tuning.program import Family, Sizes, TensorSpec
from workers.tuning.programs.sizes import check_at_least, check_elements
from workers.tuning.programs.workloads import WORKLOADS

if TYPE_CHECKING:
    import tvm

    from workers.tuning.program import Array

_SOFTMAX = 5
"""Maximum, subtraction, exponential, sum and division, as ``workers.graph.cost`` counts them."""


def _inputs(sizes: Sizes) -> tuple[TensorSpec, ...]:
    heads = (sizes["batch"], sizes["heads"])
    size, value_size = sizes["head_size"], sizes["value_size"]
    return (
        TensorSpec("query", (*heads, sizes["queries"], size), "float32"),
        TensorSpec("key", (*heads, sizes["keys"], size), "float32"),
        TensorSpec("value", (*heads, sizes["keys"], value_size), "float32"),
    )


def _outputs(sizes: Sizes) -> tuple[TensorSpec, ...]:
    shape = (sizes["batch"], sizes["heads"], sizes["queries"], sizes["value_size"])
    return (TensorSpec("y", shape, "float32"),)


def _scores(sizes: Sizes) -> int:
    return sizes["batch"] * sizes["heads"] * sizes["queries"] * sizes["keys"]


def _flops(sizes: Sizes) -> int:
    """Two products, the scaling and the softmax."""
    return _scores(sizes) * (2 * sizes["head_size"] + 2 * sizes["value_size"] + 1 + _SOFTMAX)


def _reference(sizes: Sizes, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """softmax(Q Kᵀ / √head_size) V in float64."""
    query, key, value = (given.astype(np.float64) for given in inputs)
    scores = query @ key.swapaxes(-1, -2) / sqrt(sizes["head_size"])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return ((shares @ value).astype(np.float32),)


def _check(sizes: Sizes) -> None:
    check_at_least(1, sizes, sizes)
    check_elements("the matrix of scores", _scores(sizes))


def _prim_func(sizes: Sizes) -> tvm.tirx.PrimFunc:
    from workers.tuning.programs.expressions.attention import attention  # noqa: PLC0415

    return attention(_inputs(sizes), sizes)


FAMILIES = (
    Family(
        "self_attention",
        "scaled dot-product attention of several heads",
        _inputs,
        _outputs,
        _reference,
        _prim_func,
        _flops,
        _check,
        WORKLOADS["self_attention"],
    ),
)
