"""Norms that one operation computes, read from the operation's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from normdiag.graph import Node
from normdiag.structure.forms import NormFound, base, count_of, number

_FLOAT32_EPS = 1.1920928955078125e-07


def _layer_norm(node: Node) -> NormFound | None:
    x, shape, weight, bias, eps = _padded(node, 5)
    eps = 1e-5 if eps is None else eps  # an argument that has its default value is not passed on
    return _found(node, x, "layernorm", _last(len(shape)), eps, (weight,), (bias,))


def _rms_norm(node: Node) -> NormFound | None:
    x, shape, weight, eps = _padded(node, 4)
    if eps is None:
        eps = _FLOAT32_EPS if x.dtype != "float64" else 2.220446049250313e-16
    return _found(node, x, "rmsnorm", _last(len(shape)), eps, (weight,), ())


def _group_norm(node: Node) -> NormFound | None:
    if node.op == "native_group_norm":
        x, weight, bias, _n, _c, _hw, groups, eps = _padded(node, 8)
    else:
        x, groups, weight, bias, eps = _padded(node, 5)
    axes = tuple(range(1 - len(x.shape), 0))
    found = _found(node, x, "groupnorm", axes, 1e-5 if eps is None else eps, (weight,), (bias,))
    if found is not None:
        found.groups = int(groups)
        found.count = count_of(x, axes) // found.groups
    return found


def _batch_norm(node: Node) -> NormFound | None:
    x = node.args[0]
    weight, bias, mean, variance = _padded(node, 5)[1:]
    floats = [a for a in node.args[5:] if isinstance(a, float)]
    eps = floats[-1] if floats else None
    axes = (-len(x.shape), *range(2 - len(x.shape), 0))
    found = _found(node, x, "batchnorm", axes, eps, (weight,), (bias,))
    if found is not None:
        if not _by_batch(node):
            found.running_mean = mean if isinstance(mean, Node) else None
            found.running_var = variance if isinstance(variance, Node) else None
        found.count = x.shape[1]
    return found


def _by_batch(node: Node) -> bool:
    """Whether the batch's own statistics are used although running ones are given."""
    return node.op == "_batch_norm_with_update" or node.args[5:6] == (True,)


def _padded(node: Node, length: int) -> tuple[Any, ...]:
    names = ("input", "normalized_shape", "weight", "bias", "eps")
    values: list[Any] = [*node.args]
    values += [node.kwargs[name] for name in names[len(values) :] if name in node.kwargs]
    return (*values, *[None] * (length - len(values)))[:length]


def _declared(node: Node) -> NormFound | None:
    x, shape, weight, bias, eps = _padded(node, 5)
    kind = "rmsnorm" if node.op == "declared_rms_norm" else "layernorm"
    return _found(node, x, kind, _last(len(shape)), eps, (weight,), (bias,))


def _last(n: int) -> tuple[int, ...]:
    return tuple(range(-n, 0))


def _is_blank(x: Node) -> bool:
    """Zeros in the place of tokens: a decoder's queries before its first layer."""
    return x.op in ("zeros", "zeros_like", "new_zeros") and len(x.shape) >= 3


def _found(
    node: Node,
    x: Any,
    kind: str,
    axes: tuple[int, ...],
    eps: Any,
    affine_gain: tuple[Any, ...],
    affine_bias: tuple[Any, ...],
) -> NormFound | None:
    if not isinstance(x, Node) or node.output != 0 or not (x.is_data or _is_blank(x)):
        return None
    return NormFound(
        node=node,
        source=base(x),
        kind=kind,
        axes=axes,
        count=count_of(x, axes),
        is_centred=kind != "rmsnorm",
        eps=number(eps) if not isinstance(eps, Node) else eps,
        eps_place="inside",
        variance_scale=1.0,
        frame=node.frame,
        gains=[g for g in affine_gain if isinstance(g, Node)],
        biases=[b for b in affine_bias if isinstance(b, Node)],
        output=node,
        fused=True,
    )


FUSED: dict[str, Callable[[Node], NormFound | None]] = {
    "native_layer_norm": _layer_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "_fused_rms_norm": _rms_norm,
    "declared_layer_norm": _declared,
    "declared_rms_norm": _declared,
    "native_group_norm": _group_norm,
    "group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "_batch_norm_no_update": _batch_norm,
    "_batch_norm_with_update": _batch_norm,
    "_batch_norm_impl_index": _batch_norm,
    "cudnn_batch_norm": _batch_norm,
}
