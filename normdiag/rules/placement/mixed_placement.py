"""ND104 mixed-placement."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from normdiag.evidence.architecture import Stack
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import format_layers, list_places, trace_hint
from normdiag.rules.thresholds import Limits, Threshold

LayerPlacements = tuple[str, ...]
"""The placements of the adds of one layer."""


class MixedPlacement(Rule):
    """The residual adds of a stack differ in norm placement.

    ## What it does

    Reports stacks whose residual adds differ in placement. Where a few layers differ from all
    others these are listed as a warning: a norm is probably missing or misplaced there.

    ## Why it matters

    A layer without the norm that the others have reads the unnormalised stream, which grows with
    depth, and writes in proportion. A list of modules does not show it: the norm may exist and not
    be called.

    ## How it is measured

    From the data flow: the placement of each add, layer by layer. The pattern of most layers is the
    reference. Layers before the first such layer are not counted as different (Mix-LN, KEEL and
    others start differently by design), nor are layers with another number of adds, which are of
    another kind.

    ## Thresholds

    ## Example

    Layer 5 of 12 adds fc(x), the others add fc(ln(x)).

    ## How to fix

    Compare the forward of the reported layer with its neighbour's, and look for a norm that is
    built but not called (`coverage.modules_not_called`) or a condition on the layer index.

    ## When it is wrong

    Conformers, encoder-decoder image models and hybrids of attention and state spaces mix
    placements by design, which is info.

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
            meaning="a share of differing layers up to this is a warning, above it is info "
            "(design)",
            source="our choice (2026): Mix-LN changes placement after a quarter of the layers",
            low=0.0,
            high=1.0,
            is_lower=True,
        ),
    )
    fires_on = "sample_models/odd_norms.py:build_misplaced"
    silent_on = "sample_models/odd_norms.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        for stack in evidence.architecture.stacks:
            layers = _layer_placements(evidence, stack)
            if not (stack.placement == "hybrid" or stack.exceptions) or not layers:
                continue
            usual, odd = _find_odd_layers(layers)
            share = len(odd) / len(layers)
            if odd and share <= limits["share"]:
                yield self._odd_layers_finding(evidence, stack, layers, usual, odd, limits["share"])
            else:
                yield self.finding(
                    f"the adds of {stack.title} differ in placement: {_describe_difference(stack)}"
                    + _name_skip_norms(evidence, stack),
                    ids=(stack.id,),
                    severity="info",
                    confidence="medium",
                    advice="expected for a design that mixes placements; "
                    f"{trace_hint(evidence, evidence.architecture.adds_of_stack(stack.id)[0].id)}",
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
        adds = [add.id for add in evidence.architecture.adds_of_stack(stack.id) if add.layer in odd]
        verb = "is" if len(odd) == 1 else "are"
        share = len(odd) / len(layers)
        return self.finding(
            f"{format_layers(odd)} of {stack.title} {verb} {' + '.join(layers[odd[0]])}, the other "
            f"{format_count(len(layers) - len(odd), 'layer')} {' + '.join(usual)} (share "
            f"{format_number(share)}, "
            f"threshold {format_setting(limit)})",
            ids=(stack.id, *adds),
            severity="warning",
            confidence="medium",
            measured=(share, limit),
            advice=f"look for a norm that layer {odd[0]} does not call or calls in another place; "
            f"{trace_hint(evidence, adds[0])}",
        )


def _describe_difference(stack: Stack) -> str:
    """Name the adds that differ from most, or the patterns of the layers."""
    if not stack.exceptions:
        return stack.note or stack.drawing
    named = [f"{each.add} is {each.placement}" for each in stack.exceptions]
    return f"{list_places(named)}, the others are {stack.placement}"


def _name_skip_norms(evidence: Evidence, stack: Stack) -> str:
    """Name the norms whose output is the skip of an add, where other adds have another skip."""
    norms = [
        add.skip_norm
        for add in evidence.architecture.adds_of_stack(stack.id)
        if add.placement == "normed-skip" and add.skip_norm is not None
    ]
    return f"; the skip is normed, by {list_places(norms)}" if norms else ""


def _layer_placements(evidence: Evidence, stack: Stack) -> dict[int, LayerPlacements]:
    layers: dict[int, list[str]] = defaultdict(list)
    for add in evidence.architecture.adds_of_stack(stack.id):
        layers[add.layer].append(add.placement)
    return {layer: tuple(layers[layer]) for layer in sorted(layers)}


def _find_odd_layers(layers: dict[int, LayerPlacements]) -> tuple[LayerPlacements, list[int]]:
    """The pattern of most layers, and the layers of equal length that differ from it."""
    usual = Counter(layers.values()).most_common(1)[0][0]
    start = next(number for number, pattern in layers.items() if pattern == usual)
    return usual, [
        number
        for number, pattern in layers.items()
        if number > start and pattern != usual and len(pattern) == len(usual)
    ]
