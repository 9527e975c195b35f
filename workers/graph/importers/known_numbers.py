"""Numbers that a program reads from tensors of its own, such as a size that passed through one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily


class NotKnownError(Exception):
    """A value that depends on the elements of an input."""


def known_value(
    node: fx.Node, results: Mapping[fx.Node, Any], weights: Mapping[str, Tensor]
) -> Any:
    """What ``node`` computes, if it follows from sizes and weights alone.

    ``results`` are those of the calls before it on fake tensors: whatever is no tensor in there is
    known. Raises NotKnownError.
    """
    known: dict[fx.Node, Any] = {}

    def value(each: fx.Node) -> Any:
        if each in known:
            return known[each]
        found = results.get(each)
        if each.op == "placeholder" and each.name in weights:
            found = weights[each.name]
        elif each is node or isinstance(found, (Tensor, list, tuple)):
            if each.op != "call_function" or not callable(each.target):
                raise NotKnownError
            arguments, keywords = fx.node.map_arg((each.args, each.kwargs), value)
            found = each.target(*arguments, **keywords)
        known[each] = found
        return found

    with unset_fake_temporarily():
        return value(node)
