"""ND702 square-overflow."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count, number
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
    """A norm squares its input in float16, and the squares do not fit.

    ## What it does

    Names norms that are written out, take their squares in float16, and saw values beyond 256: an
    error, for the run itself went wrong there. Where a float16 checkpoint was run in a wider
    format, norms whose squares would not fit are named for information: whether a float16 run
    squares in float16 cannot be seen in another.

    ## Why it matters

    256^2 is 65536, more than float16 has. The mean of the squares is then infinite, the norm
    divides by infinity, and what comes out is zero: finite, silent and wrong, for the very tokens
    that hold the largest values. Massive activations pass 256 in most language models.

    ## How it is measured

    The largest square of a written-out norm, and the format in which this run took it, as the
    operations show. Fused norms sum in float32 and are left out.

    ## Thresholds

    ## Example

    An RMSNorm that squares a float16 input with a value of 300; the same with a cast to float32
    before.

    ## How to fix

    Cast to float32 before squaring and back after the division, as Llama's norm does; or use the
    framework's fused norm.

    ## When it is wrong

    A finding for information says what would happen if the float16 run squared in float16. Run it
    with `--dtype float16` to know.

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
        """What went wrong in the run, else what would in a float16 checkpoint's own format."""
        seen = precision_measurement(evidence)
        if FORMAT not in seen.formats:
            return
        limit = seen.formats[FORMAT].largest
        squared = [
            rate_site(norm, _largest_square(evidence, norm))
            for norm in evidence.architecture.norms
            if seen.max_square.get(norm.id, 0.0) > limit
        ]
        here = [each for each in squared if seen.square_formats.get(each.id) == FORMAT]
        is_run = (evidence.subject.dtype or "").removeprefix("torch.") == FORMAT
        if here:
            yield self._finding(evidence, here, limit, is_seen=True)
        elif squared and not is_run and FORMAT in checkpoint_formats(evidence):
            yield self._finding(evidence, squared, limit, is_seen=False)

    def _finding(
        self, evidence: Evidence, sites: list[RatedSite], limit: float, *, is_seen: bool
    ) -> Finding:
        ranked = sort_worst_first(sites)
        worst = ranked[0]
        happens = (
            "overflows in the norm, which gives 0"
            if is_seen
            else f"overflows where it is squared in {FORMAT} itself"
        )
        return self.finding(
            f"x^2 is {number(worst.value)} at {worst.id} and {happens} (the largest {FORMAT} is "
            f"{number(limit)}); {count(len(sites), 'norm')}, {describe_places(sites)}",
            ids=site_ids(ranked),
            severity="error" if is_seen else "info",
            confidence="high" if is_seen else "medium",
            measured=(worst.value, limit),
            advice="cast to float32 before the square, or use a fused norm; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _largest_square(evidence: Evidence, norm: Norm) -> float:
    """The largest square: as computed, or from the input where that is infinite already."""
    found = precision_measurement(evidence).max_square[norm.id]
    x = precision_measurement(evidence).max_abs.get(norm.id)
    return x * x if math.isinf(found) and x is not None else found
