"""ND603 clip-dominated."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import Clipping
from normdiag.findings import Finding
from normdiag.number_text import format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits, Threshold

_SCALELESS = "random-projection"
"""The kind of loss whose size means nothing."""


class ClipDominated(Rule):
    """One parameter group dominates the global gradient norm, so clipping scales down all others.

    ## What it does

    Reports the layer or module whose gradient is so large that clipping by the global norm reduces
    the update of all other parameters.

    ## Why it matters

    Clipping by the global norm multiplies every gradient by min(1, c / G). Where one group makes up
    nearly all of G, the others are scaled down at every step although they are small. The usual
    causes do not change the output: a matrix that is read only by a norm has a gradient
    proportional to 1 / its scale, and an embedding initialised too small is divided by its size in
    the next norm.

    ## How it is measured

    One backward pass of the loss that the report names. G is the norm over all parameters, S the
    share of its square that belongs to the largest group (a layer, or a module outside of them).
    The value is how much smaller the other gradients become than if they were clipped alone: min(1,
    c / (G sqrt(1 - S))) over min(1, c / G). Random-projection losses have an arbitrary scale and
    are not judged.

    ## Thresholds

    ## Example

    Four layers of x + ln(w2 relu(w1 x)), one w2 a thousand times too small; the same with all
    matrices of equal scale.

    ## How to fix

    Scale up the weights that are read only by a norm (the report lists them; the output does not
    change), or initialise them at unit scale. Otherwise clip per group, or find why that gradient
    is so large: the next norm may divide by epsilon alone.

    ## When it is wrong

    Adam cancels a constant factor; only its variation over steps remains. One batch is a small
    sample of a training run, so the severity is always info. Vision transformers with a
    zero-initialised class token have such a gradient at their first step only.

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
            name="reduction",
            unit="factor on all other gradients",
            default=10,
            meaning="a larger reduction of all other gradients is reported",
            source="a tenth of the intended step. With nine tenths of the squared norm in "
            "one group it is sqrt(10) = 3.2; BERT has 0.87 outside of its layers at first",
            low=1.0,
        ),
    )
    fires_on = "sample_models/small_matrix.py:build"
    silent_on = "sample_models/small_matrix.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding at most."""
        gradients = evidence.measurements.gradients
        if gradients is None or gradients.loss.kind == _SCALELESS:
            return
        clipping, total = gradients.clipping, gradients.global_norm
        if clipping is None or total is None or len(gradients.groups) < 2:
            return
        share = gradients.groups.get(clipping.dominant_group or "")
        if share is None:
            return
        rest = total * math.sqrt(max(1 - share, 0.0))
        alone = min(1.0, clipping.max_norm / rest) if rest else 1.0
        reduction = alone / clipping.factor
        if reduction > limits["reduction"]:
            yield self._finding(evidence, clipping, share, (reduction, limits["reduction"]))

    def _finding(
        self, evidence: Evidence, clipping: Clipping, share: float, measured: tuple[float, float]
    ) -> Finding:
        group = str(clipping.dominant_group)
        return self.finding(
            f"clipping at {format_setting(clipping.max_norm)} scales every gradient by "
            f"{format_number(clipping.factor)}: {group} holds {format_number(share, 4)} of the "
            f"squared "
            f"gradient norm, and all other gradients become {format_number(measured[0])} times "
            f"smaller "
            f"than if clipped alone (threshold {format_setting(measured[1])})",
            ids=(group,),
            severity="info",  # one batch is a small sample of a training run
            confidence="high",
            measured=measured,
            advice=f"{_describe_cause(evidence, group)}; or clip per group",
        )


def _describe_cause(evidence: Evidence, group: str) -> str:
    """Name the smallest scale-invariant weight of the group, where it has one."""
    known = evidence.measurements.invariances
    free = (
        [w for w in known.scale_invariant_weights if w.weight.startswith(f"{group}.")]
        if known
        else []
    )
    if not free:
        return (
            f"find why the gradient of {group} is so large: its weights may be initialised too "
            "small, or the next norm may divide by epsilon alone"
        )
    least = min(free, key=lambda weight: weight.frobenius)
    return (
        f"scale up {least.weight} (norm {format_number(least.frobenius)}): it is read only by "
        f"{least.norm}, so the output does not change and its gradient falls in proportion"
    )
