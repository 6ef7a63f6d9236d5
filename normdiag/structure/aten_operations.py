"""Classes of ATen operations by their effect on the data flow."""

from __future__ import annotations

from normdiag.graph import Node

CASTS = frozenset(
    {"_to_copy", "to", "type_as", "contiguous", "clone", "detach", "alias", "lift_fresh", "lift"}
)
VIEWS = frozenset(
    {
        "view", "_unsafe_view", "reshape", "_reshape_alias", "expand", "expand_as", "permute",
        "transpose", "t", "unsqueeze", "squeeze", "movedim", "flatten", "unflatten", "view_as",
        "as_strided", "swapaxes", "constant_pad_nd", "pad", "roll", "flip", "repeat", "unfold",
        "slice", "select", "split", "split_with_sizes", "chunk", "unbind", "narrow",
        "index_select", "index", "gather", "masked_select", "slice_backward", "pixel_shuffle",
        "unsafe_split", "tensor_split", "im2col", "col2im",
    }
)  # fmt: skip
"""Operations that only rearrange or select elements."""

RESHAPES = frozenset({"view", "_unsafe_view", "reshape", "_reshape_alias", "expand", "expand_as"})
"""Views that keep the order of the elements."""

PERMUTATIONS = frozenset({"permute", "transpose", "swapaxes", "movedim", "t"})
"""Views that change the order of the axes."""

PARTS = frozenset(
    {"slice", "select", "split", "split_with_sizes", "chunk", "unbind", "narrow", "unsafe_split"}
)
"""Views that select a part along one axis."""

DROPOUT = frozenset({"native_dropout", "dropout", "feature_dropout", "alpha_dropout"})
MASKING = frozenset(
    {
        "masked_fill", "where", "masked_scatter", "nan_to_num", "clamp", "clamp_min", "clamp_max",
        "index_put", "slice_scatter", "select_scatter", "scatter", "index_copy", "index_fill",
    }
)  # fmt: skip
"""Operations that replace or bound some elements and pass the others."""

ADDITIONS = frozenset({"add", "sub", "lerp", "addcmul", "_fused_add"})
SIGMOIDS = frozenset({"sigmoid", "hardsigmoid"})
SOFTMAX = frozenset({"_softmax", "softmax", "_safe_softmax"})

MATRIX_PRODUCTS = frozenset(
    {
        "mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "addmv", "mv", "dot",
        "_grouped_mm", "grouped_mm", "_scaled_mm", "_int_mm", "_addmm_activation", "addbmm",
        "_weight_int8pack_mm", "_weight_int4pack_mm_for_cpu", "_dyn_quant_matmul_4bit",
        "bilinear", "_trilinear", "mkldnn_linear", "tensordot", "inner", "outer",
    }
)  # fmt: skip
CONVOLUTIONS = frozenset(
    {
        "convolution", "_convolution", "conv1d", "conv2d", "conv3d", "mkldnn_convolution",
        "convolution_overrideable", "_slow_conv2d_forward", "conv_transpose1d",
        "conv_transpose2d", "cudnn_convolution", "thnn_conv2d", "_conv_depthwise2d",
    }
)  # fmt: skip
ATTENTION = frozenset(
    {
        "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math",
        "_scaled_dot_product_attention_math_for_mps",
        "_scaled_dot_product_fused_attention_overrideable",
        "_flash_attention_forward", "_efficient_attention_forward", "flex_attention",
        "_native_multi_head_attention", "_transformer_encoder_layer_fwd",
    }
)  # fmt: skip
MIXING = frozenset(
    {
        "_fft_r2c", "_fft_c2c", "_fft_c2r", "avg_pool1d", "avg_pool2d", "avg_pool3d",
        "adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool1d",
        "max_pool2d_with_indices", "max_pool2d", "max_pool3d_with_indices", "cumsum", "cumprod",
        "logcumsumexp", "lstm", "gru", "mkldnn_rnn_layer", "_thnn_fused_lstm_cell", "rnn_tanh",
        "associative_scan", "upsample_bilinear2d", "upsample_nearest2d", "upsample_bicubic2d",
        "grid_sampler_2d", "grid_sampler",
    }
)  # fmt: skip
"""Operations without weights that combine elements of their operand."""


def skip_views(node: Node) -> Node:
    """Return the value of which `node` is a view or a cast."""
    while node.parents and (node.op in VIEWS or node.op in CASTS):
        node = node.parents[0]
    return node


def is_contraction(node: Node) -> bool:
    """Whether elements of the operand are combined, by weights, with each other or by pooling.

    A product that is a statistic of a norm (x with itself) does not count.
    """
    return node.form is None and (
        node.op in MATRIX_PRODUCTS
        or node.op in CONVOLUTIONS
        or node.op in ATTENTION
        or node.op in MIXING
        or "::" in node.op
    )


def is_score_product(node: Node) -> bool:
    """Whether data is multiplied with data: attention scores or a fused attention."""
    if node.op in ATTENTION:
        return True
    if node.form is not None:
        return False
    return node.op in MATRIX_PRODUCTS and sum(map(_is_activation, node.parents)) >= 2


def _is_activation(node: Node) -> bool:
    """Whether a value is data, not a selection of weights (such as experts chosen by a router)."""
    if not (node.is_data and node.is_floating):
        return False
    while (node.op in VIEWS or node.op in CASTS) and node.parents:
        node = node.parents[0]
    return node.is_data


def mixes_tokens(node: Node) -> bool:
    """Whether the value at one token can depend on another token."""
    if node.op in ATTENTION or node.op in MIXING:
        return node.is_floating
    if node.op in CONVOLUTIONS:
        weight = next((p for p in node.parents[1:] if not p.is_data), None)
        return weight is None or any(size > 1 for size in weight.shape[2:])
    return is_score_product(node)


def part_axis(node: Node) -> int | None:
    """The axis, from the end, along which a view selects a part; None for other operations."""
    if node.op not in PARTS:
        return None
    source = node.parents[0]
    if node.op in ("split", "chunk", "split_with_sizes", "unsafe_split"):
        axis = int(node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0))
    else:
        axis = int(node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0))
    return axis if axis < 0 else axis - len(source.shape)
