"""Products of matrices: dense layers, which have their weight transposed, and plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from workers.tuning.program import Sizes, TensorSpec
from workers.tuning.programs.described import family_of
from workers.tuning.programs.sizes import check_at_least, check_flags, check_int8_sum

if TYPE_CHECKING:
    import tvm

    from workers.tuning.program import Array

FLAGS = ("bias", "relu")


@dataclass(frozen=True, slots=True)
class Product:
    """y[m, n] = Σ_k x[m, k] · w[k, n]; where the weight is ``transposed``, of w[n, k]; where it is
    ``batched``, one product for each of ``batch``. A bias[n] and a ReLU may follow a product of
    float32 that is not batched; of int8 the result is int32."""

    transposed: bool = False
    batched: bool = False
    dtype: str = "float32"

    @property
    def flags(self) -> tuple[str, ...]:
        """What may follow."""
        return () if self.batched or self.dtype == "int8" else FLAGS

    def check(self, sizes: Sizes) -> None:
        """Raises ProgramError if no such product exists."""
        check_at_least(1, sizes, (name for name in sizes if name not in self.flags))
        check_flags(sizes, self.flags)
        if self.dtype == "int8":
            check_int8_sum(sizes["inner"])

    def inputs(self, sizes: Sizes) -> tuple[TensorSpec, ...]:
        batch = (sizes["batch"],) if self.batched else ()
        rows, inner, columns = sizes["rows"], sizes["inner"], sizes["columns"]
        weight = (columns, inner) if self.transposed else (inner, columns)
        bias = [TensorSpec("b", (columns,), self.dtype)] if sizes.get("bias") else []
        return (
            TensorSpec("x", (*batch, rows, inner), self.dtype),
            TensorSpec("w", (*batch, *weight), self.dtype),
            *bias,
        )

    def outputs(self, sizes: Sizes) -> tuple[TensorSpec, ...]:
        batch = (sizes["batch"],) if self.batched else ()
        dtype = "int32" if self.dtype == "int8" else self.dtype
        return (TensorSpec("y", (*batch, sizes["rows"], sizes["columns"]), dtype),)

    def flops(self, sizes: Sizes) -> int:
        """A bias is among those of the products, as they are one more than their sums."""
        (y,) = self.outputs(sizes)
        return prod(y.shape) * (2 * sizes["inner"] + sizes.get("relu", 0))

    def reference(self, sizes: Sizes, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """In float64, which holds sums of int8's products without rounding."""
        x, w = (given.astype(np.float64) for given in inputs[:2])
        y = x @ (w.swapaxes(-1, -2) if self.transposed else w)
        if sizes.get("bias"):
            y += inputs[2]
        if sizes.get("relu"):
            y = np.maximum(y, 0)
        (spec,) = self.outputs(sizes)
        return (y.astype(spec.dtype),)

    def prim_func(self, sizes: Sizes) -> tvm.tirx.PrimFunc:
        from workers.tuning.programs.expressions.products import product  # noqa: PLC0415

        return product(self, sizes)


FAMILIES = (
    family_of("dense", "dense layer, weight (columns, inner)", Product(transposed=True)),
    family_of(
        "dense_int8", "dense layer of 8-bit integers", Product(transposed=True, dtype="int8")
    ),
    family_of("matmul", "product of two matrices", Product()),
    family_of("batch_matmul", "products of as many pairs of matrices", Product(batched=True)),
)
