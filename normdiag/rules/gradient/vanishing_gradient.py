"""ND601 vanishing-gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Stack
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import GradientTrend
from normdiag.findings import Finding
from normdiag.rules.number import number
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits, Threshold


class VanishingGradient(Rule):
    """The gradient shrinks from layer to layer on its way back.

    ## What it does

    Names stacks in which the gradient of the loss loses a steady factor per layer between the
    last residual add and the first, and a large one in all; and those whose first layers get none.

    ## Why it matters

    Layers that get a hundredth of the gradient learn a hundredth as fast under plain gradient
    descent, and under Adam they learn from what is left above rounding and epsilon. A factor per
    layer that is lost on the way back is lost forward too: what comes in no longer shows in what
    goes out.

    ## How it is measured

    One backward pass of the loss that the report names. Per residual add y = x + u, the root of
    the mean over tokens of ||dL/dy||^2, before any norm. A straight line is laid through its
    logarithm against depth. The finding needs a factor per layer above the threshold by twice its
    standard error (a single jump is no loss per layer) and, along the line, a total above the
    other threshold. A first add whose gradient is 0 where the last one's is not is always reported.

    ## Thresholds

    ## Example

    ln(x + fc(x)) with biases as large as the stream: each layer halves what came in. Against the
    same with small biases.

    ## How to fix

    Put the norm into the branch (pre-norm), so that the way back along the skips has no norms on
    it; or give the skip a larger share of each sum (DeepNorm's alpha, smaller last weights of each
    branch). A skip that is scaled by less than 1, or branches that saturate, do the same harm.

    ## When it is wrong

    A classifier that reads one token, or a loss of few tokens, gives the last layers a gradient at
    those tokens alone; the mean over tokens still compares. Trained post-norm encoders lose
    1.1 per layer over six layers (MiniLM) and twelve (ALBERT), which is no defect.

    ## References

    * Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020
      (arXiv 2002.04745).
    * Wang et al., DeepNet: Scaling Transformers to 1,000 Layers, 2022 (arXiv 2203.00555).
    """

    code = "ND601"
    name = "vanishing-gradient"
    since = "0.1"
    requirements = ("architecture.stacks", "measurements.gradients")
    thresholds = (
        Threshold(
            name="rate",
            unit="factor per layer",
            default=1.12,
            meaning="a larger loss per layer, by twice its standard error, is reported",
            source="sqrt(3/2) = 1.22 is what Xiong et al. (2020, appendix F) expect of a post-norm "
            "layer whose branches pass nothing back; at 1.12 half is lost in 6 layers",
            low=1.0,
        ),
        Threshold(
            name="total",
            unit="last add / first add",
            default=100,
            meaning="and only where this much is lost along the line",
            source="trained models stay within 13 either way along the line (SmolLM2 12.6, ALBERT "
            "2.5, MiniLM 1.9); a hundredth is 2^-7, all the bits that bfloat16 has after its first",
            low=1.0,
        ),
    )
    fires_on = "sample_models/large_bias.py:build"
    silent_on = "sample_models/large_bias.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        gradients = evidence.measurements.gradients
        if gradients is None:
            return
        for stack in evidence.architecture.stacks:
            trend = gradients.trends.get(stack.id)
            if gradients.ratios.get(stack.id) == math.inf:
                yield self._zero_gradient_finding(stack, limits)
            elif trend is not None and trend.total > limits["total"]:
                error = trend.rate_error or 0.0
                if trend.rate - 2 * error > limits["rate"]:
                    yield self._shrinking_finding(stack, trend, limits)

    def _shrinking_finding(self, stack: Stack, trend: GradientTrend, limits: Limits) -> Finding:
        return self.finding(
            f"the gradient in {stack.id} shrinks by {number(trend.rate)} per layer on its way back "
            f"(threshold {number(limits['rate'])}), {number(trend.total)} times over "
            f"{stack.layers} layers (threshold {number(limits['total'])})",
            ids=(stack.id,),
            severity="warning",
            confidence="medium" if trend.rate_error is None else "high",
            measured=(trend.rate, limits["rate"]),
            advice="normalise inside the branch (pre-norm), or give the skip a larger share of "
            "each sum: smaller last weights and biases of each branch, or DeepNorm's alpha",
        )

    def _zero_gradient_finding(self, stack: Stack, limits: Limits) -> Finding:
        return self.finding(
            f"no gradient reaches the first layer of {stack.id}: it is 0 there and not in the last",
            ids=(stack.id,),
            severity="warning",
            confidence="high",
            measured=(math.inf, limits["rate"]),
            advice="look for a scale of 0, a branch that writes a constant, or values that "
            "underflow in a short format",
        )
