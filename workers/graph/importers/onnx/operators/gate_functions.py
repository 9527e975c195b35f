"""The functions that the gates of recurrent layers go through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.recorder import Value

GateFunction = Callable[[Value], Value]

_PARAMETERS: Mapping[str, tuple[float | None, float | None]] = MappingProxyType(
    {
        "affine": (1.0, 0.0), "elu": (1.0, None), "hardsigmoid": (0.2, 0.5),
        "leakyrelu": (0.01, None), "relu": (None, None), "scaledtanh": (1.0, 1.0),
        "sigmoid": (None, None), "softplus": (None, None), "softsign": (None, None),
        "tanh": (None, None), "thresholdedrelu": (1.0, None),
    }
)  # fmt: skip
"""alpha and beta of each activation unless the node gives them; None if it has none."""


def gate_functions(n: Node, defaults: Sequence[str]) -> Iterator[GateFunction]:
    """The functions that the node names, each with the next of the node's alphas and betas if it
    has such a parameter, and its argument cut to ±``clip``.

    Of every three, which are an LSTM's, the last is not of a gate but of the cell: ONNX Runtime
    does not cut that one's argument, so neither does this.
    """
    names = [str(name).lower() for name in n.get("activations", list(defaults))]
    if len(names) != len(defaults):
        raise n.refuse(f"{len(names)} activations; there must be {len(defaults)}")
    alphas, betas = iter(n.get("activation_alpha", [])), iter(n.get("activation_beta", []))
    clip = n.number("clip") if n.has("clip") else None
    for place, name in enumerate(names):
        if name not in _PARAMETERS:
            raise n.refuse(f"the activation {name!r}; known are {', '.join(_PARAMETERS)}")
        is_cell = n.op_type == "LSTM" and place % 3 == 2
        alpha, beta = _PARAMETERS[name]
        alpha = None if alpha is None else float(next(alphas, alpha))
        beta = None if beta is None else float(next(betas, beta))
        yield _function(n, name, alpha or 0.0, beta or 0.0, None if is_cell else clip)


def _function(n: Node, name: str, alpha: float, beta: float, clip: float | None) -> GateFunction:
    def applied(x: Value) -> Value:
        if clip is not None:
            x = n.call("clamp.default", x, -clip, clip)
        if name in ("relu", "sigmoid", "softplus", "tanh"):
            return n.call(f"{name}.default", x)
        if name in ("elu", "leakyrelu"):
            return n.call("elu.default" if name == "elu" else "leaky_relu.default", x, alpha)
        if name == "thresholdedrelu":
            return n.call("threshold.default", x, alpha, 0)
        if name == "softsign":
            return n.call("div.Tensor", x, n.call("add.Tensor", n.call("abs.default", x), 1))
        if name == "scaledtanh":
            inner = n.call("tanh.default", n.call("mul.Tensor", x, beta))
            return n.call("mul.Tensor", inner, alpha)
        scaled = n.call("add.Tensor", n.call("mul.Tensor", x, alpha), beta)
        return scaled if name == "affine" else n.call("clamp.default", scaled, 0.0, 1.0)

    return applied
