"""The ONNX operators that Plait describes, one module a family.

A description is a function of a ``Node`` that returns the values of the node's outputs. It is
registered under the version of the operator set from which on it holds; what ONNX defines by other
operators needs none, unless ATen has an operator for it.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from workers.graph.importers.onnx.operators.registry import Description, refusals, table


def describe(domain: str, op_type: str, version: int) -> Description | None:
    """The description of an operator as of ``version``; None if there is none."""
    versions = _all().get((domain, op_type), {})
    since = max((known for known in versions if known <= version), default=None)
    return None if since is None else versions[since]


def refused(domain: str, op_type: str) -> str | None:
    """Why an operator is refused, whatever its inputs; None if it is not."""
    _all()
    return refusals().get((domain, op_type))


@cache
def _all() -> dict[tuple[str, str], dict[int, Description]]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return table()
