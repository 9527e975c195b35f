"""Which operators of a Unit one library call computes together on a GPU.

The provider ``aten`` calls cuDNN's ``cudnn_convolution_relu`` and ``cudnn_convolution_add_relu``
and cuBLASLt's epilogues through ``_addmm_activation``, and torch exposes no others:

- ``conv2d`` with bias and without groups, then relu, or the sum with a value of the same shape and
  then relu;
- ``linear`` or ``addmm`` with bias, of two dimensions, then relu or gelu approximated by tanh.
"""

from __future__ import annotations

from collections.abc import Mapping

from workers.graph.graph import Operator, TensorSpec, Unit, ValueRef

_TYPES = ("float32", "float16", "bfloat16")
_RELU = "aten.relu.default"
_LINEAR_BIAS = {"aten.linear.default": 2, "aten.addmm.default": 0}


def fusions(unit: Unit, values: Mapping[str, TensorSpec]) -> dict[str, tuple[Operator, ...]]:
    """By the name of a convolution or product: the operators that its kernel computes as well, in
    order. None is in two."""
    found: dict[str, tuple[Operator, ...]] = {}
    taken: set[str] = set()
    for operator in unit.operators:
        if any(values[name].dtype not in _TYPES for name in operator.outputs):
            continue
        following = _after_convolution(unit, values, operator) or _after_product(
            unit, values, operator
        )
        if following and not taken & {other.name for other in following}:
            found[operator.name] = following
            taken |= {other.name for other in following}
    return found


def has_bias(operator: Operator, position: int = 2) -> bool:
    """Whether the operator is given a bias, which is its argument at ``position``."""
    given = dict(operator.keywords).get("bias")
    if position < len(operator.arguments):
        given = operator.arguments[position]
    return isinstance(given, ValueRef)


def _after_convolution(
    unit: Unit, values: Mapping[str, TensorSpec], operator: Operator
) -> tuple[Operator, ...]:
    if operator.target != "aten.conv2d.default" or not has_bias(operator):
        return ()
    groups = operator.arguments[6] if len(operator.arguments) > 6 else 1
    after = _only_reader(unit, operator)
    if after is None or dict(operator.keywords).get("groups", groups) != 1:
        return ()
    if after.target == _RELU:
        return (after,)
    others = [name for name in after.inputs if name != operator.outputs[0]]
    last = _only_reader(unit, after)
    if (
        after.target != "aten.add.Tensor"
        or after.keywords
        or len(others) != 1
        or values[others[0]] != values[operator.outputs[0]]
        or last is None
        or last.target != _RELU
    ):
        return ()
    return after, last


def _after_product(
    unit: Unit, values: Mapping[str, TensorSpec], operator: Operator
) -> tuple[Operator, ...]:
    position = _LINEAR_BIAS.get(operator.target)
    if position is None or not has_bias(operator, position):
        return ()
    after = _only_reader(unit, operator)
    if after is None or len(values[operator.outputs[0]].shape) != 2:
        return ()
    by_tanh = dict(after.keywords).get("approximate") == "tanh"
    fits = after.target == _RELU or (after.target == "aten.gelu.default" and by_tanh)
    return (after,) if fits else ()


def _only_reader(unit: Unit, operator: Operator) -> Operator | None:
    """The operator that alone reads the result, once it is known that the Unit does not give it."""
    (result, *more) = operator.outputs
    if more or result in unit.outputs:
        return None
    readers = [other for other in unit.operators if result in other.inputs]
    return readers[0] if len(readers) == 1 else None
