"""ND403 overwriting-branch."""

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


class OverwritingBranch(Rule):
    """A branch writes so much that little of the stream before it is left.

    ## What it does

    Names the residual adds, from the second layer on, where the branch is many times as large as
    the stream that it is added to.

    ## Why it matters

    A residual stack works because each layer adds to what is there. Where one write drowns what all
    layers before have written, the skip path is cut: those layers are dead for the output and get
    next to no gradient, and the next norm divides what they wrote by the size of the newcomer.

    ## How it is measured

    Per add the update ratio ||u|| / ||x||, u being what is added, all scales included; the median
    over tokens, so that a massive activation at one token does not count. In the first layer a
    large ratio is usual: embeddings are small, and the first branches make the stream.

    ## Thresholds

    ## Example

    The last weights of block 6 of 12 are 100 times as large as those of the others.

    ## How to fix

    Look for a branch scale or an output norm that was lost (`residual_multiplier`, a sandwich
    norm), for a skip scale that was dropped, or for weights that are off by a factor: a doubled
    `1 + w`, a merge with a weight above 1. In training: a norm on what the branch writes, or
    smaller last weights.

    ## When it is wrong

    Some models rebuild the stream on purpose in one layer, encoders mostly in their last: the last
    branch of MiniLM writes 2.8 times the stream.

    ## References

    * De and Smith, Batch Normalization Biases Residual Blocks Towards the Identity Function in Deep
      Networks, NeurIPS 2020 (arXiv 2002.10444).
    """

    code = "ND403"
    name = "overwriting-branch"
    since = "0.1"
    requirements = ("measurements.stream",)
    thresholds = (
        Threshold(
            name="update_ratio",
            unit="||u|| / ||x||",
            default=10,
            meaning="a branch that writes more than this, for the median token, overwrites",
            source="the stream is then below sqrt(1 %) of the branch: less than 1 % of the energy "
            "of the sum was there before. Past the first layer the largest are 0.9 in SmolLM2, "
            "1.4 in an ALBERT, 2.8 in MiniLM",
            low=1.0,
        ),
    )
    fires_on = "sample_models/overwriting_branch.py:build"
    silent_on = "sample_models/overwriting_branch.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        measured = evidence.measurements.stream
        for stack in evidence.architecture.stacks:
            sites = [
                rate_site(add, measured[add.id].update_ratio.median)
                for add in evidence.architecture.residual_adds
                if add.stack == stack.id and add.layer > 0 and add.id in measured
            ]
            sites = [each for each in sites if each.value > limits["update_ratio"]]
            if sites:
                yield self._finding(evidence, sites, limits)

    def _finding(self, evidence: Evidence, sites: Sequence[RatedSite], limits: Limits) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        left = 1 / (1 + worst.value**2)
        more = f", and at {count(len(sites), 'add')} in all, {describe_places(sites)}"
        return self.finding(
            f"the branch is {number(worst.value)} times the stream that it is added to (threshold "
            f"{number(limits['update_ratio'])}), for the median token, at {worst.id}: of the sum "
            f"{number(100 * left)} % was there before{more if len(sites) > 1 else ''}",
            ids=site_ids(ranked),
            severity="warning",
            confidence="high",
            measured=(worst.value, limits["update_ratio"]),
            advice="look for a lost branch scale or output norm, or weights that are off by a "
            f"factor; {trace_hint(evidence, worst.id)}",
        )
