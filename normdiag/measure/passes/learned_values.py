"""Gains, biases, epsilons and scales of a forward, read from the operands of its operations."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from normdiag.errors import RunError
from normdiag.evidence.architecture import Multiplier, Scale, StreamWeights
from normdiag.evidence.gains import Gain
from normdiag.graph import Node
from normdiag.loading.plain_values import is_freed
from normdiag.numerics.histogram import count_bins
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.dataflow import ScaleFactor
from normdiag.structure.decimal_literals import shortest_decimal
from normdiag.structure.norm_affine import gain_offset
from normdiag.structure.stream_weights import LaneFactor, LaneWeights

_DEAD = 1e-6
"""A channel is dead below this share of the median gain: float32 resolves 1e-7 of a sum."""


class LearnedValues:
    """Reads the stored operands. Implements `structure.build_architecture.LearnedValueReader`."""

    def __init__(self, values: Mapping[Node, torch.Tensor]) -> None:
        self._values = values

    def find_tensor(self, node: Node) -> torch.Tensor | None:
        """The tensor of a learned node, None where it was not stored.

        Raises RunError where the model freed it in its forward: reading it would end the process.
        """
        value = self._values.get(node)
        if value is not None and is_freed(value):
            raise RunError(
                f"the forward freed the memory of {node.name or 'a value'} that a norm or a scale "
                f"at {node.frame.path or 'the model'} had read",
                "parameters that are gathered for one layer and freed after it cannot be measured: "
                "pass the model before it is sharded or offloaded",
            )
        return value

    def gain_vector(self, norm: DetectedNorm) -> torch.Tensor | None:
        """The effective gain as (features,) in float64, None for a norm without one."""
        return self.product_vector(norm, norm.gains)

    def bias_vector(self, norm: DetectedNorm) -> torch.Tensor | None:
        """The bias as (features,) in float64, None for a norm without one."""
        return self.product_vector(norm, norm.biases)

    def product_vector(self, norm: DetectedNorm, parts: list[Node | float]) -> torch.Tensor | None:
        """The product of `parts` (gains, or the one bias), flat, in float64."""
        product: torch.Tensor | None = None
        for part in parts:
            if isinstance(part, Node):
                value = self.find_tensor(part)
            else:
                value = torch.tensor(part, dtype=torch.float64)
            if value is None:
                return None
            flat = value.detach().double().cpu().reshape(-1)
            product = flat if product is None else product * flat
        if product is None:
            return None
        if product.numel() == 1:
            return product.expand(norm.count)
        return product

    def gain_summary(self, norm: DetectedNorm) -> Gain | None:
        """Summary of the effective gain, None for a norm without one."""
        gain = self.gain_vector(norm)
        if gain is None or gain.numel() == 0:
            return None
        offset = sum(gain_offset(part) for part in norm.gains if isinstance(part, Node))
        return summarise_gain(gain, offset)

    def bias_rms(self, norm: DetectedNorm) -> float | None:
        """Root mean square of the bias, None for a norm without one."""
        bias = self.bias_vector(norm)
        return None if bias is None else float(bias.square().mean().sqrt())

    def epsilon_value(self, norm: DetectedNorm) -> float | None:
        """The epsilon, None for a norm without one or where it is unknown."""
        if not isinstance(norm.eps, Node):
            return None if norm.eps is None else shortest_decimal(norm.eps)
        value = self.find_tensor(norm.eps)
        return (
            None if value is None or value.numel() != 1 else shortest_decimal(float(value.detach()))
        )

    def scale_summary(self, factors: tuple[ScaleFactor, ...]) -> Scale:
        """Kind and value of a product of factors."""
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

    def multiplier_values(self, nodes: tuple[Node, ...]) -> tuple[Multiplier, ...]:
        """Name and size of stored tensors, those of unknown value left out."""
        multipliers = []
        for node in nodes:
            value = self.find_tensor(node)
            if value is not None and node.name is not None:
                flat = value.detach().double().reshape(-1)
                size = float(flat if flat.numel() == 1 else flat.square().mean().sqrt())
                multipliers.append(Multiplier(name=node.name, value=size))
        return tuple(multipliers)

    def stream_weights(self, weights: LaneWeights | None) -> StreamWeights | None:
        """Multiply the weights of several streams; None for None."""
        if weights is None:
            return None
        if weights.is_data:
            return StreamWeights(kind="data")
        nodes = [f.value for f in weights.factors if isinstance(f.value, Node)]
        product = self._lane_product(weights)
        return StreamWeights(
            kind="learned" if any(map(is_learned, nodes)) else "constant",
            values=None if product is None else tuple(product.tolist()),
        )

    def _lane_product(self, weights: LaneWeights) -> torch.Tensor | None:
        """(streams,), None where a factor is unknown."""
        product = torch.ones(weights.count, dtype=torch.float64)
        for factor in weights.factors:
            if not isinstance(factor.value, Node):
                product = product * factor.value
                continue
            value = self.find_tensor(factor.value)
            if value is None:
                return None
            lanes = _select_lanes(value.detach().double().cpu(), factor, weights.count)
            if lanes is None:
                return None
            product = product * lanes
        return product

    def scale_vector(self, factors: tuple[ScaleFactor, ...]) -> torch.Tensor | None:
        """The product of all factors, (1,) or (features,), None where one is unknown."""
        product = torch.ones(1, dtype=torch.float64)
        for factor in factors:
            if isinstance(factor.value, Node):
                value = self.find_tensor(factor.value)
                if value is None:
                    return None
                product = _multiply_flat(product, value.detach().double().cpu().reshape(-1))
            else:
                product = product * factor.value
        return product


def _multiply_flat(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product; each with each where one is per stream and the other per feature."""
    if a.numel() == b.numel() or 1 in (a.numel(), b.numel()):
        return a * b
    return torch.outer(a, b).reshape(-1)


def _select_lanes(value: torch.Tensor, factor: LaneFactor, count: int) -> torch.Tensor | None:
    """(count,): the weights that `value` holds; None where they differ along another axis."""
    if value.numel() in (1, count):
        return value.reshape(-1).expand(count)
    lanes_last = value.movedim(factor.axis, -1)
    if factor.column is not None:
        return lanes_last.reshape(-1, *lanes_last.shape[-2:])[0, factor.column]
    rows = lanes_last.reshape(-1, count)  # copies, one per token
    return rows[0] if bool((rows == rows[0]).all()) else None


def summarise_gain(gain: torch.Tensor, offset: float = 0.0) -> Gain:
    """Summary of a gain vector, over its finite elements."""
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
        histogram=count_bins(finite),
    )


def is_learned(node: Node) -> bool:
    """Whether `node` derives from a parameter."""
    if node.op == "parameter":
        return True
    return any(is_learned(p) for p in node.parents)
