"""ND104 mixed-placement."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count, number
from normdiag.rules.rule import Rule
from normdiag.rules.site import format_layers, trace_hint
from normdiag.rules.thresholds import Limits, Threshold

LayerPlacements = tuple[str, ...]
"""The placements of the adds of one layer."""


class MixedPlacement(Rule):
    """The norms of a stack do not stand in the same place everywhere.

    ## What it does

    Names stacks whose residual adds differ in placement. Where a few layers differ from all others,
    it names these, and that is a warning: somebody forgot a norm there, or put it elsewhere.

    ## Why it matters

    A layer without the norm that the others have reads the bare stream, which is larger with every
    layer, and writes in proportion. In a list of modules it does not show: the module may well be
    there, and not be called.

    ## How it is measured

    From the data flow: each add's placement, layer by layer. The pattern of most layers is taken as
    meant. Layers at the front of a stack are never odd: Mix-LN, KEEL and others begin differently
    on purpose. Nor are layers with another number of adds, which are layers of another kind.

    ## Thresholds

    ## Example

    Layer 5 of 12 adds fc(x), where the others add fc(ln(x)).

    ## How to fix

    Compare the forward of the layer that is named with its neighbour's, and look for a norm that is
    built and not called (`coverage.modules_not_called`) or a condition on the layer's number.

    ## When it is wrong

    Conformers, encoder-decoder image models and hybrids of attention and state spaces mix
    placements by design. Then it is only mentioned.

    ## References

    * Li et al., Mix-LN: Unleashing the Power of Deeper Layers by Combining Pre-LN and Post-LN, ICLR
      2025 (arXiv 2412.13795).
    * Gulati et al., Conformer, Interspeech 2020 (arXiv 2005.08100).
    """

    code = "ND104"
    name = "mixed-placement"
    since = "0.1"
    requirements = ("architecture.stacks",)
    thresholds = (
        Threshold(
            name="share",
            unit="share of layers",
            default=0.25,
            meaning="up to this share of odd layers is a warning, more are a design, and mentioned",
            source="our choice (2026): Mix-LN changes over after a quarter of the layers",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/odd_norms.py:build_misplaced"
    silent_on = "sample_models/odd_norms.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        for stack in evidence.architecture.stacks:
            layers = _layer_placements(evidence, stack)
            if stack.placement != "hybrid" or not layers:
                continue
            usual, odd = _find_odd_layers(layers)
            share = len(odd) / len(layers)
            if odd and share <= limits["share"]:
                yield self._odd_layers_finding(evidence, stack, layers, usual, odd, limits["share"])
            else:
                yield self.finding(
                    f"the adds of {stack.id} differ in placement: {stack.note or stack.drawing}",
                    ids=(stack.id,),
                    severity="info",
                    confidence="medium",
                    advice="a design that mixes placements is read add by add; "
                    f"{trace_hint(evidence, _adds(evidence, stack)[0].id)}",
                )

    def _odd_layers_finding(
        self,
        evidence: Evidence,
        stack: Stack,
        layers: dict[int, LayerPlacements],
        usual: LayerPlacements,
        odd: list[int],
        limit: float,
    ) -> Finding:
        adds = [add.id for add in _adds(evidence, stack) if add.layer in odd]
        verb = "is" if len(odd) == 1 else "are"
        share = len(odd) / len(layers)
        return self.finding(
            f"{format_layers(odd)} of {stack.id} {verb} {' + '.join(layers[odd[0]])}, the other "
            f"{count(len(layers) - len(odd), 'layer')} {' + '.join(usual)} (share {number(share)}, "
            f"threshold {number(limit)})",
            ids=(stack.id, *adds),
            severity="warning",
            confidence="medium",
            measured=(share, limit),
            advice=f"look for a norm that layer {odd[0]} does not call, or calls elsewhere; "
            f"{trace_hint(evidence, adds[0])}",
        )


def _adds(evidence: Evidence, stack: Stack) -> list[ResidualAdd]:
    return [add for add in evidence.architecture.residual_adds if add.stack == stack.id]


def _layer_placements(evidence: Evidence, stack: Stack) -> dict[int, LayerPlacements]:
    layers: dict[int, list[str]] = defaultdict(list)
    for add in _adds(evidence, stack):
        layers[add.layer].append(add.placement)
    return {layer: tuple(layers[layer]) for layer in sorted(layers)}


def _find_odd_layers(layers: dict[int, LayerPlacements]) -> tuple[LayerPlacements, list[int]]:
    """The pattern of most layers, and the layers of the same length that do not follow it."""
    usual = Counter(layers.values()).most_common(1)[0][0]
    start = next(number for number, pattern in layers.items() if pattern == usual)
    return usual, [
        number
        for number, pattern in layers.items()
        if number > start and pattern != usual and len(pattern) == len(usual)
    ]
