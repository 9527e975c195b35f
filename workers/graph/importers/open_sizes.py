"""Sizes for the open dimensions of an exported program.

Exporting writes an open dimension as a symbol, or as an expression of one (``8*s6`` for
``8 * Dim("k")``), and notes the range that each may be in. Here a job's sizes are solved for the
symbols.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from workers.graph.importers.source import ImportFailure

_LEAST_LOWER_BOUND = 2
"""Exporting takes sizes 0 and 1 apart, and so writes this bound for a dimension that has none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A size for one dimension, and where it comes from; ``kind`` is the failure if it is not
    possible."""

    size: int
    of: str
    dimension: str
    kind: str


@dataclass(slots=True)
class OpenSizes:
    """The symbols' values as far as they are known. ``ranges`` are the program's constraints."""

    ranges: Mapping[Any, ValueRanges[Any]]
    values: dict[sympy.Symbol, int] = field(default_factory=dict)

    def unknown(self, expression: sympy.Expr) -> bool:
        return bool(expression.free_symbols - self.values.keys())

    def size(self, expression: sympy.Expr) -> int:
        """The size of a dimension whose symbols are all known."""
        return int(expression.subs(self.values))

    def settle(self, expression: sympy.Expr, wanted: Wanted) -> None:
        """Give the expression's symbols the values that make it ``wanted.size``.

        Before: ``8*s6``, 24. After: ``s6 = 3``. Raises ImportFailure naming the constraint if
        there are no such values.
        """
        rest = expression.subs(self.values)
        if not rest.free_symbols:
            if int(rest) != wanted.size:
                raise _impossible(wanted, f"other dimensions make it {int(rest)}")
            return
        symbol = next(iter(rest.free_symbols))
        line = sympy.Poly(rest, symbol) if rest.is_polynomial(symbol) else None
        if len(rest.free_symbols) > 1 or line is None or line.degree() != 1:
            raise _impossible(wanted, f"it is exported as {rest}, which has no single solution")
        slope, offset = (int(coefficient) for coefficient in line.all_coeffs())
        value, remainder = divmod(wanted.size - offset, slope)
        if remainder:
            raise _impossible(
                wanted, f"it is exported as {rest}, so that it is {offset % slope} modulo {slope}"
            )
        self._check_range(symbol, value, rest, wanted)
        self.values[symbol] = value

    def _check_range(
        self, symbol: sympy.Symbol, value: int, expression: sympy.Expr, wanted: Wanted
    ) -> None:
        allowed = self.ranges.get(symbol, ValueRanges(1, int_oo))
        lower = allowed.lower if allowed.lower > _LEAST_LOWER_BOUND else 1
        if lower <= value <= allowed.upper:
            return
        least, most = expression.subs(symbol, lower), expression.subs(symbol, allowed.upper)
        if allowed.upper == int_oo:
            bound = f"from {least} on"
        else:
            bound = f"up to {most}" if lower == 1 else f"from {least} to {most}"
        raise _impossible(wanted, f"it is exported for sizes {bound}; widen the range of its Dim")


def _impossible(wanted: Wanted, why: str) -> ImportFailure:
    return ImportFailure(
        wanted.kind,
        f"the model cannot have the {wanted.of} {wanted.size}, which is {wanted.dimension}: {why}",
    )
