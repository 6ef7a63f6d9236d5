"""ND603 clip-dominated."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import Clipping
from normdiag.findings import Finding
from normdiag.rules.number import number
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits, Threshold

_SCALELESS = "random-projection"
"""The kind of loss whose size means nothing."""


class ClipDominated(Rule):
    """One part of the model makes clipping scale down all the others.

    ## What it does

    Names the layer or module whose gradient is so large that clipping the global norm, which it
    makes up, takes the step away from everything else.

    ## Why it matters

    Clipping by the global norm multiplies every gradient by min(1, c / G). Where one group is
    nearly all of G, the others are scaled by a factor that they did not need, step after step. The
    usual causes change no output: a matrix that only a norm reads has a gradient that goes as one
    over its scale, and an embedding that is drawn too small stands in front of a norm that divides
    by its size.

    ## How it is measured

    One backward pass of the loss that the report names. G is the norm over all parameters, S the
    share of its square that belongs to the largest group (a layer, or a module outside of them).
    The value is how much smaller the others' gradients become than they would by themselves:
    min(1, c / (G sqrt(1 - S))) over min(1, c / G). Losses that are a random projection have no
    size of their own and are not judged.

    ## Thresholds

    ## Example

    Four layers of x + ln(w2 relu(w1 x)), one w2 a thousand times too small; against the same with
    all matrices alike.

    ## How to fix

    Scale up the weights that only a norm reads (the report lists them; no output changes), or
    start them at unit size. Otherwise clip by group, or find out why that gradient is so large:
    the norm behind it may divide by epsilon alone.

    ## When it is wrong

    Adam divides a constant factor out again; what is left is the unevenness over steps. One text
    says little of a training, so this is never more than information. Vision transformers that
    start from a class token of zeros have such a gradient at their first step alone.

    ## References

    * Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, ICML
      2013 (arXiv 1211.5063).
    * van Laarhoven, L2 Regularization versus Batch and Weight Normalization, 2017
      (arXiv 1706.05350).
    """

    code = "ND603"
    name = "clip-dominated"
    since = "0.1"
    requirements = ("measurements.gradients",)
    thresholds = (
        Threshold(
            name="held_back",
            unit="factor",
            default=10,
            meaning="all other gradients are scaled down by more than this for one group's sake",
            source="a tenth of the step that was meant. With nine tenths of the squared norm in "
            "one group it is sqrt(10) = 3.2; BERT has 0.87 outside of its layers at first",
            low=1.0,
        ),
    )
    fires_on = "sample_models/small_matrix.py:build"
    silent_on = "sample_models/small_matrix.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding at most."""
        seen = evidence.measurements.gradients
        if seen is None or seen.loss.kind == _SCALELESS:
            return
        clipping, total = seen.clipping, seen.global_norm
        if clipping is None or total is None or len(seen.groups) < 2:
            return
        share = seen.groups.get(clipping.dominant_group or "")
        if share is None:
            return
        rest = total * math.sqrt(max(1 - share, 0.0))
        alone = min(1.0, clipping.max_norm / rest) if rest else 1.0
        held_back = alone / clipping.factor
        if held_back > limits["held_back"]:
            yield self._finding(evidence, clipping, share, (held_back, limits["held_back"]))

    def _finding(
        self, evidence: Evidence, clipping: Clipping, share: float, measured: tuple[float, float]
    ) -> Finding:
        group = str(clipping.dominant_group)
        return self.finding(
            f"clipping at {number(clipping.max_norm)} scales every gradient by "
            f"{number(clipping.factor)}: {number(100 * share)} % of the squared norm is of "
            f"{group}, and all else is held back {number(measured[0])} times (threshold "
            f"{number(measured[1])})",
            ids=(group,),
            severity="info",  # of one text: a training meets many
            confidence="high",
            measured=measured,
            advice=f"{_describe_cause(evidence, group)}; or clip by group",
        )


def _describe_cause(evidence: Evidence, group: str) -> str:
    """The weights of the group whose scale is free, smallest first."""
    known = evidence.measurements.invariances
    free = (
        [w for w in known.scale_invariant_weights if w.weight.startswith(f"{group}.")]
        if known
        else []
    )
    if not free:
        return (
            f"find out why the gradient of {group} is so large: its weights may be drawn too "
            "small, or a norm behind it divide by epsilon alone"
        )
    least = min(free, key=lambda weight: weight.frobenius)
    return (
        f"scale up {least.weight} (norm {number(least.frobenius)}): only {least.norm} reads it, so "
        "no output changes and its gradient falls in proportion"
    )
