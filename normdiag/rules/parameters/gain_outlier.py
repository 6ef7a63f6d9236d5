"""ND202 gain-outlier."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gains import Gain
from normdiag.findings import Finding, Severity
from normdiag.number_text import format_number, format_setting
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
    """One gain of a norm is many times as large as the median gain.

    ## What it does

    Reports norms with a large ratio of max |gamma| to median |gamma|, and the channel.

    ## Why it matters

    That channel dominates the norm's output. With one scale per tensor, 8-bit activations have no
    resolution left for the others; in half precision they are rounded. The branch after the norm
    depends on one channel: a corrupted value in the checkpoint or a failed optimiser step looks
    like this.

    ## How it is measured

    max |gamma| / median |gamma| over the channels of the effective gain in the graph.

    ## Thresholds

    ## Example

    One gain of 300 among 63 of 0.05.

    ## How to fix

    Compare the vector with the reference checkpoint and with the same channel of neighbouring
    norms: an outlier in all layers was learned, an isolated one probably was not. Before
    quantising, fold the gain into the weights after the norm (SmoothQuant) or use one scale per
    channel.

    ## When it is wrong

    Language models learn such channels and depend on them: zeroing two of BERT-base's costs tens of
    points. They then matter for quantisation but are not a defect.

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
            default=2048,
            meaning="a ratio above this is a warning",
            source="float16 has 11 bits: a typical channel is rounded away in a sum with the "
            "outlier (IEEE 754-2019); 172 is reported of a Gemma-like model that works",
            low=1.0,
        ),
        Threshold(
            name="ratio_notable",
            unit="max |gamma| / median |gamma|",
            default=20,
            meaning="a ratio above this is info",
            source="our choice (2026), above most norms of trained models",
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
            f"max |gamma| is {format_number(worst.value)} times the median (threshold "
            f"{format_setting(limit)}) {describe_sites(sites, 'norm')}: "
            f"{_describe_gain(norm, norm.gain)}",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=f"compare the gain of {worst.id} with the reference checkpoint; quantise this "
            f"norm's "
            f"output per channel; {trace_hint(evidence, worst.id)}",
        )


def _describe_gain(norm: Norm, gain: Gain | None) -> str:
    if gain is None or gain.median_abs is None:
        return ""
    channel = "" if gain.max_channel is None else f" in channel {gain.max_channel}"
    return f"{format_number(gain.max_abs)}{channel}, median {format_number(gain.median_abs)}"
