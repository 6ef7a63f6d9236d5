"""ND601 vanishing-gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Stack
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import GradientTrend
from normdiag.findings import Finding
from normdiag.number_text import format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits, Threshold


class VanishingGradient(Rule):
    """The gradient norm shrinks geometrically from the last layer to the first.

    ## What it does

    Reports stacks in which ||dL/dy|| falls by a constant factor per layer from the last residual
    add to the first, with a large total factor, and stacks whose first layers receive no gradient.

    ## Why it matters

    Layers that receive a hundredth of the gradient learn a hundredth as fast under plain gradient
    descent; under Adam they learn from what remains above rounding and epsilon. The same factor per
    layer applies forward: the output hardly depends on the input.

    ## How it is measured

    One backward pass of the loss that the report names. Per residual add y = x + u, the root of the
    mean over tokens of ||dL/dy||^2, before any norm. A straight line is fitted to its logarithm
    against depth. The finding needs a factor per layer above the threshold by twice its standard
    error (a single jump is not a rate per layer) and a total along the line above the other
    threshold. A zero gradient at the first add with a non-zero one at the last is always reported.

    ## Thresholds

    ## Example

    ln(x + fc(x)) with biases as large as the stream, so that each layer halves its input; the same
    with small biases.

    ## How to fix

    Move the norm into the branch (pre-norm), so that the skip path has no norms; or give the skip a
    larger share of each sum (DeepNorm's alpha, smaller last weights of each branch). Skips scaled
    by less than 1 and saturated branches have the same effect.

    ## When it is wrong

    A classifier that reads one token, or a loss of few tokens, gives the last layers a gradient at
    those tokens only; the mean over tokens is still comparable. Trained post-norm encoders lose a
    factor of 1.13 per layer over six layers (MiniLM) and 1.07 over twelve (all-mpnet-base-v2),
    which is not a defect.

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
            meaning="a decay per layer above this by twice its standard error is reported",
            source="sqrt(3/2) = 1.22 is what Xiong et al. (2020, appendix F) expect of a post-norm "
            "layer whose branches pass nothing back; at 1.12 half is lost in 6 layers",
            low=1.0,
        ),
        Threshold(
            name="total",
            unit="last add / first add",
            default=100,
            meaning="smallest total decay along the fitted line that is reported",
            source="the gradients of trained models shrink by less than 4 along the line; a "
            "hundredth is 2^-7, all the bits that bfloat16 has after its first",
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
            f"||dL/dy|| in {stack.title} shrinks by a factor of "
            f"{format_number(trend.rate)} per layer "
            f"from the last layer to the first (threshold {format_setting(limits['rate'])}), "
            f"{format_number(trend.total)} in total over {stack.layers} layers (threshold "
            f"{format_setting(limits['total'])})",
            ids=(stack.id,),
            severity="warning",
            confidence="medium" if trend.rate_error is None else "high",
            measured=(trend.rate, limits["rate"]),
            advice="move the norm into the branch (pre-norm), or give the skip a larger share of "
            "each sum: smaller last weights and biases of each branch, or DeepNorm's alpha",
        )

    def _zero_gradient_finding(self, stack: Stack, limits: Limits) -> Finding:
        return self.finding(
            f"||dL/dy|| is 0 at the first layer of {stack.title} and not 0 at the last",
            ids=(stack.id,),
            severity="warning",
            confidence="high",
            measured=(math.inf, limits["rate"]),
            advice="look for a scale of 0, a branch with constant output, or underflow in a "
            "low-precision format",
        )
