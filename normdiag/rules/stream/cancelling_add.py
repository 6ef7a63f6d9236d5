"""ND404 cancelling-add."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.stream import AddMeasurement
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


class CancellingAdd(Rule):
    """A branch writes nearly minus the stream, so that the sum all but vanishes.

    ## What it does

    Names the residual adds whose branch points against the stream and is about as long.

    ## Why it matters

    What all layers before have written is gone after one addition. The sum is the small difference
    of two large numbers: of their digits as many are lost as it is smaller, and the norm behind it
    multiplies what is left, rounding included, by the inverse. Its Jacobian grows by as much.

    ## How it is measured

    Per add ||y|| / ||x|| and cos(x, u), medians over tokens. Both are needed: a stream also gets
    shorter where a branch takes one large direction out of it, which is no cancellation.

    ## Thresholds

    ## Example

    Block 6 of 12 computes x + (-x + something small).

    ## How to fix

    Look for a sign (`x - F(x)` where the checkpoint means `x + F(x)`), for a skip that is added
    twice or subtracted inside the branch, or for a norm that was left out in front of the branch.
    In half precision, keep the stream in float32 there.

    ## When it is wrong

    A layer may take the stream off on purpose to put something else in its place (an interpolation
    x + a (F(x) - x) with a near 1).

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
            name="left",
            unit="||y|| / ||x||",
            default=0.25,
            meaning="an add that leaves less of the stream, for the median token, is reported",
            source="2^-2: two bits of every value are lost. The least that an add of SmolLM2 "
            "leaves is 0.98, of MiniLM and of an ALBERT more than all",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="cosine",
            unit="cos(x, u)",
            default=-0.9,
            meaning="and only where the branch points against the stream as straight as this",
            source="independent writes in H dimensions have 0 +- 1/sqrt(H)",
            low=-1.0,
            high=0.0,
        ),
    )
    fires_on = "sample_models/cancelling_add.py:build"
    silent_on = "sample_models/cancelling_add.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        measured = evidence.measurements.stream
        for stack in evidence.architecture.stacks:
            sites = [
                rate_site(add, -_remaining_share(measured[add.id]))
                for add in evidence.architecture.residual_adds
                if add.stack == stack.id
                and add.id in measured
                and _remaining_share(measured[add.id]) < limits["left"]
                and measured[add.id].cosine.median < limits["cosine"]
            ]
            if sites:
                yield self._finding(evidence, sites, limits)

    def _finding(self, evidence: Evidence, sites: Sequence[RatedSite], limits: Limits) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        left = -worst.value
        cosine = evidence.measurements.stream[worst.id].cosine.median
        bits = f", {-math.log2(left):.0f} bits of every value are gone" if left > 0 else ""
        more = f"; so do {count(len(sites), 'add')} in all, {describe_places(sites)}"
        return self.finding(
            f"{worst.id} leaves {number(left)} of the stream (threshold {number(limits['left'])}): "
            f"the branch has a cosine of {number(cosine)} with it{bits}"
            f"{more if len(sites) > 1 else ''}",
            ids=site_ids(ranked),
            severity="warning",
            confidence="high",
            measured=(left, limits["left"]),
            advice="look for a wrong sign, or a skip that the branch takes off again; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _remaining_share(seen: AddMeasurement) -> float:
    return math.nan if seen.out_ratio is None else seen.out_ratio.median
