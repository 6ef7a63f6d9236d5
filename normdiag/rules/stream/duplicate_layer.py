"""ND406 duplicate-layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from normdiag.evidence.architecture import Stack
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count
from normdiag.rules.rule import Rule
from normdiag.rules.site import format_layers
from normdiag.rules.thresholds import Limits

_SHOWN = 6


class DuplicateLayer(Rule):
    """Two layers of one stack have the same parameters, each in a copy of its own.

    ## What it does

    Names the layers of a stack that are copies of each other, every parameter equal.

    ## Why it matters

    A depth-up-scaled model (a passthrough merge) repeats blocks that were trained for one place:
    without further training the copies keep adding the same direction, the stream grows with their
    number, and the layers behind see a size they never saw. In a new model, layers that start equal
    get equal gradients wherever they see equal input, and stay alike for long.

    ## How it is measured

    For every stack whose layers are modules of their own, all parameters of each layer against
    those of the others, value by value. Layers that share their parameters (one module that runs
    many times, or tied weights) are one layer and no copies; layers of constants alone are not
    compared.

    ## Thresholds

    ## Example

    Layers 2 to 5 of a stack of 6 appear twice, as a merge makes them.

    ## How to fix

    After a merge: train on, or leave the copies out; scaling the branches of copies down by their
    number keeps the stream at its size. In a new model: draw each layer's weights for itself;
    `torch.nn.TransformerEncoder` copies the one layer that it is given.

    ## When it is wrong

    Where the copies are wanted, as the start of a training that is to pull them apart.

    ## References

    * Kim et al., SOLAR 10.7B: Scaling Large Language Models with Simple yet Effective Depth
      Up-Scaling, 2023 (arXiv 2312.15166).
    """

    code = "ND406"
    name = "duplicate-layer"
    since = "0.1"
    requirements = ("measurements.duplicates",)
    fires_on = "sample_models/duplicate_layers.py:build"
    silent_on = "sample_models/duplicate_layers.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        for stack in evidence.architecture.stacks:
            groups = evidence.measurements.duplicates.get(stack.id, ())
            if groups:
                yield self._finding(stack, groups)

    def _finding(self, stack: Stack, groups: tuple[tuple[int, ...], ...]) -> Finding:
        pairs = sum(len(tuple(combinations(group, 2))) for group in groups)
        copies = sum(len(group) - 1 for group in groups)
        named = "; ".join(format_layers(group) for group in groups[:_SHOWN])
        more = f"; and {len(groups) - _SHOWN} more groups" if len(groups) > _SHOWN else ""
        verb = "repeats" if copies == 1 else "repeat"
        return self.finding(
            f"{count(copies, 'layer')} of {stack.layers} of {stack.id} {verb} another, every "
            f"parameter equal: {named}{more} ({count(pairs, 'pair')})",
            ids=(stack.id,),
            severity="warning",
            confidence="high",
            measured=(float(pairs), 0.0),
            advice="train on or leave the copies out; in a new model draw each layer's weights for "
            "itself",
        )
