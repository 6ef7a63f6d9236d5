"""Measurements of the norms and residual adds of one forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from normdiag.graph import Node
from normdiag.measure.statistics.add_statistics import AddTokenStatistics
from normdiag.measure.statistics.jacobian_extremes import JacobianExtremes
from normdiag.measure.statistics.norm_statistics import NormRowStatistics
from normdiag.measure.statistics.rows import Tokens
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.residual_adds import DetectedAdd


@dataclass(slots=True)
class NormRecord:
    """Statistics and sampled rows of one norm in one pass."""

    norm: DetectedNorm = field(init=False)
    """Set once it is detected: the input of a dynamic tanh is measured before that."""
    tokens: Tokens
    statistics: NormRowStatistics | None
    rows: torch.Tensor
    """Indices of the sampled rows."""
    input_rows: torch.Tensor
    output_rows: torch.Tensor | None = None
    extremes: JacobianExtremes | None = None
    """Over all rows that are not padding; None where they were not asked for or not solved."""


@dataclass(slots=True)
class AddRecord:
    """Statistics and sampled rows of one residual add in one pass."""

    add: DetectedAdd
    tokens: Tokens
    axis: int
    """The feature axis, counted from the end."""
    statistics: AddTokenStatistics | None
    rows: torch.Tensor
    """Indices of the sampled rows."""
    skip_rows: torch.Tensor
    branch_rows: torch.Tensor
    out_rows: torch.Tensor


@dataclass(slots=True)
class SiteRecords:
    """Measurements of one pass, and the few activations that outlive it."""

    norms: dict[DetectedNorm, NormRecord] = field(default_factory=dict)
    adds: dict[DetectedAdd, AddRecord] = field(default_factory=dict)
    recent_outputs: dict[Node, torch.Tensor] = field(default_factory=dict)
    """The latest outputs of adds and norms: one of them is the input of the head."""
    peaks: dict[Node, torch.Tensor] = field(default_factory=dict)
    """max |value| of the products, contractions and squares between the sites."""
    ranges: list[torch.Tensor] = field(default_factory=list)
    """Smallest and largest value of every site without statistics."""

    def are_finite(self) -> bool:
        """Whether all norm inputs and all sums of adds were finite, padding included."""
        norms = (r.statistics.square_sum for r in self.norms.values() if r.statistics)
        adds = (r.statistics.out_square for r in self.adds.values() if r.statistics)
        return all(bool(torch.isfinite(t).all()) for t in (*norms, *adds, *self.ranges))

    def record_range(self, values: torch.Tensor) -> None:
        """Record the smallest and the largest value of a site without statistics."""
        if values.numel():
            self.ranges.append(torch.stack(torch.aminmax(values)))

    def keep_output(self, node: Node, output: torch.Tensor) -> None:
        """Keep the output of a site until two later ones have run."""
        self.recent_outputs.pop(node, None)
        self.recent_outputs[node] = output
        while len(self.recent_outputs) > _RECENT_OUTPUTS:
            del self.recent_outputs[next(iter(self.recent_outputs))]


_RECENT_OUTPUTS = 2
