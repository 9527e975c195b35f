"""Operators whose result is another one each time."""

from __future__ import annotations

from workers.graph.graph import Operator

_DROPOUT = "aten.dropout.default"  # (input, p, train)
_ATTENTION = "aten.scaled_dot_product_attention.default"  # (q, k, v, mask, dropout_p, …)


def is_random(operator: Operator) -> bool:
    """Whether the operator draws random numbers: dropout that is on, attention that drops."""
    keywords = dict(operator.keywords)
    if operator.target == _DROPOUT:
        return operator.arguments[2:] != (False,)
    if operator.target == _ATTENTION:
        dropped = operator.arguments[4] if len(operator.arguments) > 4 else 0
        return bool(keywords.get("dropout_p", dropped))
    return False
