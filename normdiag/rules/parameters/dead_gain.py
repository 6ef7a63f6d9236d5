"""ND201 dead-gain."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
from normdiag.rules.number import number
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
    """Channels of a norm's gain are zero: what the input says there never gets through.

    ## What it does

    Counts the gains of each norm that are zero, or so far below its others that they act as zero.

    ## Why it matters

    Such a channel hands on its bias, whatever the token is. Everything that earlier layers wrote
    into it is lost behind this norm, and no gradient comes back through it. A few are what weight
    decay on a gain leaves of channels that nobody needed; many are a conversion that filled in
    zeros, a pruning mask that was left on, or a `1 + w` that is missing.

    ## How it is measured

    The effective gain gamma as found in the graph, so with the 1 of `1 + w`. A gain is dead where
    its size is at most 1e-6 of the median size of the gains that are not zero: in float32 it is
    then below what rounds off of the others. The share of dead channels is compared with the
    threshold.

    ## Thresholds

    ## Example

    One norm of twelve has lost 8 of its 64 gains.

    ## How to fix

    Compare the vector with the original's. If it is the same there, the channels can be pruned; if
    not, look at what the conversion does with this tensor. To train them again, set them to the
    median and leave gains out of weight decay.

    ## When it is wrong

    Gains that start at zero on purpose, as the last norm of a branch sometimes does, are dead until
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
            default=0.01,
            meaning="a larger share of dead gains is a warning, a smaller one is mentioned",
            source="our choice (2026): all-MiniLM-L6-v2, which is sound, has 3 of 384 at its last "
            "norm; SmolLM2-135M and RXNMapper's ALBERT have none",
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
        few = tuple(each for each in sites if each.value <= limit)
        if many:
            yield self._finding(evidence, many, "warning", limit)
        if few:
            yield self._finding(evidence, few, "info", 0.0)

    def _finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], severity: Severity, limit: float
    ) -> Finding:
        worst = sites[0]
        norm = find_norm(evidence, worst)
        dead = norm.gain.dead if norm.gain else 0
        return self.finding(
            f"{dead} of {norm.features} gains dead (share {number(worst.value)}, threshold "
            f"{number(limit)}) {describe_sites(sites, 'norm')}: these channels hand on their bias alone",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=f"compare the gain of {worst.id} with the original's; {trace_hint(evidence, worst.id)}",
        )
