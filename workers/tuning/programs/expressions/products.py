"""Products of matrices as tensor expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import te

from workers.tuning.program import Sizes
from workers.tuning.programs.expressions.common import placeholders, reduce_axis, with_epilogue

if TYPE_CHECKING:
    import tvm

    from workers.tuning.programs.products import Product


def product(described: Product, sizes: Sizes) -> tvm.tirx.PrimFunc:
    """The sums, and what follows."""
    (output,) = described.outputs(sizes)
    tensors = placeholders(described.inputs(sizes))
    x, w, *bias = tensors
    k = reduce_axis(sizes["inner"], "k")

    def at(*point: Any) -> Any:
        *batch, row, column = point
        of_weight = (column, k) if described.transposed else (k, column)
        left, right = x(*batch, row, k), w(*batch, *of_weight)
        return te.sum(left.astype(output.dtype) * right.astype(output.dtype), k)

    result = te.compute(output.shape, at, "product")
    result = with_epilogue(result, bias, sizes.get("relu", 0), 1)
    return te.create_prim_func([*tensors, result])
