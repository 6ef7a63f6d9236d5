"""ND106 narrow-norm."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_sites,
    find_norm,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold

REMOVED = {"layernorm": 2, "groupnorm": 2, "rmsnorm": 1, "l2norm": 1}
"""Directions that a norm removes: the scale, and the mean where it is subtracted."""


class NarrowNorm(Rule):
    """A norm over so few features that it removes a large part of its input.

    ## What it does

    Reports norms over few elements, with the share of directions that they remove.

    ## Why it matters

    LayerNorm projects out the mean and the size: of H features H - 2 directions stay. At H = 4 half
    of the directions are removed, at H = 2 only the order of the two values remains, and at H = 1
    the output is the bias. An RMSNorm keeps H - 1, at H = 1 the sign. Typical cases are group norms
    with few channels at one position and per-head norms in small models.

    ## How it is measured

    From the number of elements H of one statistic: the share of directions that the norm removes,
    2/H for LayerNorm and GroupNorm, 1/H for RMSNorm and L2 norms.

    ## Thresholds

    ## Example

    A LayerNorm over 4 features.

    ## How to fix

    Normalise over more features: the whole stream instead of one head, or fewer groups. Remove the
    norm where the features are few by design.

    ## When it is wrong

    Norms of an intended low rank (the step sizes of a state space model), and the last stage of an
    image model run on a small image, where a group has one position left.

    ## References

    * Gupta et al., Geometric Interpretation of Layer Normalization and a Comparative Analysis with
      RMSNorm, 2024 (arXiv 2409.12951).
    * Brody et al., On the Expressivity Role of LayerNorm in Transformers' Attention, Findings of
      ACL 2023 (arXiv 2305.02582).
    """

    code = "ND106"
    name = "narrow-norm"
    since = "0.1"
    requirements = ("architecture.norms",)
    thresholds = (
        Threshold(
            name="removed_share",
            unit="share of directions",
            default=0.25,
            meaning="a removed share above this is a warning",
            source="our choice (2026): LayerNorm below 8 features, RMSNorm below 4; heads of 8 "
            "features, the smallest in use, stay below",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/other_axes.py:build_narrow"
    silent_on = "sample_models/other_axes.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding."""
        limit = limits["removed_share"]
        sites: tuple[RatedSite, ...] = sort_worst_first(
            rate_site(norm, min(1.0, REMOVED[norm.kind] / max(1, norm.features)))
            for norm in evidence.architecture.norms
            if norm.kind in REMOVED and REMOVED[norm.kind] > limit * norm.features
        )
        if not sites:
            return
        worst = sites[0]
        norm = find_norm(evidence, worst)
        yield self.finding(
            f"a norm over {format_count(norm.features, 'feature')} removes "
            f"{format_number(worst.value)} of all "
            f"directions (threshold {format_setting(limit)}) {describe_sites(sites, 'norm')} "
            f"({norm.kind})",
            ids=site_ids(sites),
            severity="warning",
            confidence="high",
            measured=(worst.value, limit),
            advice=f"normalise over more features, or remove the norm; "
            f"{trace_hint(evidence, worst.id)}",
        )
