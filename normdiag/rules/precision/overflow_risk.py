"""ND701 overflow-risk."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.precision import Remedy
from normdiag.findings import Finding, Severity
from normdiag.number_text import format_count, format_factor, format_number, format_setting
from normdiag.rules.number_formats import checkpoint_formats, precision_measurement
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, sort_worst_first
from normdiag.rules.thresholds import Limits, Threshold

FORMAT = "float16"


class OverflowRisk(Rule):
    """Values exceed the range of float16 or come close to it.

    ## What it does

    Reports residual adds, and products and contractions on their branches, whose largest |value|
    exceeds the largest float16 number, 65504; for a float16 model also those close to it. It is a
    warning where the model is stored or run in float16, info otherwise.

    ## Why it matters

    One infinity makes the next norm and everything downstream NaN. A model trained in bfloat16 or
    float32 has no reason to stay below 65504, and the stream of Gemma 3 does not.

    ## How it is measured

    The largest |value| over all tokens, in the format of the run: of x, u and y = x + u at every
    add, and of elementwise products of two activations and matrix products on every branch. Values
    that overflowed in the run itself are reported by ND705.

    ## Thresholds

    ## Example

    A float32 stream that reaches 90000; the same with 900.

    ## How to fix

    Run it in bfloat16. Or scale the stream down by the power of two in the finding: multiply the
    embedding and everything that branches write (output projections with their biases, or the gains
    of output norms) by it. Where every reader of the stream is a norm this changes only the share
    of epsilon, which the finding states; with epsilon times the square of that power nothing
    changes. Or keep the stream in float32 from the reported layer on. For a product inside a
    branch, divide one factor's weights by a power of two and multiply the next matrix by it.

    ## When it is wrong

    The inputs are a small sample: larger values may occur. A kernel may accumulate in float32 and
    clamp.

    ## References

    * IEEE 754-2019: the largest finite number of binary16 is (2 - 2^-10) 2^15 = 65504.
    * Gemma 3 in float16: github.com/huggingface/transformers, issue 36822 (2025).
    * T5 in float16: github.com/huggingface/transformers, issue 4586 (2020).
    """

    code = "ND701"
    name = "overflow-risk"
    since = "0.1"
    requirements = ("measurements.precision",)
    thresholds = (
        Threshold(
            name="headroom",
            unit="65504 / max |value|",
            default=1.0,
            meaning="a headroom below this is reported",
            source="IEEE 754-2019; 1 is the limit of the format",
            low=0.0,
            is_lower=True,
        ),
        Threshold(
            name="headroom_notable",
            unit="65504 / max |value|",
            default=2.0,
            meaning="a headroom of a float16 model below this is info",
            source="2^1, one binade of reserve: the inputs may not contain the largest values",
            low=0.0,
            is_lower=True,
        ),
    )
    fires_on = "sample_models/large_stream.py:build"
    silent_on = "sample_models/large_stream.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """At most one finding per stack, and one for values inside the branches."""
        if FORMAT not in precision_measurement(evidence).formats:
            return
        is_half = FORMAT in checkpoint_formats(evidence)
        largest = precision_measurement(evidence).formats[FORMAT].largest
        limit = _find_limit(largest, limits["headroom"])
        findings = list(self._findings_beyond(evidence, limit, "warning" if is_half else "info"))
        has_overflowed = evidence.measurements.first_nonfinite is not None
        if is_half and not findings and not has_overflowed:  # ND705 reports that
            notable = _find_limit(largest, limits["headroom_notable"])
            findings = list(self._findings_beyond(evidence, notable, "info"))
        yield from findings

    def _findings_beyond(
        self, evidence: Evidence, limit: float, severity: Severity
    ) -> Iterator[Finding]:
        for stack in evidence.architecture.stacks:
            adds = [each for each in _largest_at_adds(evidence, stack.id) if each.value > limit]
            if adds:
                remedy = precision_measurement(evidence).formats[FORMAT].remedies.get(stack.id)
                advice = _stream_advice(stack.id, remedy)
                yield self._finding(evidence, adds, (limit, severity), advice)
        inner = [each for each in _largest_in_branches(evidence) if each.value > limit]
        if inner:
            yield self._finding(evidence, inner, (limit, severity), _branch_advice(inner, limit))

    def _finding(
        self, evidence: Evidence, sites: list[RatedSite], how: tuple[float, Severity], advice: str
    ) -> Finding:
        limit, severity = how
        largest = precision_measurement(evidence).formats[FORMAT].largest
        ranked = sort_worst_first(sites)
        first, worst = sites[0], ranked[0]
        layer = "" if first.layer is None else f", layer {first.layer}"
        up = f", up to {format_number(worst.value)} at {worst.id}" if worst is not first else ""
        more = (
            f"; {format_count(len(sites), 'site')} in all, {describe_places(sites)}"
            if len(sites) > 1
            else ""
        )
        return self.finding(
            f"max |value| is {_describe_size(first, largest)} at {first.id}{layer}{up}{more}",
            ids=site_ids(ranked),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=advice,
        )


def _find_limit(largest: float, headroom: float) -> float:
    """The value above which the headroom is below `headroom`; a finite one is never below 0."""
    return largest / headroom if headroom > 0 else math.inf


def _largest_at_adds(evidence: Evidence, stack: str) -> Iterator[RatedSite]:
    """The adds of a stack in order, with the largest value at each that is finite."""
    values = precision_measurement(evidence).max_abs
    for add in evidence.architecture.adds_of_stack(stack):
        if math.isfinite(values.get(add.id, math.inf)):
            yield rate_site(add, values[add.id])


def _largest_in_branches(evidence: Evidence) -> Iterator[RatedSite]:
    """The products and contractions inside the branches, with their largest finite values."""
    for peak in precision_measurement(evidence).inner_peaks:
        if math.isfinite(peak.value):
            yield RatedSite(id=peak.id, value=peak.value, stack=None, layer=None)


def _describe_size(each: RatedSite, largest: float) -> str:
    factor = format_factor(each.value / largest)
    return f"{format_number(each.value)} ({factor} {format_setting(largest)}, the largest {FORMAT})"


def _stream_advice(stack: str, remedy: Remedy | None) -> str:
    if remedy is None:
        return "run it in bfloat16, or scale the stream down by a power of two"
    stay = f"keep the stream of {stack} in float32 from layer {remedy.layer} on"
    if remedy.factor is None:
        return f"run it in bfloat16, or {stay}: not every reader of the stream begins with a norm"
    power = round(math.log2(remedy.factor))
    share = ""
    if remedy.eps_share is not None and math.isfinite(remedy.eps_share.max):
        share = (
            f" (eps share at most {format_number(remedy.eps_share.max)}; unchanged with epsilon "
            f"times 2^{2 * power})"
        )
    return (
        f"run it in bfloat16; or multiply the embedding and all branch outputs of {stack} by "
        f"{format_setting(remedy.factor)} = 2^{power}, which its norms cancel{share}; or {stay}"
    )


def _branch_advice(sites: list[RatedSite], limit: float) -> str:
    excess = math.log2(max(each.value for each in sites)) - math.log2(limit)
    power = max(1, math.ceil(excess) + 1)
    return (
        f"run it in bfloat16, or scale one factor's weights by 2^-{power} and the next matrix by "
        f"2^{power}, if only products lie between them"
    )
