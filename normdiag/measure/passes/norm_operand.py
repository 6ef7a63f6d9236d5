"""The input x of a norm, recovered from the operands of the operation that normalises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import (
    DetectedNorm,
    GainedForm,
    LinearForm,
    linear_form,
    split_scale,
    uncast_value,
)


@dataclass(slots=True)
class NormOperand:
    """Remembers one activation: the one that the latest learned value multiplied."""

    _weighted: tuple[Node, torch.Tensor] | None = None

    def remember_product(self, node: Node, args: tuple[Any, ...]) -> None:
        """Remember x of gain x: where the gain comes first, gain x is what will be divided."""
        if isinstance(node.form, GainedForm) and isinstance(node.form.form, LinearForm):
            x = next((v for n, v in zip(node.args, args, strict=False) if _is_data(n)), None)
            self._weighted = (node, x) if isinstance(x, torch.Tensor) else None

    def find_input(
        self, norm: DetectedNorm, args: tuple[Any, ...], means: Mapping[Node, torch.Tensor]
    ) -> torch.Tensor | None:
        """The input x of `norm`; None where the operands do not determine it.

        `args` are the values of the operands of `norm.node`, `means` the stored means.
        """
        if norm.is_fused:
            return args[0] if isinstance(args[0], torch.Tensor) else None
        for operand, value in zip(norm.node.args, args, strict=False):
            if not isinstance(operand, Node) or not isinstance(value, torch.Tensor):
                continue
            form = linear_form(operand)
            if self._weighted is not None and self._weighted[0] is operand:
                form, value = operand.form.form, self._weighted[1]
            scale = _relative_scale(form, norm) if isinstance(form, LinearForm) else None
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


def _relative_scale(form: LinearForm, norm: DetectedNorm) -> float | None:
    """The factor of the norm's x in a value of this form; None where it is no multiple of x."""
    source = uncast_value(form.source)
    if source is norm.source:
        return form.scale
    original, times = split_scale(source)
    return form.scale * times if original is norm.source else None
