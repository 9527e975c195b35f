"""Attention by ATen's own operator where it says the same; ONNX's definition serves the rest."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Item, Node
from workers.graph.importers.onnx.operators.registry import onnx_operator_with_outputs
from workers.graph.importers.onnx.recorder import Value

_LOW_PRECISION = (torch.float16, torch.bfloat16)


@onnx_operator_with_outputs("Attention")
def _attention(n: Node) -> Sequence[Item] | None:
    """softmax(Q Kᵀ · scale + mask) V, (batch, heads, length, size) or heads side by side in rank 3.

    Without a cache, padding counts, a soft cap, a local window, or a look at the scores; causal
    only for as many keys as queries, where all agree on which key is a query's own.
    """
    if not _is_plain(n):
        return None
    query, key, value = (_with_heads(n, index) for index in range(3))
    mask = n.optional(3)
    causal = bool(n.integer("is_causal", 0))
    if causal and (mask is not None or query.shape[2] != key.shape[2]):
        return None
    if mask is not None and mask.shape[-1] != key.shape[2]:
        return None
    grouped = query.shape[1] != key.shape[1]
    result = n.call(
        "scaled_dot_product_attention.default", query, key, value, mask, 0.0, causal,
        scale=n.number("scale") if n.has("scale") else None, enable_gqa=grouped,
    )  # fmt: skip
    if n[0].rank == 4:
        return (result,)
    batch, heads, length, size = result.shape
    moved = n.call("permute.default", result, [0, 2, 1, 3])
    return (n.reshape(moved, [batch, length, heads * size]),)


def _is_plain(n: Node) -> bool:
    unusual = ("softcap", "qk_matmul_output_mode", "left_window_size", "right_window_size")
    return (
        not any(n.optional(index) is not None for index in range(4, len(n.items)))
        and not any(n.wants(index) for index in range(1, len(n.outputs)))
        and not any(n.has(name) for name in unusual)
        and n[0].dtype not in _LOW_PRECISION
    )


def _with_heads(n: Node, index: int) -> Value:
    """Query, key or value as (batch, heads, length, size)."""
    x = n[index]
    if x.rank == 4:
        return x
    heads = n.integer("q_num_heads" if index == 0 else "kv_num_heads")
    batch, length, width = x.shape
    split = n.reshape(x, [batch, length, heads, width // heads])
    return n.call("permute.default", split, [0, 2, 1, 3])
