"""Attention as tensor expressions."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING

from tvm import te

from workers.tuning.program import Sizes, TensorSpec
from workers.tuning.programs.expressions.common import placeholders, reduce_axis

if TYPE_CHECKING:
    import tvm

_AS_IT_IS = {"schedule_rule": "None"}
"""Makes MetaSchedule leave a sum where it stands. It would else compute some rows' sums within the
loop of the product that reads them, where TVM 0.27 begins them once (RewriteReductionBlock takes
the outermost loop that is a reduction of any block) but adds them up in every round: more than a
quarter of all candidates were wrong."""


def attention(inputs: Sequence[TensorSpec], sizes: Sizes) -> tvm.tirx.PrimFunc:
    """The two products with a softmax between them, from which a row's maximum is taken first, so
    that no exponential overflows."""
    tensors = placeholders(inputs)
    query, key, value = tensors
    rows = (sizes["batch"], sizes["heads"], sizes["queries"])
    scale = te.const(1 / sqrt(sizes["head_size"]), "float32")
    d = reduce_axis(sizes["head_size"], "d")
    products = te.compute(
        (*rows, sizes["keys"]),
        lambda n, h, q, k: te.sum(query(n, h, q, d) * key(n, h, k, d), d),
        "products",
    )
    scores = te.compute(products.shape, lambda *point: products(*point) * scale, "scores")
    k_of_max, k_of_sum, k = (reduce_axis(sizes["keys"], name) for name in ("k1", "k2", "k3"))
    highest = te.compute(
        rows,
        lambda n, h, q: te.max(scores(n, h, q, k_of_max), k_of_max),
        "highest",
        attrs=_AS_IT_IS,
    )
    powers = te.compute(
        scores.shape, lambda n, h, q, m: te.exp(scores(n, h, q, m) - highest(n, h, q)), "powers"
    )
    total = te.compute(
        rows,
        lambda n, h, q: te.sum(powers(n, h, q, k_of_sum), k_of_sum),
        "total",
        attrs=_AS_IT_IS,
    )
    shares = te.compute(
        scores.shape, lambda n, h, q, m: powers(n, h, q, m) / total(n, h, q), "shares"
    )
    result = te.compute(
        (*rows, sizes["value_size"]),
        lambda n, h, q, v: te.sum(shares(n, h, q, k) * value(n, h, k, v), k),
        "result",
    )
    return te.create_prim_func([*tensors, result])
