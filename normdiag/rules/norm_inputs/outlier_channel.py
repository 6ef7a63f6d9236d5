"""ND305 outlier-channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

MIN_FEATURES = 16
"""With fewer features one of them holds much by chance."""


class OutlierChannel(Rule):
    """One channel of a norm's input holds most of it, at every token.

    ## What it does

    Names the norms whose input is dominated by one and the same channel.

    ## Why it matters

    The norm divides by that channel: all others come out smaller by sqrt(1 - share), whatever they
    hold, and all tokens look alike to a cosine. Quantisation with one scale per token rounds the
    others to nothing; pruning or ablating the channel destroys the model.

    ## How it is measured

    Per channel x_j^2 / ||x||^2, its median over a seeded sample of tokens, and of that the largest
    channel. The median leaves out a massive activation, which is of a few tokens only (ND304).

    ## Thresholds

    ## Example

    A stream whose channel 7 is 60 wherever it starts from, of 64 channels of unit size.

    ## How to fix

    A trained model needs its outlier channels: quantise per channel or rotate the basis first
    (QuaRot, SpinQuant), and look at cosines after standardising each channel. In a ported model:
    look for a bias or an embedding that was loaded into the wrong place.

    ## When it is wrong

    It is a fact about the model rather than a fault of it, hence the low severity until nearly
    everything lies in one channel. SmolLM2 has 56 % in one channel in front of its last layer.

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
            meaning="an input of which one channel holds more is mentioned",
            source="more than all others together, which come out below sqrt(1/2) of their size; "
            "by chance it is 1/H, in MiniLM at most 0.39, in an ALBERT 0.45, in SmolLM2 0.56",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="dominant",
            unit="share of ||x||^2",
            default=0.9,
            meaning="and above this it is a warning",
            source="the others come out at less than a third of their size: sqrt(1 - 0.9) = 0.32",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/outlier_channel.py:build"
    silent_on = "sample_models/outlier_channel.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for the model: of the dominated norms, else of those with an outlier."""
        sites = [each for each in _channel_shares(evidence) if each.value > limits["share"]]
        if sites:
            yield self._finding(evidence, sites, limits)

    def _finding(self, evidence: Evidence, sites: Sequence[RatedSite], limits: Limits) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        is_dominant = worst.value > limits["dominant"]
        passed = limits["dominant" if is_dominant else "share"]
        channel = evidence.measurements.norms[worst.id].dominant_channel
        more = (
            f"; one channel does so at {count(len(sites), 'norm')} in all, {describe_places(sites)}"
        )
        return self.finding(
            f"channel {channel} holds {number(100 * worst.value)} % of the input's energy at the "
            f"median token (threshold {number(100 * passed)} %) at {worst.id}"
            f"{more if len(sites) > 1 else ''}",
            ids=site_ids(ranked),
            severity="warning" if is_dominant else "info",
            confidence="high",
            measured=(worst.value, passed),
            advice="quantise per channel, standardise channels before comparing tokens; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _channel_shares(evidence: Evidence) -> Iterator[RatedSite]:
    for norm in evidence.architecture.norms:
        seen = evidence.measurements.norms.get(norm.id)
        if seen is not None and seen.channel_share is not None and norm.features >= MIN_FEATURES:
            yield rate_site(norm, seen.channel_share)
