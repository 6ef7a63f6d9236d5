"""ND702 square-overflow."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.number_formats import checkpoint_formats, precision_measurement
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_places,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits

FORMAT = "float16"


class SquareOverflow(Rule):
    """A norm squares its input in float16 and the squares overflow.

    ## What it does

    Reports composed (unfused) norms that square values beyond 256 in float16, an error of the run
    itself. Where a float16 checkpoint was run in a wider format, norms whose squares exceed 65504
    are info: whether a float16 run would square in float16 cannot be observed in another format.

    ## Why it matters

    256^2 = 65536 exceeds the range of float16. The mean of squares is then infinite and the norm's
    output is zero: finite but wrong, at the tokens with the largest values. Massive activations
    exceed 256 in most language models.

    ## How it is measured

    The largest square of each composed norm and the format of that operation in this run. Fused
    norms accumulate in float32 and are excluded.

    ## Thresholds

    ## Example

    An RMSNorm that squares a float16 input with a value of 300; the same after a cast to float32.

    ## How to fix

    Cast to float32 before squaring and back after the division, as Llama's norm does; or use the
    framework's fused norm.

    ## When it is wrong

    An info finding assumes that the float16 run squares in float16. Run with `--dtype float16` to
    check.

    ## References

    * IEEE 754-2019: the largest finite number of binary16 is 65504.
    * T5's norm casts to float32 for this reason: github.com/huggingface/transformers, pull request
      9487 (2021).
    """

    code = "ND702"
    name = "square-overflow"
    since = "0.1"
    requirements = ("measurements.precision",)
    fires_on = "sample_models/half_square.py:build"
    silent_on = "sample_models/half_square.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding: squares that overflowed in the run, else those that would in float16."""
        precision = precision_measurement(evidence)
        if FORMAT not in precision.formats:
            return
        limit = precision.formats[FORMAT].largest
        squared = [
            rate_site(norm, _largest_square(evidence, norm))
            for norm in evidence.architecture.norms
            if precision.max_square.get(norm.id, 0.0) > limit
        ]
        here = [each for each in squared if precision.square_formats.get(each.id) == FORMAT]
        is_run = (evidence.subject.dtype or "").removeprefix("torch.") == FORMAT
        if here:
            yield self._finding(evidence, here, limit, is_observed=True)
        elif squared and not is_run and FORMAT in checkpoint_formats(evidence):
            yield self._finding(evidence, squared, limit, is_observed=False)

    def _finding(
        self, evidence: Evidence, sites: list[RatedSite], limit: float, *, is_observed: bool
    ) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        happens = (
            "overflows in the norm, whose output is 0"
            if is_observed
            else f"would overflow if it is squared in {FORMAT}"
        )
        return self.finding(
            f"max x^2 is {format_number(worst.value)} at {worst.id} and {happens} (the largest "
            f"{FORMAT} is "
            f"{format_setting(limit)}); {format_count(len(sites), 'norm')}, "
            f"{describe_places(sites)}",
            ids=site_ids(ranked),
            severity="error" if is_observed else "info",
            confidence="high" if is_observed else "medium",
            measured=(worst.value, limit),
            advice="cast to float32 before the square, or use a fused norm; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _largest_square(evidence: Evidence, norm: Norm) -> float:
    """The largest square as computed, or from the input where that overflowed."""
    square = precision_measurement(evidence).max_square[norm.id]
    x = precision_measurement(evidence).max_abs.get(norm.id)
    return x * x if math.isinf(square) and x is not None else square
