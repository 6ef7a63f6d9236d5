"""ND404 cancelling-add."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.stream import AddMeasurement
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
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


class CancellingAdd(Rule):
    """A branch cancels the stream: u is close to -x.

    ## What it does

    Reports residual adds whose update is opposite to the stream and of similar norm.

    ## Why it matters

    The writes of all earlier layers are removed by one addition. The sum is a small difference of
    large numbers: digits are lost in proportion, and the next norm scales the remainder, rounding
    error included, back up. Its Jacobian grows by the same factor.

    ## How it is measured

    Per add ||y|| / ||x|| and cos(x, u), medians over tokens. Both are required: a stream also
    shrinks where a branch removes one large direction, which is not cancellation.

    ## Thresholds

    ## Example

    Block 6 of 12 computes x + (-x + something small).

    ## How to fix

    Look for a sign (`x - F(x)` where the checkpoint means `x + F(x)`), for a skip that is added
    twice or subtracted inside the branch, or for a missing norm at the branch input. In half
    precision, keep the stream in float32 there.

    ## When it is wrong

    A layer may replace the stream by design (an interpolation x + a (F(x) - x) with a near 1).

    ## References

    * Liu et al., Understanding the Difficulty of Training Transformers, EMNLP 2020 (arXiv
      2004.08249).
    """

    code = "ND404"
    name = "cancelling-add"
    since = "0.1"
    requirements = ("measurements.stream",)
    thresholds = (
        Threshold(
            name="out_ratio",
            unit="||y|| / ||x||",
            default=0.25,
            meaning="a median of ||y|| / ||x|| below this is reported",
            source="2^-2: two bits of every value are lost",
            low=0.0,
            high=1.0,
            is_lower=True,
        ),
        Threshold(
            name="cosine",
            unit="cos(x, u)",
            default=-0.9,
            meaning="largest median cosine at which an add is reported",
            source="independent writes in H dimensions have 0 ± 1/sqrt(H) (standard deviation)",
            low=-1.0,
            high=0.0,
            is_lower=True,
        ),
    )
    fires_on = "sample_models/cancelling_add.py:build"
    silent_on = "sample_models/cancelling_add.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        measured = evidence.measurements.stream
        for stack in evidence.architecture.stacks:
            sites = [
                rate_site(add, -_median_out_ratio(measured[add.id]))
                for add in evidence.architecture.adds_of_stack(stack.id)
                if add.id in measured
                and _median_out_ratio(measured[add.id]) < limits["out_ratio"]
                and measured[add.id].cosine.median < limits["cosine"]
            ]
            if sites:
                yield self._finding(evidence, sites, limits)

    def _finding(self, evidence: Evidence, sites: Sequence[RatedSite], limits: Limits) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        ratio = -worst.value
        cosine = evidence.measurements.stream[worst.id].cosine.median
        bits = f", {-math.log2(ratio):.0f} bits of every value are lost" if ratio > 0 else ""
        more = f"; {format_count(len(sites), 'add')} in all, {describe_places(sites)}"
        return self.finding(
            f"||y|| / ||x|| is {format_number(ratio)} at {worst.id} (median over tokens, threshold "
            f"{format_setting(limits['out_ratio'])}), cos(x, u) is {format_number(cosine)}{bits}"
            f"{more if len(sites) > 1 else ''}",
            ids=site_ids(ranked),
            severity="warning",
            confidence="high",
            measured=(ratio, limits["out_ratio"]),
            advice="look for a wrong sign, or a skip that is subtracted inside the branch; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _median_out_ratio(measurement: AddMeasurement) -> float:
    return math.nan if measurement.out_ratio is None else measurement.out_ratio.median
