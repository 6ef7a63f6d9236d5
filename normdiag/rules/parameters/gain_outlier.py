"""ND202 gain-outlier."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import Gain, Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
from normdiag.rules.number import number
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_sites,
    find_norm,
    grade_sites,
    rate_site,
    site_ids,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold


class GainOutlier(Rule):
    """One gain of a norm is many times as large as the others.

    ## What it does

    Names norms whose largest |gamma| stands far above their median |gamma|, and the channel.

    ## Why it matters

    That channel rules what the norm puts out. With one scale for the whole tensor, 8-bit
    activations have nothing left for the others; in half precision they are what gets rounded. And
    the branch behind it depends on one channel of one vector: a single damaged number of the
    checkpoint, or an optimiser step that went astray, looks like this.

    ## How it is measured

    max |gamma| / median |gamma| over the channels of the effective gain, as found in the graph.

    ## Thresholds

    ## Example

    One gain of 300 among 63 of 0.05.

    ## How to fix

    Compare the vector with the original's, and with the same channel of the neighbouring norms: an
    outlier that runs through all layers was learned, one that stands alone was not. Before
    quantising, move the gain into the weights behind the norm (SmoothQuant) or give the tensor a
    scale per channel.

    ## When it is wrong

    Language models learn such channels and need them: zeroing two of BERT-base's costs it tens of
    points. Then it is a fact to know before quantising, not a fault.

    ## References

    * Kovaleva et al., BERT Busters: Outlier Dimensions that Disrupt Transformers, Findings of ACL
      2021 (arXiv 2105.06990).
    * Wei et al., Outlier Suppression: Pushing the Limit of Low-bit Transformer Language Models,
      NeurIPS 2022 (arXiv 2209.13325): the gain makes the outliers.
    * Xiao et al., SmoothQuant, ICML 2023 (arXiv 2211.10438).
    """

    code = "ND202"
    name = "gain-outlier"
    since = "0.1"
    requirements = ("gains",)
    thresholds = (
        Threshold(
            name="ratio",
            unit="max |gamma| / median |gamma|",
            default=127,
            meaning="a larger ratio is a warning",
            source="with one 8-bit scale for all channels a typical channel has one of 127 levels "
            "left: symmetric int8 reaches 2^7 - 1",
            low=1.0,
        ),
        Threshold(
            name="ratio_notable",
            unit="max |gamma| / median |gamma|",
            default=20,
            meaning="a larger ratio is mentioned",
            source="our choice (2026): of the 99 norms of SmolLM2-135M, all-MiniLM-L6-v2 and "
            "RXNMapper's ALBERT one reaches 14, all others stay below 5",
            low=1.0,
        ),
    )
    fires_on = "sample_models/gains.py:build_outlier"
    silent_on = "sample_models/gains.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per severity."""
        ratios = (
            rate_site(norm, norm.gain.max_abs / norm.gain.median_abs)
            for norm in evidence.architecture.norms
            if norm.gain is not None and norm.gain.median_abs
        )
        for sites, severity, limit in grade_sites(ratios, limits["ratio"], limits["ratio_notable"]):
            yield self._finding(evidence, sites, severity, limit)

    def _finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], severity: Severity, limit: float
    ) -> Finding:
        worst = sites[0]
        norm = find_norm(evidence, worst)
        return self.finding(
            f"the largest |gain| is {number(worst.value)} times the median (threshold "
            f"{number(limit)}) {describe_sites(sites, 'norm')}: {_describe_gain(norm, norm.gain)}",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=f"compare the gain of {worst.id} with the original's; quantise this norm's "
            f"output per channel; {trace_hint(evidence, worst.id)}",
        )


def _describe_gain(norm: Norm, gain: Gain | None) -> str:
    if gain is None or gain.median_abs is None:
        return ""
    channel = "" if gain.max_channel is None else f" in channel {gain.max_channel}"
    return f"{number(gain.max_abs)}{channel} beside {number(gain.median_abs)}"
