"""x itself, found among the operands of the operation that normalises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from normdiag.graph import Node
from normdiag.structure.forms import LinearForm, DetectedNorm, GainedForm, uncast_value, linear_form, split_scale


def operands(node: Node, args: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    """Each argument as the graph has it and as it is; einsum's come in a list."""
    for known, value in zip(node.args, args, strict=False):
        if isinstance(known, list):
            yield from zip(known, value, strict=False)
        else:
            yield known, value


@dataclass(slots=True)
class NormOperand:
    """Remembers one activation: what the latest learned value was multiplied with."""

    _weighted: tuple[Node, torch.Tensor] | None = None

    def remember(self, node: Node, args: tuple[Any, ...]) -> None:
        """x, where the gain comes before the division: gain x is what will be divided."""
        if isinstance(node.form, GainedForm) and isinstance(node.form.form, LinearForm):
            x = next((v for n, v in operands(node, args) if _is_data(n)), None)
            self._weighted = (node, x) if isinstance(x, torch.Tensor) else None

    def x(
        self, norm: DetectedNorm, args: tuple[Any, ...], means: Mapping[Node, torch.Tensor]
    ) -> torch.Tensor | None:
        """What `norm` normalises, as it came in; None where only something else is at hand.

        `args` are the values of the operands of `norm.node`, `means` the means that were kept.
        """
        if norm.is_fused:
            return args[0] if isinstance(args[0], torch.Tensor) else None
        for operand, value in operands(norm.node, args):
            if not isinstance(operand, Node) or not isinstance(value, torch.Tensor):
                continue
            form = linear_form(operand)
            if self._weighted is not None and self._weighted[0] is operand:
                form, value = operand.form.of, self._weighted[1]
            scale = _scale_of(form, norm) if isinstance(form, LinearForm) else None
            if form is None or scale is None:
                continue
            x = value if scale == 1.0 else value / scale
            if not form.is_centred:
                return x
            mean = means.get(form.mean) if form.mean is not None else None
            return None if mean is None else x + mean
        return None


def _is_data(operand: Any) -> bool:
    return isinstance(operand, Node) and operand.is_data


def _scale_of(form: LinearForm, norm: DetectedNorm) -> float | None:
    """How many times the norm's x a value of this form is; None where it is no copy of x."""
    source = uncast_value(form.source)
    if source is norm.source:
        return form.scale
    original, times = split_scale(source)
    return form.scale * times if original is norm.source else None
