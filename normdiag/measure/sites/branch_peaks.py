"""The largest values inside the branches over all passes, by the ids that a report names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

from normdiag.graph import Frame, Node
from normdiag.measure.statistics.extremes import larger
from normdiag.measure.statistics.peaks import is_contracted
from normdiag.structure.describe import SiteMap
from normdiag.structure.forms import DetectedNorm, SquareForm
from normdiag.structure.logits import NormedLogits, normed_logits


@dataclass(slots=True)
class BranchPeaks:
    """Streaming: any split of the probe into passes gives the same."""

    largest: dict[str, float] = field(default_factory=dict)
    """ "<module>/product#k" or "<module>/contraction#k", k in order over the forward."""
    branch: dict[str, str] = field(default_factory=dict)
    """Which add each of them is on the branch of."""
    computed_in: dict[str, str] = field(default_factory=dict)
    """The format of each of them in this run."""
    squares: dict[str, float] = field(default_factory=dict)
    """Norm id -> the largest square."""
    squared_in: dict[str, str] = field(default_factory=dict)
    logits: dict[str, NormedLogits] = field(default_factory=dict)
    """Id of the q norm -> the attention, as the first pass ran it."""
    scores: dict[str, float] = field(default_factory=dict)
    """Id of the q norm -> the largest |q . k| as computed, not yet scaled."""

    def take(self, peaks: Mapping[Node, torch.Tensor], sites: SiteMap) -> None:
        """One pass more."""
        norms = {_place(norm): name for norm, name in sites.norms.items() if not norm.is_fused}
        branches = _branches(sites)
        numbered: Counter[str] = Counter()
        for node, peak in peaks.items():
            of_norm = norms.get((node.form.source, node.frame)) if _is_square(node) else None
            if of_norm is not None:
                _raise(self.squares, of_norm, float(peak))
                self.squared_in[of_norm] = node.dtype
                continue
            kind = f"{node.frame.path}/{'contraction' if is_contracted(node) else 'product'}"
            name = f"{kind}#{numbered[kind]}"
            numbered[kind] += 1
            if node in branches:
                _raise(self.largest, name, float(peak))
                self.branch[name] = branches[node]
                self.computed_in[name] = node.dtype
        for logits in _logits(sites):
            name = sites.norms[logits.q]
            self.logits.setdefault(name, logits)
            if logits.score in peaks:
                _raise(self.scores, name, float(peaks[logits.score]))

    def worst(self) -> dict[str, float]:
        """The largest product and the largest contraction of every branch."""
        best: dict[tuple[str, bool], str] = {}
        for name, value in self.largest.items():
            key = (self.branch[name], "/product#" in name)
            if key not in best or value > self.largest[best[key]]:
                best[key] = name
        return {name: self.largest[name] for name in best.values()}


def _is_square(node: Node) -> bool:
    return isinstance(node.form, SquareForm)


def _place(norm: DetectedNorm) -> tuple[Node, Frame]:
    return norm.source, norm.node.frame


def _branches(sites: SiteMap) -> dict[Node, str]:
    """Every node on a branch -> the add of the innermost one."""
    regions = [pair for stack in sites.stacks.values() for pair in stack.regions.items()]
    found: dict[Node, str] = {}
    for add, region in sorted(regions, key=lambda pair: len(pair[1])):
        for node in region:
            found.setdefault(node, sites.adds[add])
    return found


def _logits(sites: SiteMap) -> Iterator[NormedLogits]:
    for stack in sites.stacks.values():
        for facts in stack.adds:
            if facts.qk_norms:
                yield from normed_logits(stack.regions[facts.add], facts.qk_norms)


def _raise(values: dict[str, float], name: str, value: float) -> None:
    values[name] = larger(values.get(name, 0.0), value)
