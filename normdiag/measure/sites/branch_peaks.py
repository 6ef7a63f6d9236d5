"""The largest values inside the branches over all passes, by the ids that a report names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch

from normdiag.evidence.precision import InnerPeak, PeakKind
from normdiag.graph import Frame, Node
from normdiag.measure.statistics.accumulator import merge_by_id
from normdiag.measure.statistics.earliest_pass import EarliestPass, SequenceNumbers
from normdiag.measure.statistics.extremes import larger_value
from normdiag.measure.statistics.peaks import is_contracted
from normdiag.structure.algebraic_forms import DetectedNorm, SquareForm
from normdiag.structure.build_architecture import SiteMap

Facts = TypeVar("Facts")


@dataclass(slots=True)
class PeakMaximum(Generic[Facts]):
    """Accumulator of the largest |value| of one operation, with facts of the earliest pass."""

    value: float = 0.0
    """NaN once there was one."""
    facts: EarliestPass[Facts] = field(default_factory=EarliestPass)

    def update(self, sequences: SequenceNumbers, value: float, facts: Facts) -> None:
        """Add one pass."""
        self.value = larger_value(self.value, value)
        self.facts.update(sequences, facts)

    def merge(self, other: PeakMaximum[Facts]) -> None:
        """Add the passes of `other`."""
        self.value = larger_value(self.value, other.value)
        self.facts.merge(other.facts)

    def compute(self) -> tuple[float, Facts]:
        """The largest value and the facts."""
        facts = self.facts.compute()
        if facts is None:
            raise ValueError("a peak of no pass")
        return self.value, facts


@dataclass(frozen=True, slots=True)
class OperationSite:
    """What one pass says of an operation."""

    order: int
    """Its place in the forward."""
    dtype: str


@dataclass(frozen=True, slots=True)
class PeakSite(OperationSite):
    """What one pass says of an inner peak."""

    module: str
    kind: PeakKind
    number: int
    """Among the peaks of one kind of that module, over the forward."""
    add: str
    """Id of the add of the innermost branch that it is on."""

    @property
    def id(self) -> str:
        """As reports name it."""
        return f"{self.module}/{self.kind}#{self.number}"


@dataclass(frozen=True, slots=True)
class PeakSummary:
    """The largest values of all passes."""

    inner: tuple[InnerPeak, ...]
    """The largest product and the largest contraction of every branch."""
    squares: dict[str, float]
    """Norm id -> the largest square in it."""
    square_formats: dict[str, str]
    """Norm id -> the format in which those squares were computed."""


@dataclass(slots=True)
class BranchPeaks:
    """Accumulator of the peaks that lie between the sites."""

    inner: dict[str, PeakMaximum[PeakSite]] = field(default_factory=dict)
    """By the id of the peak."""
    squares: dict[str, PeakMaximum[OperationSite]] = field(default_factory=dict)
    """By the id of the norm."""

    def update(
        self, peaks: Mapping[Node, torch.Tensor], sites: SiteMap, sequences: SequenceNumbers
    ) -> None:
        """Add one pass: `peaks` are max |value| of its operations, in the order of the forward."""
        if not peaks:
            return
        norms = {_square_key(norm): id for norm, id in sites.norms.items() if not norm.is_fused}
        branches = _innermost_adds(sites)
        counts: Counter[tuple[str, PeakKind]] = Counter()
        for node, peak in peaks.items():
            norm = norms.get((node.form.source, node.frame)) if _is_square(node) else None
            if norm is not None:
                square = self.squares.setdefault(norm, PeakMaximum())
                square.update(sequences, float(peak), OperationSite(node.index, node.dtype))
                continue
            module = node.frame.path
            kind: PeakKind = "contraction" if is_contracted(node) else "product"
            number = counts[module, kind]
            counts[module, kind] += 1
            if node in branches:
                peak_site = PeakSite(node.index, node.dtype, module, kind, number, branches[node])
                inner = self.inner.setdefault(peak_site.id, PeakMaximum())
                inner.update(sequences, float(peak), peak_site)

    def merge(self, other: BranchPeaks) -> None:
        """Add the passes of `other`."""
        merge_by_id(self.inner, other.inner)
        merge_by_id(self.squares, other.squares)

    def compute(self) -> PeakSummary:
        """Of equal peaks of one branch the first in the forward is reported."""
        largest: dict[tuple[str, PeakKind], tuple[float, PeakSite]] = {}
        for _, value, site in _in_forward_order(self.inner):
            key = site.add, site.kind
            if key not in largest or value > largest[key][0]:
                largest[key] = value, site
        squares = _in_forward_order(self.squares)
        return PeakSummary(
            inner=tuple(_to_evidence(*peak) for peak in largest.values()),
            squares={id: value for id, value, _ in squares},
            square_formats={id: site.dtype for id, _, site in squares},
        )


Site = TypeVar("Site", bound=OperationSite)


def _in_forward_order(peaks: Mapping[str, PeakMaximum[Site]]) -> list[tuple[str, float, Site]]:
    """Id, largest value and site of each."""
    computed = [(id, *peak.compute()) for id, peak in peaks.items()]
    return sorted(computed, key=lambda peak: (peak[2].order, peak[0]))


def _to_evidence(value: float, site: PeakSite) -> InnerPeak:
    return InnerPeak(
        id=site.id,
        module=site.module,
        kind=site.kind,
        number=site.number,
        add=site.add,
        value=value,
        dtype=site.dtype,
    )


def _is_square(node: Node) -> bool:
    return isinstance(node.form, SquareForm)


def _square_key(norm: DetectedNorm) -> tuple[Node, Frame]:
    return norm.source, norm.node.frame


def _innermost_adds(sites: SiteMap) -> dict[Node, str]:
    """Every node on a branch -> the id of the add of the innermost one."""
    regions = [pair for stack in sites.stacks.values() for pair in stack.regions.items()]
    adds: dict[Node, str] = {}
    for add, region in sorted(regions, key=lambda pair: len(pair[1])):
        for node in region:
            adds.setdefault(node, sites.adds[add])
    return adds
