"""The operators that a Graph may use: the one table of what an upload can make Plait execute.

Every entry is a pure ATen operator without side effects outside its results. ``VIEW`` operators
launch no kernel; they belong to a neighbour's Unit.
"""

from __future__ import annotations

VIEW = "view"
IDENTITY = "identity"

_BY_KIND: dict[str, tuple[str, ...]] = {
    "conv": ("conv1d.default", "conv2d.default", "conv3d.default", "conv_transpose2d.input"),
    "linear": ("linear.default", "addmm.default"),
    "matmul": ("mm.default", "bmm.default", "matmul.default", "baddbmm.default"),
    "pool": (
        "max_pool1d.default", "max_pool2d.default", "max_pool3d.default",
        "avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default",
        "adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default",
        "_adaptive_avg_pool2d.default", "adaptive_max_pool2d.default",
        "max_pool2d_with_indices.default",
    ),
    "concat": ("cat.default", "stack.default"),
    "normalization": (
        "_native_batch_norm_legit_no_training.default", "native_layer_norm.default",
        "layer_norm.default", "native_group_norm.default", "group_norm.default",
        "rms_norm.default",
    ),
    "activation": (
        "relu.default", "relu6.default", "leaky_relu.default", "elu.default", "selu.default",
        "celu.default", "gelu.default", "silu.default", "mish.default", "sigmoid.default",
        "hardsigmoid.default", "hardswish.default", "hardtanh.default", "tanh.default",
        "softplus.default", "prelu.default", "clamp.default", "clamp_min.default",
        "log_sigmoid.default", "glu.default",
    ),
    "softmax": ("softmax.int", "_softmax.default", "log_softmax.int", "_log_softmax.default"),
    "attention": ("scaled_dot_product_attention.default",),
    "embedding": ("embedding.default",),
    "reduction": (
        "mean.default", "mean.dim", "sum.default", "sum.dim_IntList", "amax.default",
        "amin.default", "max.dim", "min.dim", "argmax.default", "argmin.default", "prod.dim_int",
        "var.correction", "std.correction", "linalg_vector_norm.default", "cumsum.default",
        "any.dim", "all.dim", "logsumexp.default", "topk.default", "sort.default",
    ),
    "elementwise": (
        "add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Scalar", "mul.Tensor",
        "mul.Scalar", "div.Tensor", "div.Scalar", "div.Tensor_mode", "pow.Tensor_Scalar",
        "pow.Tensor_Tensor", "pow.Scalar", "maximum.default", "minimum.default", "neg.default",
        "abs.default", "exp.default", "log.default", "sqrt.default", "rsqrt.default",
        "reciprocal.default", "sin.default", "cos.default", "erf.default", "floor.default",
        "ceil.default", "round.default", "sign.default", "square.default", "remainder.Scalar",
        "eq.Scalar", "eq.Tensor", "ne.Scalar", "ne.Tensor", "gt.Scalar", "gt.Tensor", "ge.Scalar",
        "ge.Tensor", "lt.Scalar", "lt.Tensor", "le.Scalar", "le.Tensor", "logical_and.default",
        "logical_or.default", "logical_not.default", "bitwise_and.Tensor", "bitwise_not.default",
        "where.self", "where.ScalarOther", "where.ScalarSelf", "masked_fill.Scalar",
        "_to_copy.default", "isnan.default", "isinf.default",
    ),
    "data": (
        "constant_pad_nd.default", "pad.default", "index_select.default", "gather.default",
        "flip.default", "roll.default", "repeat.default", "tril.default", "triu.default",
        "full.default", "zeros.default", "ones.default", "arange.start_step", "full_like.default",
        "zeros_like.default", "ones_like.default", "upsample_nearest2d.vec",
        "upsample_bilinear2d.vec", "pixel_shuffle.default", "channel_shuffle.default",
        "one_hot.default", "scalar_tensor.default", "copy.default",
    ),
    VIEW: (
        "view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints",
        "unflatten.int", "permute.default", "transpose.int", "t.default", "unsqueeze.default",
        "squeeze.default", "squeeze.dim", "squeeze.dims", "expand.default", "slice.Tensor",
        "select.int", "split.Tensor", "split_with_sizes.default", "chunk.default", "narrow.default",
        "unbind.int", "movedim.int", "broadcast_to.default",
    ),
    IDENTITY: (
        "clone.default", "contiguous.default", "alias.default", "detach.default",
        "dropout.default", "lift_fresh_copy.default",
    ),
}  # fmt: skip

KINDS: dict[str, str] = {
    f"aten.{overload}": kind for kind, overloads in _BY_KIND.items() for overload in overloads
}
"""Kind by qualified name, for example ``aten.conv2d.default`` → ``conv``."""


def kind(target: str) -> str:
    """The operator's kind. Raises KeyError if it is not allowed."""
    return KINDS[target]


def is_kernel_free(target: str) -> bool:
    """Whether the operator launches no kernel of its own."""
    return KINDS[target] in (VIEW, IDENTITY)
