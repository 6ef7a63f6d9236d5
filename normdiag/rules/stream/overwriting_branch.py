"""ND403 overwriting-branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_percent, format_setting
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
    """A branch overwrites the stream: its update is many times as large.

    ## What it does

    Reports residual adds, from the second layer on, whose update u is many times as large as the
    stream x.

    ## Why it matters

    In a residual stack each layer adds to the stream. Where one update dominates the writes of all
    earlier layers, the skip path is effectively cut: the earlier layers hardly affect the output
    and receive hardly any gradient, and the next norm scales their writes down.

    ## How it is measured

    Per add the update ratio ||u|| / ||x||, with u as added, all scales included; the median over
    tokens, so that a massive activation at one token does not count. In the first layer a large
    ratio is common, since embeddings are small.

    ## Thresholds

    ## Example

    The last weights of block 6 of 12 are 100 times as large as those of the others.

    ## How to fix

    Look for a missing branch scale or output norm (`residual_multiplier`, a sandwich norm), a
    missing skip scale, or weights that are wrong by a factor: a doubled `1 + w`, a merge with a
    weight above 1. In training: a norm on the branch output, or smaller last weights.

    ## When it is wrong

    Some models rewrite the stream in one layer by design, encoders mostly in their last: the update
    ratio of MiniLM's last branch is 2.8.

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
            meaning="a median update ratio above this is reported",
            source="sqrt(1 / 100): x then holds less than 1 % of the energy of the sum",
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
                for add in evidence.architecture.adds_of_stack(stack.id)
                if add.layer > 0 and add.id in measured
            ]
            sites = [each for each in sites if each.value > limits["update_ratio"]]
            if sites:
                yield self._finding(evidence, sites, limits)

    def _finding(self, evidence: Evidence, sites: Sequence[RatedSite], limits: Limits) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        remaining = 1 / (1 + worst.value**2)
        more = f", and at {format_count(len(sites), 'add')} in all, {describe_places(sites)}"
        return self.finding(
            f"||u|| / ||x|| is {format_number(worst.value)} at {worst.id} (median over tokens, "
            f"threshold {format_setting(limits['update_ratio'])}): x holds "
            f"{format_percent(remaining)} of "
            f"the energy of the sum{more if len(sites) > 1 else ''}",
            ids=site_ids(ranked),
            severity="warning",
            confidence="high",
            measured=(worst.value, limits["update_ratio"]),
            advice="look for a missing branch scale or output norm, or weights that are wrong by a "
            f"factor; {trace_hint(evidence, worst.id)}",
        )
