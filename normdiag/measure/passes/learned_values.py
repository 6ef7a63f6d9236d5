"""The learned values found in the graph: gains, biases, epsilons, scales."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from normdiag.evidence.architecture import Gain, Scale
from normdiag.graph import Node
from normdiag.structure.affine import added_to_stored
from normdiag.structure.flow import ScaleFactor
from normdiag.structure.forms import DetectedNorm
from normdiag.structure.literals import as_written

_DEAD = 1e-6
"""A gain of this share of the others lets nothing through: float32 ends at 1e-7 of what it adds."""


class LearnedValues:
    """Reads the operands that the observer kept. Implements `structure.describe.Learned`."""

    def __init__(self, values: Mapping[Node, torch.Tensor]) -> None:
        self._values = values

    def values(self, node: Node) -> torch.Tensor | None:
        """The tensor behind a learned node, where it was kept."""
        return self._values.get(node)

    def gain_vector(self, norm: DetectedNorm) -> torch.Tensor | None:
        """The effective gain as (features,) in float64, None for a norm without one."""
        return self.vector(norm, norm.gains)

    def bias_vector(self, norm: DetectedNorm) -> torch.Tensor | None:
        """The bias as (features,) in float64, None for a norm without one."""
        return self.vector(norm, norm.biases)

    def vector(self, norm: DetectedNorm, parts: list[Node | float]) -> torch.Tensor | None:
        """The product of `parts` (gains, or the one bias), flat, in float64."""
        product: torch.Tensor | None = None
        for part in parts:
            if isinstance(part, Node):
                value = self._values.get(part)
            else:
                value = torch.tensor(part, dtype=torch.float64)
            if value is None or value.device.type == "meta":
                return None
            flat = value.detach().double().cpu().reshape(-1)
            product = flat if product is None else product * flat
        if product is None:
            return None
        if product.numel() == 1:
            return product.expand(norm.count)
        return product

    def gain_summary(self, norm: DetectedNorm) -> Gain | None:
        gain = self.gain_vector(norm)
        if gain is None or gain.numel() == 0:
            return None
        offset = sum(added_to_stored(part) for part in norm.gains if isinstance(part, Node))
        return summary(gain, offset)

    def bias_rms(self, norm: DetectedNorm) -> float | None:
        bias = self.bias_vector(norm)
        return None if bias is None else float(bias.square().mean().sqrt())

    def epsilon_value(self, norm: DetectedNorm) -> float | None:
        if not isinstance(norm.eps, Node):
            return None if norm.eps is None else as_written(norm.eps)
        value = self._values.get(norm.eps)
        return None if value is None or value.numel() != 1 else as_written(float(value.detach()))

    def scale_summary(self, factors: tuple[ScaleFactor, ...]) -> Scale:
        if not factors:
            return Scale(kind="none")
        learned = any(isinstance(f.value, Node) and is_learned(f.value) for f in factors)
        product = self.scale_vector(factors)
        kind = "learned" if learned else "constant"
        if product is None:
            return Scale(kind=kind)  # type: ignore[arg-type]
        if product.numel() == 1:
            return Scale(kind=kind, value=float(product))  # type: ignore[arg-type]
        return Scale(
            kind=kind,  # type: ignore[arg-type]
            rms=float(product.square().mean().sqrt()),
            min=float(product.min()),
            max=float(product.max()),
        )

    def scale_vector(self, factors: tuple[ScaleFactor, ...]) -> torch.Tensor | None:
        """The product of all factors, (1,) or (features,), None where one is not known."""
        product = torch.ones(1, dtype=torch.float64)
        for factor in factors:
            if isinstance(factor.value, Node):
                value = self._values.get(factor.value)
                if value is None or value.device.type == "meta":
                    return None
                product = product * value.detach().double().cpu().reshape(-1)
            else:
                product = product * factor.value
        return product


def summary(gain: torch.Tensor, offset: float = 0.0) -> Gain:
    """A gain vector in numbers, over its finite elements."""
    finite = gain[torch.isfinite(gain)]
    zeros, nonfinite = int((gain == 0).sum()), int(gain.numel() - finite.numel())
    if not finite.numel():
        none = float("nan")
        return Gain(rms=none, min_abs=none, max_abs=none, zeros=zeros, nonfinite=nonfinite)
    sizes = finite.abs()
    alive = sizes[sizes > 0]
    least = _DEAD * float(alive.quantile(0.5)) if alive.numel() else 0.0
    return Gain(
        rms=float(finite.square().mean().sqrt()),
        min_abs=float(sizes.min()),
        max_abs=float(sizes.max()),
        zeros=zeros,
        nonfinite=nonfinite,
        negatives=int((finite < 0).sum()),
        mean=float(finite.mean()),
        median_abs=float(sizes.quantile(0.5)),
        max_channel=int(gain.nan_to_num(0.0, 0.0, 0.0).abs().argmax()),
        dead=int((sizes <= least).sum()),
        offset=offset,
    )


def is_learned(node: Node) -> bool:
    """Whether a parameter is among what `node` derives from."""
    if node.op == "parameter":
        return True
    return any(is_learned(p) for p in node.parents)
