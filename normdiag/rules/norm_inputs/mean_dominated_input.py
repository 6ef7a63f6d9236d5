"""ND303 mean-dominated-input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_percent, format_setting
from normdiag.rules.rounded_signals import is_rounded_away, rounding_step
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_places,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold

MIN_FEATURES = 8
"""With fewer features a large mean is common by chance."""


class MeanDominatedInput(Rule):
    """The mean over features makes up nearly all of a LayerNorm's input, and centring removes it.

    ## What it does

    Reports LayerNorms whose input is mostly an offset along the ones vector.

    ## Why it matters

    Centring removes the offset and whatever it encodes: two tokens that differ only in it have
    equal outputs. The remainder is a small difference of large numbers; in half precision it is
    mostly rounding error, which the norm scales up to unit size.

    ## How it is measured

    The mean energy H mean(x)^2 / ||x||^2, mean over tokens: the share of the input's energy that
    lies along ones. The chance level is 1/H. Centring does not remove an offset that features do
    not share (such as one large channel), and it is not counted.

    ## Thresholds

    ## Example

    An embedding with 8 added to every value, followed by a LayerNorm.

    ## How to fix

    Find the source of the offset: a bias shared by all features, a non-negative activation before
    the norm, inputs that were not standardised. If the offset carries information, use RMSNorm or a
    separate channel. Otherwise subtract it from the weights, which does not change the norm's
    output.

    ## When it is wrong

    The offset is known and harmless, and the norm runs in float32.

    ## References

    * Brody et al., On the Expressivity Role of LayerNorm in Transformers' Attention, ACL 2023
      (arXiv 2305.02582).
    * Gupta et al., Geometric Interpretation of Layer Normalization, 2024 (arXiv 2409.12951): the
      inputs of trained language models are almost orthogonal to ones.
    """

    code = "ND303"
    name = "mean-dominated-input"
    since = "0.1"
    requirements = ("measurements.norms",)
    thresholds = (
        Threshold(
            name="mean_energy",
            unit="share of ||x||^2 along ones",
            default=0.9,
            meaning="a mean energy above this is reported",
            source="the standard deviation is then below sqrt(0.1 / 0.9) = 1/3 of the mean. After "
            "a ReLU, of a Gaussian, it is 1/pi = 0.32; in MiniLM at most 0.003, in an ALBERT 0.37",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/common_offset.py:build"
    silent_on = "sample_models/common_offset.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for the model."""
        measured = evidence.measurements.norms
        sites = [
            rate_site(norm, measured[norm.id].mean_energy)
            for norm in evidence.architecture.norms
            if norm.id in measured and _subtracts_token_mean(norm)
        ]
        sites = [each for each in sites if each.value > limits["mean_energy"]]
        if sites:
            yield self._finding(evidence, sites, limits)

    def _finding(self, evidence: Evidence, sites: Sequence[RatedSite], limits: Limits) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        more = f", and {format_count(len(sites), 'norm')} in all, {describe_places(sites)}"
        return self.finding(
            f"the mean over features holds {format_percent(worst.value)} of ||x||^2 (threshold "
            f"{format_setting(100 * limits['mean_energy'])}%), which centring removes, at "
            f"{worst.id}{more if len(sites) > 1 else ''}{_describe_rounding(evidence, worst.id)}",
            ids=site_ids(ranked),
            severity="warning",
            confidence="high",
            measured=(worst.value, limits["mean_energy"]),
            advice="find what adds a constant to every feature; RMSNorm keeps it where it carries "
            f"information; {trace_hint(evidence, worst.id)}",
        )


def _describe_rounding(evidence: Evidence, id: str) -> str:
    """What is left of the signal where the format rounds it away."""
    step = rounding_step(evidence, id)
    if step is None or not is_rounded_away(evidence, id):
        return ""
    norm = next(each for each in evidence.architecture.norms if each.id == id)
    measured = evidence.measurements.norms[id]
    return (
        f": {norm.dtype} has a step of {format_number(step)} at that mean "
        f"({format_number(measured.input_mean)}), and the standard deviation over features is "
        f"{format_number(math.sqrt(measured.input_var.median))}, so the signal is rounded away"
    )


def _subtracts_token_mean(norm: Norm) -> bool:
    return norm.kind == "layernorm" and norm.axes == (-1,) and norm.features >= MIN_FEATURES
