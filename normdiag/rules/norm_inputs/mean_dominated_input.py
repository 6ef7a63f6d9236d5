"""ND303 mean-dominated-input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count, number
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
"""Below so many features a large mean is chance."""


class MeanDominatedInput(Rule):
    """A LayerNorm takes nearly all of its input away, since it is one constant over all features.

    ## What it does

    Names the LayerNorms whose input is an offset along the ones vector with a little on top.

    ## Why it matters

    Centring removes that offset whole, whatever it stood for: two tokens that differ in it alone
    come out equal. What is left is the small difference of large numbers: its variance comes from
    values that share their leading digits, so that in half precision it is mostly rounding, and the
    norm multiplies that up to unit size.

    ## How it is measured

    The mean energy H mean(x)^2 / ||x||^2, mean over tokens: the share of the input's energy that
    lies along ones. By chance it is 1/H. An offset that features do not share (a large channel,
    say) is not removed by centring and not counted here.

    ## Thresholds

    ## Example

    An embedding whose every value is 8 too high in front of a LayerNorm.

    ## How to fix

    Look for what adds the offset: a bias that all features have in common, an activation without
    negative values in front of the norm, inputs that were not standardised. If it means something,
    use RMSNorm, or give it a channel of its own. Otherwise take it out of the weights: it changes
    nothing behind the norm.

    ## When it is wrong

    Where the offset is known and harmless, and the norm runs in float32.

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
            meaning="a LayerNorm that removes more is reported",
            source="the standard deviation is then below sqrt(0.1 / 0.9) = 1/3 of the mean. Behind "
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
        more = f", and {count(len(sites), 'norm')} in all, {describe_places(sites)}"
        return self.finding(
            f"{number(100 * worst.value)} % of the input's energy is one constant over all "
            f"features (threshold {number(100 * limits['mean_energy'])} %), which centring "
            f"removes, at {worst.id}{more if len(sites) > 1 else ''}",
            ids=site_ids(ranked),
            severity="warning",
            confidence="high",
            measured=(worst.value, limits["mean_energy"]),
            advice="look for what adds the same to every feature; if it means something, RMSNorm "
            f"keeps it; {trace_hint(evidence, worst.id)}",
        )


def _subtracts_token_mean(norm: Norm) -> bool:
    return norm.kind == "layernorm" and norm.axes == (-1,) and norm.features >= MIN_FEATURES
