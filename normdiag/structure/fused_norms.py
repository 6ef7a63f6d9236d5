"""Norms that one operation computes, parsed from its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.graph import Node
from normdiag.structure.algebraic_forms import (
    DetectedNorm,
    reduced_count,
    scalar_value,
    uncast_value,
)


def _parse_layer_norm(node: Node) -> DetectedNorm | None:
    x, shape, weight, bias, eps = _pad_arguments(node, 5)
    eps = 1e-5 if eps is None else eps  # an argument with its default value is not recorded
    return _build_norm(node, x, "layernorm", _trailing_axes(len(shape)), eps, (weight,), (bias,))


def _parse_rms_norm(node: Node) -> DetectedNorm | None:
    x, shape, weight, eps = _pad_arguments(node, 4)
    if eps is None:
        computed_in = "float64" if x.dtype == "float64" else "float32"
        eps = NUMBER_FORMATS[computed_in].epsilon
    return _build_norm(node, x, "rmsnorm", _trailing_axes(len(shape)), eps, (weight,), ())


def _parse_group_norm(node: Node) -> DetectedNorm | None:
    if node.op == "native_group_norm":
        x, weight, bias, _n, _c, _hw, groups, eps = _pad_arguments(node, 8)
    else:
        x, groups, weight, bias, eps = _pad_arguments(node, 5)
    axes = tuple(range(1 - len(x.shape), 0))
    norm = _build_norm(node, x, "groupnorm", axes, 1e-5 if eps is None else eps, (weight,), (bias,))
    if norm is not None:
        norm.groups = int(groups)
        norm.count = reduced_count(x, axes) // norm.groups
    return norm


def _parse_batch_norm(node: Node) -> DetectedNorm | None:
    x = node.args[0]
    weight, bias, mean, variance = _pad_arguments(node, 5)[1:]
    floats = [a for a in node.args[5:] if isinstance(a, float)]
    eps = floats[-1] if floats else None
    axes = (-len(x.shape), *range(2 - len(x.shape), 0))
    norm = _build_norm(node, x, "batchnorm", axes, eps, (weight,), (bias,))
    if norm is not None:
        if not _uses_batch_statistics(node):
            norm.running_mean = mean if isinstance(mean, Node) else None
            norm.running_var = variance if isinstance(variance, Node) else None
        norm.count = x.shape[1]
    return norm


def _uses_batch_statistics(node: Node) -> bool:
    """Whether batch statistics are used although running ones are passed."""
    return node.op == "_batch_norm_with_update" or node.args[5:6] == (True,)


def _pad_arguments(node: Node, length: int) -> tuple[Any, ...]:
    names = ("input", "normalized_shape", "weight", "bias", "eps")
    values: list[Any] = [*node.args]
    values += [node.kwargs[name] for name in names[len(values) :] if name in node.kwargs]
    return (*values, *[None] * (length - len(values)))[:length]


def _parse_declared_norm(node: Node) -> DetectedNorm | None:
    x, shape, weight, bias, eps = _pad_arguments(node, 5)
    kind = "rmsnorm" if node.op == "declared_rms_norm" else "layernorm"
    return _build_norm(node, x, kind, _trailing_axes(len(shape)), eps, (weight,), (bias,))


def _trailing_axes(n: int) -> tuple[int, ...]:
    return tuple(range(-n, 0))


def _is_zero_query(x: Node) -> bool:
    """Whether x is a zero tensor in place of tokens: decoder queries before the first layer."""
    return x.op in ("zeros", "zeros_like", "new_zeros") and len(x.shape) >= 3


def _build_norm(
    node: Node,
    x: Any,
    kind: str,
    axes: tuple[int, ...],
    eps: Any,
    affine_gain: tuple[Any, ...],
    affine_bias: tuple[Any, ...],
) -> DetectedNorm | None:
    if not isinstance(x, Node) or node.output != 0 or not (x.is_data or _is_zero_query(x)):
        return None
    return DetectedNorm(
        node=node,
        source=uncast_value(x),
        kind=kind,
        axes=axes,
        count=reduced_count(x, axes),
        is_centred=kind != "rmsnorm",
        eps=scalar_value(eps) if not isinstance(eps, Node) else eps,
        eps_place="inside",
        variance_scale=1.0,
        frame=node.frame,
        gains=[g for g in affine_gain if isinstance(g, Node)],
        biases=[b for b in affine_bias if isinstance(b, Node)],
        output=node,
        is_fused=True,
    )


FUSED_NORM_PARSERS: dict[str, Callable[[Node], DetectedNorm | None]] = {
    "native_layer_norm": _parse_layer_norm,
    "layer_norm": _parse_layer_norm,
    "rms_norm": _parse_rms_norm,
    "_fused_rms_norm": _parse_rms_norm,
    "declared_layer_norm": _parse_declared_norm,
    "declared_rms_norm": _parse_declared_norm,
    "native_group_norm": _parse_group_norm,
    "group_norm": _parse_group_norm,
    "native_batch_norm": _parse_batch_norm,
    "batch_norm": _parse_batch_norm,
    "_native_batch_norm_legit": _parse_batch_norm,
    "_native_batch_norm_legit_no_training": _parse_batch_norm,
    "_batch_norm_no_update": _parse_batch_norm,
    "_batch_norm_with_update": _parse_batch_norm,
    "_batch_norm_impl_index": _parse_batch_norm,
    "cudnn_batch_norm": _parse_batch_norm,
}
