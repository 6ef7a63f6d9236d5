"""ND406 duplicate-layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from normdiag.evidence.architecture import Stack
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.site import format_layers
from normdiag.rules.thresholds import Limits

_SHOWN = 6


class DuplicateLayer(Rule):
    """Layers of one stack are separate copies with equal parameters.

    ## What it does

    Reports layers of a stack in which every parameter is equal.

    ## Why it matters

    A depth-up-scaled model (a passthrough merge) repeats blocks that were trained for one place:
    without further training the copies keep adding the same direction, the stream grows with their
    number, and later layers receive a scale that they were not trained on. In a new model, layers
    that start equal receive similar gradients and diverge slowly.

    ## How it is measured

    For every stack whose layers are separate modules, all parameters of each layer are compared
    value by value. Layers that share parameters (one module that runs several times, or tied
    weights) are not copies; layers with constant parameters only are not compared.

    ## Thresholds

    ## Example

    Layers 2 to 5 of a stack of 6 appear twice, as a merge makes them.

    ## How to fix

    After a merge: continue training, or remove the copies; dividing the branches of copies by their
    number keeps the scale of the stream. In a new model: initialise each layer separately;
    `torch.nn.TransformerEncoder` copies the layer passed to it.

    ## When it is wrong

    Copies that are intended as the start of further training.

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
            f"{format_count(copies, 'layer')} of {stack.layers} of {stack.title} {verb} another "
            f"layer exactly: "
            f"{named}{more} ({format_count(pairs, 'pair')})",
            ids=(stack.id,),
            severity="warning",
            confidence="high",
            measured=(float(pairs), 0.0),
            advice="continue training or remove the copies; in a new model initialise each layer "
            "separately",
        )
