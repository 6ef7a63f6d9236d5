"""ND305 outlier-channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_percent, format_setting
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

MIN_FEATURES = 16
"""With fewer features a large share is common by chance."""


class OutlierChannel(Rule):
    """One channel holds most of a norm's input at every token.

    ## What it does

    Reports norms whose input is dominated by the same channel at most tokens.

    ## Why it matters

    That channel sets the norm's denominator: all others are scaled down by sqrt(1 - share), and
    cosines between tokens are close to 1. Quantisation with one scale per token rounds the others
    to zero; pruning or ablating the channel destroys the model.

    ## How it is measured

    Per channel x_j^2 / ||x||^2, its median over a seeded sample of tokens, and of that the largest
    channel. The median ignores massive activations, which occur at a few tokens only (ND304).

    ## Thresholds

    ## Example

    A stream of 64 channels of unit size whose channel 7 is 60 at every token.

    ## How to fix

    A trained model needs its outlier channels: quantise per channel or rotate the basis first
    (QuaRot, SpinQuant), and compute cosines after standardising each channel. In a ported model:
    look for a bias or an embedding loaded into the wrong parameter.

    ## When it is wrong

    It is a property of many trained models, hence info until one channel holds nearly everything.
    SmolLM2 has 56 % in one channel before its last layer.

    ## References

    * Dettmers et al., LLM.int8(), NeurIPS 2022 (arXiv 2208.07339).
    * Timkey and van Schijndel, All Bark and No Bite: Rogue Dimensions in Transformer Language
      Models Obscure Representational Quality, EMNLP 2021 (arXiv 2109.04404).
    * Puccetti et al., Outlier Dimensions that Disrupt Transformers are Driven by Frequency,
      Findings of EMNLP 2022 (arXiv 2205.11380).
    """

    code = "ND305"
    name = "outlier-channel"
    since = "0.1"
    requirements = ("measurements.norms",)
    thresholds = (
        Threshold(
            name="share",
            unit="share of ||x||^2",
            default=0.5,
            meaning="a channel share above this is info",
            source="more than all others together, which are scaled down by sqrt(1/2); the chance "
            "level is 1/H, in MiniLM at most 0.39, in an ALBERT 0.45, in SmolLM2 0.56",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="dominant",
            unit="share of ||x||^2",
            default=0.99,
            meaning="a channel share above this is a warning",
            source="all other channels are scaled down to a tenth: sqrt(1 - 0.99) = 0.1; 0.94 is "
            "reported of a Gemma-like model that works",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/outlier_channel.py:build"
    silent_on = "sample_models/outlier_channel.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for the model: norms dominated by a channel, else norms with an outlier."""
        sites = [each for each in _channel_shares(evidence) if each.value > limits["share"]]
        if sites:
            yield self._finding(evidence, sites, limits)

    def _finding(self, evidence: Evidence, sites: Sequence[RatedSite], limits: Limits) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        is_dominant = worst.value > limits["dominant"]
        passed = limits["dominant" if is_dominant else "share"]
        channel = evidence.measurements.norms[worst.id].dominant_channel
        places = f"{format_count(len(sites), 'norm')} in all, {describe_places(sites)}"
        more = f"; as does one channel at {places}"
        return self.finding(
            f"channel {channel} holds {format_percent(worst.value)} of ||x||^2 (median over "
            f"sampled tokens, threshold {format_setting(100 * passed)}%) at {worst.id}"
            f"{more if len(sites) > 1 else ''}",
            ids=site_ids(ranked),
            severity="warning" if is_dominant else "info",
            confidence="high",
            measured=(worst.value, passed),
            advice="quantise per channel; standardise channels before comparing tokens; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _channel_shares(evidence: Evidence) -> Iterator[RatedSite]:
    for norm in evidence.architecture.norms:
        measurement = evidence.measurements.norms.get(norm.id)
        if (
            measurement is not None
            and measurement.channel_share is not None
            and norm.features >= MIN_FEATURES
        ):
            yield rate_site(norm, measurement.channel_share)
