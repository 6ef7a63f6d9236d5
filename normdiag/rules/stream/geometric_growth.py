"""ND401 geometric-growth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.record import record
from normdiag.evidence.stream import Growth
from normdiag.findings import Confidence, Finding, Severity
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import trace_hint
from normdiag.rules.thresholds import Limits, Threshold
from normdiag.rules.typical_growth import is_normless, typical_growth

SURE, LONG = 0.95, 12
"""The Akaike weight and the number of adds from which the confidence is high."""
HALF = 0.5
"""The largest share of the growth that one add may contribute; above it, it is a jump."""


@record
class GrowthRate:
    """The factor per add, its lower bound, the fitted law, and the confidence."""

    value: float
    least: float
    law: str
    confidence: Confidence


@record
class _Passed:
    """The highest thresholds that a stack is beyond."""

    rate: float
    total: float
    is_severe: bool

    @classmethod
    def find(cls, rate: GrowthRate, total: float, limits: Limits) -> _Passed:
        """Of the rate and of the total, that of a warning where it is passed."""
        is_fast, is_large = rate.least > limits["rate_high"], total > limits["total"]
        return cls(
            rate=limits["rate_high" if is_fast else "rate"],
            total=limits["total" if is_large else "total_notable"],
            is_severe=is_fast or is_large,
        )


class GeometricGrowth(Rule):
    """The stream norm grows geometrically with depth.

    ## What it does

    Reports stacks whose ||y|| grows by a large constant factor per residual add, over a large
    range.

    ## Why it matters

    A sum of independent updates grows as a square root. In a stream that grows geometrically the
    branches write in proportion to their input, or weights grow with depth: late layers dominate
    early ones, and float16 overflows at 65504. The final norm hides it from the output.

    ## How it is measured

    Per add, ||y|| as the mean over tokens, position 0 left out (attention sinks live there). Laws
    are fitted to it: additive variance sqrt(1 + b l), geometric g^l, power and bounded; one is
    named where it describes every add and leads the others by the corrected Akaike criterion
    ([how often rightly](../growth-laws.md)). A leap, one add that changes the norm by far more than
    those around it, is no part of a law. The
    finding needs the geometric law, a factor above the threshold by twice its standard error, and
    a total, last add / first add apart from leaps, above the other threshold, in the mean and in
    the median over tokens, since a few massive activations (ND304) are not growth of the stream.

    Where the law is undecided, the factor is the mean, total^(1/(adds - 1)), no single add may
    contribute more than half of the growth, and the confidence is low.

    ## Thresholds

    ## Example

    48 blocks of x + fc(x) without any norm; the same with a norm in each branch.

    ## How to fix

    In training: normalise the branch input (pre-norm) or output (sandwich norm), or initialise the
    last weights of each branch smaller by 1/sqrt(2L). In a ported model: look for a missing branch
    scale or norm (`residual_multiplier`, `post_feedforward_layernorm`). For inference: bfloat16 or
    float32, since float16 ends at 65504.

    ## When it is wrong

    Trained models grow geometrically over a part of their depth, GPT-2 XL by 1.045 per layer, and
    some small ones far faster: Gemma 3 270M by 295 in all, 1.18 per add, and the total of 43 public
    models lies between 5 and 2747. Hence info up to 1e4 and up to 1.5 per add, unless the stack has
    no norm that could take the growth away. With few adds the law is uncertain: see `confidence`.

    ## References

    * Heimersheim and Turner, Residual stream norms grow exponentially over the forward pass,
      Alignment Forum 2023.
    * Kim et al., Peri-LN: Revisiting Normalization Layer in the Transformer Architecture, ICML 2025
      (arXiv 2502.02732).
    * Sun et al., The Curse of Depth in Large Language Models, NeurIPS 2025 (arXiv 2502.05795).
    """

    code = "ND401"
    name = "geometric-growth"
    since = "0.1"
    requirements = ("measurements.stream", "measurements.growth")
    thresholds = (
        Threshold(
            name="rate",
            unit="factor per add",
            default=1.12,
            meaning="a factor above this by twice its standard error is reported",
            source="the stream doubles every 6 adds. GPT-2 XL: 1.022 per add (Heimersheim and "
            "Turner 2023); a stack without norms at PyTorch's default weights, of "
            "variance 1/(3H): sqrt(1 + 1/3) = 1.155",
            low=1.0,
        ),
        Threshold(
            name="rate_high",
            unit="factor per add",
            default=1.5,
            meaning="a factor above this by twice its standard error is a warning",
            source="our choice (2026), above trained models: 1.18 in Gemma 3 270M; 2747 in all "
            "would be 1.39 over 24 adds",
            low=1.0,
        ),
        Threshold(
            name="total",
            unit="last add / first add",
            default=1e4,
            meaning="a total above this is a warning; without any norm, one above total_notable is",
            source="43 public models grow 5 to 2747 times (Zenodo 19275087, 2026); a stream that "
            "starts at 6.6 is at the end of float16, 65504",
            low=1.0,
        ),
        Threshold(
            name="total_notable",
            unit="last add / first add",
            default=30,
            meaning="a total above this is info",
            source="1.12 over 30 adds, 15 layers; OLMo 2, which is normed to grow slowly, reaches "
            "5 (survey of 43 models, Zenodo 19275087, 2026)",
            low=1.0,
        ),
    )
    fires_on = "sample_models/no_norm.py:build"
    silent_on = "sample_models/pre_norm.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        for stack in evidence.architecture.stacks:
            growth = evidence.measurements.growth.get(stack.id)
            adds = evidence.architecture.adds_of_stack(stack.id)
            if growth is None or len(adds) < 2:
                continue
            total = typical_growth(evidence, stack)
            if total is None or total <= limits["total_notable"]:
                continue
            rate = _estimate_rate(evidence, growth, adds, total)
            if rate.least > limits["rate"]:
                passed = _Passed.find(rate, total, limits)
                yield self._finding(evidence, stack, total, rate, passed)

    def _finding(
        self, evidence: Evidence, stack: Stack, total: float, rate: GrowthRate, passed: _Passed
    ) -> Finding:
        adds = evidence.architecture.adds_of_stack(stack.id)
        normless = "no branch has a norm: " if is_normless(stack) else ""
        apart = " apart from leaps" if evidence.measurements.growth[stack.id].leaps else ""
        severity: Severity = "warning" if passed.is_severe or normless else "info"
        return self.finding(
            f"{normless}||y|| in {stack.title} grows by a factor of {format_number(rate.value)} "
            f"per add (threshold {format_setting(passed.rate)}), {format_number(total)} in total"
            f"{apart} (of mean and median over tokens the smaller) over "
            f"{format_count(len(adds), 'add')} (threshold {format_setting(passed.total)}); "
            f"{rate.law}",
            ids=(stack.id,),
            severity=severity,
            confidence=rate.confidence,
            measured=(rate.value, passed.rate),
            advice=_advise_remedy(evidence, severity, normless=bool(normless))
            + trace_hint(evidence, max(adds, key=lambda add: add.depth).id),
        )


def _advise_remedy(evidence: Evidence, severity: Severity, *, normless: bool) -> str:
    """What to do, up to the hint at the trace."""
    if severity == "info":
        return "expected in trained models; it matters for float16 (ND701); "
    remedy = (
        "normalise the branch inputs"
        if normless
        else "look for a missing branch scale or output norm, or weights that grow with depth"
    )
    is_narrow = evidence.subject.dtype == "float16"
    return f"{remedy}; {'run it in bfloat16 or float32; ' if is_narrow else ''}"


def _estimate_rate(
    evidence: Evidence, growth: Growth, adds: Sequence[ResidualAdd], total: float
) -> GrowthRate:
    sure = growth.confidence or 0.0
    if growth.law == "geometric" and growth.rate is not None:
        return GrowthRate(
            value=growth.rate,
            least=growth.rate - 2 * (growth.rate_error or 0.0),
            law=f"law geometric, Akaike weight {format_number(sure)}",
            confidence="high" if sure >= SURE and len(adds) >= LONG else "medium",
        )
    mean = total ** (1 / (len(adds) - 1))
    is_even = _largest_step(evidence, adds) <= HALF * math.log(total)
    steady = growth.law == "undecided" and is_even
    return GrowthRate(
        value=mean,
        least=mean if steady else 0.0,
        law="the mean factor, the law is undecided",
        confidence="low",
    )


def _largest_step(evidence: Evidence, adds: Sequence[ResidualAdd]) -> float:
    """The largest change of log ||y|| from one add to the next, of the median token."""
    ordered = sorted(adds, key=lambda add: add.depth)
    measurements = [evidence.measurements.stream.get(add.id) for add in ordered]
    sizes = [0.0 if each is None else each.out_norm.median for each in measurements]
    if min(sizes) <= 0:
        return math.inf
    return max(abs(math.log(b / a)) for a, b in pairwise(sizes))
