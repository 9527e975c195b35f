"""Where descriptions of ONNX operators are entered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workers.graph.importers.onnx.node import Item, Node

Description = Callable[[Node], Sequence[Item] | None]
"""Gives the node's outputs, or None to leave this node to ONNX's own definition."""

_REFUSED: dict[tuple[str, str], str] = {}
_TABLE: dict[tuple[str, str], dict[int, Description]] = {}


def onnx_operator(
    *names: str, since: int = 1, domain: str = ""
) -> Callable[[Callable[[Node], Item]], Callable[[Node], Item]]:
    """Register a description of an operator with one output, for all of ``names``."""

    def register(function: Callable[[Node], Item]) -> Callable[[Node], Item]:
        for name in names:
            enter(domain, name, since, lambda node: (function(node),))
        return function

    return register


def onnx_operator_with_outputs(
    *names: str, since: int = 1, domain: str = ""
) -> Callable[[Description], Description]:
    """Register a description of an operator with several outputs, for all of ``names``."""

    def register(function: Description) -> Description:
        for name in names:
            enter(domain, name, since, function)
        return function

    return register


def refuse_operators(*names: str, because: str, domain: str = "") -> None:
    """Register operators that no Graph can hold, with the reason that a user reads."""

    def refuse(n: Node) -> Sequence[Item]:
        raise n.refuse(because)

    for name in names:
        enter(domain, name, 1, refuse)
        _REFUSED[domain, name] = because


def enter(domain: str, name: str, since: int, description: Description) -> None:
    """Put a description into the table. Raises ValueError if it is there already."""
    versions = _TABLE.setdefault((domain, name), {})
    if since in versions:
        raise ValueError(f"{name} is described twice as of version {since}")
    versions[since] = description


def refusals() -> Mapping[tuple[str, str], str]:
    """Why operators are refused, by domain and name."""
    return _REFUSED


def table() -> dict[tuple[str, str], dict[int, Description]]:
    return _TABLE
