"""ND401 geometric-growth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.record import record
from normdiag.evidence.stream import Growth
from normdiag.findings import Confidence, Finding
from normdiag.rules.number import count, number
from normdiag.rules.rule import Rule
from normdiag.rules.site import trace_hint
from normdiag.rules.thresholds import Limits, Threshold

SURE, LONG = 0.95, 12
"""The Akaike weight and the number of adds from which a law is taken as certain."""
HALF = 0.5
"""The share of all growth that one add may make up: with more, it is a jump."""


@record
class GrowthRate:
    """The factor per add, the least that it can be, and how it is known."""

    value: float
    least: float
    law: str
    confidence: Confidence


class GeometricGrowth(Rule):
    """The stream is multiplied from add to add.

    ## What it does

    Names stacks whose stream grows by a steady factor per residual add, a large one, over a large
    range.

    ## Why it matters

    A sum of independent updates grows like a square root. A stream that multiplies has branches
    that write in proportion to what they read, or weights that grow with depth: early layers are
    drowned out, late layers decide everything, and half precision ends at 65504. The last norm
    hides it from the output.

    ## How it is measured

    Per add, ||y|| as the mean over tokens, position 0 left out (attention sinks live there). Four
    laws are fitted to its logarithm against depth: constant, additive variance sqrt(1 + b l),
    geometric g^l, and power; the corrected Akaike criterion chooses. The finding needs the
    geometric law, a factor that lies above the threshold by twice its standard error (a single
    jump is no growth per layer), and a total, last add over first, above the other threshold: in
    the mean over tokens and for the median token, since a few massive tokens (ND304) are no growth.

    Where the adds are too few to tell the law, the factor is the mean one, total^(1/(adds - 1)),
    no single add may make up more than half of the growth, and the confidence is low.

    ## Thresholds

    ## Example

    48 blocks of x + fc(x) without any norm, against the same with a norm in each branch.

    ## How to fix

    In training: normalise the branch input (pre-norm) or what the branch writes (sandwich norm),
    or draw the last weights of each branch smaller by 1/sqrt(2L). In a ported model: look for a
    branch scale or a norm that got lost (`residual_multiplier`, `post_feedforward_layernorm`). For
    inference: bfloat16 or float32, since float16 ends at 65504.

    ## When it is wrong

    Trained models grow geometrically over a part of their depth, GPT-2 XL by 1.045 per layer, and
    some small ones far faster: the total of 43 public models lies between 5 and 2747. With few
    adds the law is a guess: look at `confidence`.

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
            meaning="a larger factor, by twice its standard error, is reported",
            source="the stream doubles every 6 adds. GPT-2 XL: 1.022 per add (Heimersheim and "
            "Turner 2023); a stack without norms at PyTorch's default weights, of "
            "variance 1/(3H): sqrt(1 + 1/3) = 1.155",
            low=1.0,
        ),
        Threshold(
            name="total",
            unit="last add / first add",
            default=30,
            meaning="and only where the stream has grown by more than this",
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
            adds = [add for add in evidence.architecture.residual_adds if add.stack == stack.id]
            if growth is None or len(adds) < 2:
                continue
            if min(growth.total, _median_token_growth(evidence, adds)) <= limits["total"]:
                continue
            rate = _estimate_rate(evidence, growth, adds)
            if rate.least > limits["rate"]:
                yield self._finding(evidence, stack, adds, rate, limits)

    def _finding(
        self,
        evidence: Evidence,
        stack: Stack,
        adds: list[ResidualAdd],
        rate: GrowthRate,
        limits: Limits,
    ) -> Finding:
        total = evidence.measurements.growth[stack.id].total
        last = max(adds, key=lambda add: add.depth)
        normless = "no branch is normalised: " if stack.placement == "none" else ""
        return self.finding(
            f"{normless}the stream of {stack.id} is multiplied by {number(rate.value)} per add "
            f"(threshold {number(limits['rate'])}), {number(total)} times over "
            f"{count(len(adds), 'add')} (threshold {number(limits['total'])}); {rate.law}",
            ids=(stack.id,),
            severity="warning",
            confidence=rate.confidence,
            measured=(rate.value, limits["rate"]),
            advice=(
                "normalise what each branch reads"
                if normless
                else "look for a lost branch scale or output norm, or weights that grow with depth"
            )
            + f"; run it in bfloat16 or float32; {trace_hint(evidence, last.id)}",
        )


def _estimate_rate(evidence: Evidence, growth: Growth, adds: list[ResidualAdd]) -> GrowthRate:
    sure = growth.confidence or 0.0
    if growth.law == "geometric" and growth.rate is not None:
        return GrowthRate(
            value=growth.rate,
            least=growth.rate - 2 * (growth.rate_error or 0.0),
            law=f"law geometric, Akaike weight {number(sure)}",
            confidence="high" if sure >= SURE and len(adds) >= LONG else "medium",
        )
    mean = growth.total ** (1 / (len(adds) - 1))
    steady = growth.law == "undecided" and _largest_step(evidence, adds) <= HALF * math.log(
        growth.total
    )
    return GrowthRate(
        value=mean,
        least=mean if steady else 0.0,
        law="the mean factor, since the adds are too few to tell the law",
        confidence="low",
    )


def _median_token_growth(evidence: Evidence, adds: list[ResidualAdd]) -> float:
    """Last add over first of the median ||y||; infinite where that is not known."""
    ordered = sorted(adds, key=lambda add: add.depth)
    ends = [evidence.measurements.stream.get(add.id) for add in (ordered[0], ordered[-1])]
    first, last = (0.0 if seen is None else seen.out_norm.median for seen in ends)
    return last / first if first > 0 else math.inf


def _largest_step(evidence: Evidence, adds: list[ResidualAdd]) -> float:
    """The largest change of log ||y|| from one add to the next, of the median token."""
    ordered = sorted(adds, key=lambda add: add.depth)
    seen = [evidence.measurements.stream.get(add.id) for add in ordered]
    sizes = [0.0 if each is None else each.out_norm.median for each in seen]
    if min(sizes) <= 0:
        return math.inf
    return max(abs(math.log(b / a)) for a, b in pairwise(sizes))
