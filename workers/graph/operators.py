"""The operators that a Graph may use: the one table of what an upload can make Plait execute.

Every entry is a pure ATen operator without side effects outside its results. ``VIEW`` operators
launch no kernel; they belong to a neighbour's Unit. The importer decomposes what is not listed
here into what is, as far as torch knows how to.
"""

from __future__ import annotations

VIEW = "view"
IDENTITY = "identity"

_BY_KIND: dict[str, tuple[str, ...]] = {
    "conv": (
        "conv1d.default", "conv2d.default", "conv3d.default", "conv_transpose1d.default",
        "conv_transpose2d.input", "conv_transpose3d.input",
    ),
    "linear": ("linear.default", "addmm.default"),
    "matmul": ("mm.default", "bmm.default", "matmul.default", "baddbmm.default"),
    "pool": (
        "max_pool1d.default", "max_pool2d.default", "max_pool3d.default",
        "avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default",
        "adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default",
        "adaptive_avg_pool3d.default", "_adaptive_avg_pool2d.default",
        "_adaptive_avg_pool3d.default", "adaptive_max_pool1d.default",
        "adaptive_max_pool2d.default", "adaptive_max_pool3d.default",
        "max_pool2d_with_indices.default", "max_pool3d_with_indices.default",
    ),
    "concat": ("cat.default", "stack.default"),
    "normalization": (
        "_native_batch_norm_legit_no_training.default", "_native_batch_norm_legit.no_stats",
        "native_layer_norm.default",
        "layer_norm.default", "native_group_norm.default", "group_norm.default",
        "rms_norm.default",
    ),
    "activation": (
        "relu.default", "relu6.default", "leaky_relu.default", "elu.default", "selu.default",
        "celu.default", "gelu.default", "silu.default", "mish.default", "sigmoid.default",
        "hardsigmoid.default", "hardswish.default", "hardtanh.default", "tanh.default",
        "softplus.default", "prelu.default", "clamp.default", "clamp_min.default",
        "clamp_max.default", "log_sigmoid.default", "glu.default", "hardshrink.default",
        "softshrink.default", "threshold.default",
    ),
    "softmax": ("softmax.int", "_softmax.default", "log_softmax.int", "_log_softmax.default"),
    "attention": ("scaled_dot_product_attention.default",),
    "embedding": ("embedding.default",),
    "reduction": (
        "mean.default", "mean.dim", "sum.default", "sum.dim_IntList", "amax.default",
        "amin.default", "max.dim", "min.dim", "argmax.default", "argmin.default", "prod.dim_int",
        "var.correction", "std.correction", "var_mean.correction", "linalg_vector_norm.default",
        "cumsum.default", "cumprod.default", "any.default", "any.dim", "any.dims", "all.default",
        "all.dim", "logsumexp.default", "topk.default", "sort.default", "max.default",
        "min.default", "prod.default", "argsort.default", "sort.stable", "_linalg_det.default",
        "nll_loss_forward.default", "nll_loss2d_forward.default",
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
        "logical_xor.default", "bitwise_or.Tensor", "bitwise_xor.Tensor", "bitwise_and.Scalar",
        "bitwise_or.Scalar", "bitwise_xor.Scalar", "bitwise_left_shift.Tensor",
        "bitwise_right_shift.Tensor", "where.self", "where.ScalarOther",
        "where.ScalarSelf", "where.Scalar", "masked_fill.Scalar", "masked_fill.Tensor",
        "_to_copy.default", "isnan.default", "isinf.default", "isfinite.default", "clamp.Tensor",
        "clamp_min.Tensor", "clamp_max.Tensor", "remainder.Tensor", "fmod.Scalar", "fmod.Tensor",
        "div.Scalar_mode", "floor_divide.default", "exp2.default", "expm1.default",
        "log1p.default", "log2.default", "log10.default", "tan.default", "asin.default",
        "acos.default", "atan.default", "atan2.default", "sinh.default", "cosh.default",
        "asinh.default", "acosh.default", "atanh.default", "erfc.default", "trunc.default",
        "addcmul.default", "addcdiv.default", "lerp.Scalar", "lerp.Tensor", "nan_to_num.default",
    ),
    "data": (
        "constant_pad_nd.default", "pad.default", "index_select.default", "index.Tensor",
        "gather.default", "scatter.src", "scatter.value", "scatter_add.default",
        "index_put.default", "index_add.default", "slice_scatter.default", "select_scatter.default",
        "flip.default", "roll.default", "repeat.default", "tril.default", "triu.default",
        "full.default", "zeros.default", "ones.default", "arange.default", "arange.start",
        "arange.start_step", "full_like.default", "zeros_like.default", "ones_like.default",
        "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec",
        "upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_bicubic2d.vec",
        "upsample_trilinear3d.vec", "grid_sampler_2d.default", "pixel_shuffle.default",
        "pixel_unshuffle.default", "channel_shuffle.default", "im2col.default", "col2im.default",
        "one_hot.default", "scalar_tensor.default", "copy.default", "scatter_reduce.two",
        "grid_sampler_3d.default",
    ),
    VIEW: (
        "view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints",
        "unflatten.int", "permute.default", "transpose.int", "t.default", "unsqueeze.default",
        "squeeze.default", "squeeze.dim", "squeeze.dims", "expand.default", "slice.Tensor",
        "select.int", "split.Tensor", "split_with_sizes.default", "chunk.default", "narrow.default",
        "unbind.int", "view.dtype", "movedim.int", "broadcast_to.default", "diagonal.default",
        "unfold.default",
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
