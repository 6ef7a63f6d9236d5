"""ND201 dead-gain."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
from normdiag.number_text import format_number, format_setting
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


class DeadGain(Rule):
    """Channels of a norm's gain are zero, so their input never passes.

    ## What it does

    Counts the gains of each norm that are zero, or zero relative to the others.

    ## Why it matters

    Such a channel outputs its bias, or 0 where there is none, for every token. What earlier layers
    wrote into it is lost after this norm, and no gradient returns through it. A few result from
    weight decay on unused channels; many result from a conversion that filled in zeros, a pruning
    mask that is still applied, or a missing `1 +` of `1 + w`.

    ## How it is measured

    From the effective gain gamma in the graph, including the 1 of `1 + w`. A gain is dead where its
    magnitude is at most 1e-6 of the median magnitude of the non-zero gains, about the rounding
    error of the others in float32. The share of dead channels is compared with the threshold.

    ## Thresholds

    ## Example

    In one of twelve norms 8 of 64 gains are zero.

    ## How to fix

    Compare the vector with the reference checkpoint. If it is equal, the channels can be pruned; if
    not, check how the conversion handles this tensor. To train the channels again, set them to the
    median and exclude gains from weight decay.

    ## When it is wrong

    Gains that are zero-initialised by design, such as the last norm of a branch, are dead until
    training has begun. Trained models have a few: one norm of all-MiniLM-L6-v2 has 3 of 384.

    ## References

    * Kovaleva et al., BERT Busters: Outlier Dimensions that Disrupt Transformers, Findings of ACL
      2021 (arXiv 2105.06990).
    * Goyal et al., Accurate, Large Minibatch SGD, 2017 (arXiv 1706.02677), section 5.1: gains that
      start at zero.
    """

    code = "ND201"
    name = "dead-gain"
    since = "0.1"
    requirements = ("gains",)
    thresholds = (
        Threshold(
            name="share",
            unit="share of channels",
            default=0.125,
            meaning="a share of dead gains above this is a warning, below it is info",
            source="our choice (2026), twice the largest share of a trained model: 15 of 256 are "
            "reported of q/k norms of a Gemma-like one; all-MiniLM-L6-v2 has 3 of 384",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/gains.py:build_dead"
    silent_on = "sample_models/gains.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per severity."""
        limit = limits["share"]
        sites = sort_worst_first(
            rate_site(norm, norm.gain.dead / max(1, norm.features))
            for norm in evidence.architecture.norms
            if norm.gain is not None and norm.gain.dead
        )
        many = tuple(each for each in sites if each.value > limit)
        rest = tuple(each for each in sites if each.value <= limit)
        if many:
            yield self._finding(evidence, many, "warning", limit)
        if rest:
            yield self._finding(evidence, rest, "info", 0.0)

    def _finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], severity: Severity, limit: float
    ) -> Finding:
        worst = sites[0]
        norm = find_norm(evidence, worst)
        dead = norm.gain.dead if norm.gain else 0
        return self.finding(
            f"{dead} of {norm.features} gains are dead (share {format_number(worst.value)}, "
            f"threshold "
            f"{format_setting(limit)}) {describe_sites(sites, 'norm')}; these channels output "
            f"{'their bias' if norm.bias_rms else '0'}",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=f"compare the gain of {worst.id} with the reference checkpoint; "
            f"{trace_hint(evidence, worst.id)}",
        )
