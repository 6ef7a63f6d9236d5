"""ND304 massive-activation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.stream import AddMeasurement
from normdiag.findings import Confidence, Finding, Severity
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


class MassiveActivation(Rule):
    """The stream holds a massive activation: one value thousands of times the median magnitude.

    ## What it does

    Reports the residual adds whose output holds a massive activation: the layer where it appears,
    its channel and token, and its ratio to the median; those at the first token of a sequence, the
    attention sinks, apart from those at later ones. It is info: trained models that work have them,
    at the first token, at delimiters and at the last token. Values that a number format cannot hold
    are reported by ND701 and ND705, a block that overwrites the stream by ND403.

    ## Why it matters

    Many language models have a few, at the first token or a full stop, and depend on them: they act
    as attention biases, and zeroing them destroys the model. They matter for quantisation (one
    scale for all channels rounds the others to zero), half precision, averages over tokens, and
    channel ablation. At that token the next norm scales all other channels close to zero.

    ## How it is measured

    At every residual add the largest |y|, with channel and token, and the median of |y| over all
    tokens that are not padding and all channels. The result depends on the inputs: most massive
    activations appear only at the first token of a sequence.

    ## Thresholds

    ## Example

    Block 2 of 12 writes 3000 into one channel of the first token.

    ## How to fix

    In a trained model keep it and handle it separately: per-channel or per-token scales when
    quantising, position 0 excluded from averages, bfloat16 instead of float16. In training, an
    attention bias or a sink token replaces it; norms on the branch outputs keep it small.

    ## When it is wrong

    It never is a defect by itself: all-mpnet-base-v2 has one of 890 at the last token of a text, a
    separator, 2312 times the median, and works.

    ## References

    * Sun et al., Massive Activations in Large Language Models, COLM 2024 (arXiv 2402.17762).
    * Owen et al., A Refined Analysis of Massive Activations in LLMs, 2025 (arXiv 2503.22329).
    """

    code = "ND304"
    name = "massive-activation"
    since = "0.1"
    requirements = ("measurements.stream",)
    thresholds = (
        Threshold(
            name="magnitude",
            unit="|y|",
            default=100,
            meaning="smallest magnitude of a massive activation",
            source="Sun et al. 2024, section 2",
            low=0.0,
        ),
        Threshold(
            name="ratio",
            unit="times the median |y|",
            default=1000,
            meaning="smallest ratio to the median of a massive activation",
            source="Sun et al. 2024, section 2; Owen et al. 2025, equation 1",
            low=1.0,
        ),
    )
    fires_on = "sample_models/massive_activation.py:build"
    silent_on = "sample_models/massive_activation.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """At most two findings per stack: massive activations at later tokens and at the first one,
        else its outliers."""
        for stack in evidence.architecture.stacks:
            far = [
                each
                for each in _largest_activations(evidence, stack.id)
                if _is_outlier(evidence, each, limits)
            ]
            massive = [each for each in far if each.value > limits["magnitude"]]
            sinks = [each for each in massive if _is_at_first_token(evidence, each)]
            others = [each for each in massive if each not in sinks]
            if others:
                yield self._finding(evidence, others, limits, ("info", "high"))
            if sinks:
                yield self._finding(evidence, sinks, limits, ("info", "high"))
            if far and not massive:
                yield self._finding(evidence, far, limits, ("info", "low"))

    def _finding(
        self,
        evidence: Evidence,
        sites: Sequence[RatedSite],
        limits: Limits,
        how: tuple[Severity, Confidence],
    ) -> Finding:
        ranked = sort_worst_first(sites)
        worst, first = ranked[0], sites[0]
        at = evidence.measurements.stream[first.id]
        token = at.max_token
        is_massive = worst.value > limits["magnitude"]
        note = (
            "threshold" if is_massive else "an outlier, below the massive-activation threshold of"
        )
        up = f", up to {format_number(worst.value)} at {worst.id}" if worst is not first else ""
        more = f", and at {format_count(len(sites), 'add')} in all, {describe_places(sites)}{up}"
        return self.finding(
            f"max |y| is {format_number(first.value)} in channel {at.max_channel} at position "
            f"{token.position} of sequence {token.sequence} ({note} "
            f"{format_setting(limits['magnitude'])}), {format_number(_ratio_to_median(at))} "
            f"times the median "
            f"(threshold {format_setting(limits['ratio'])}), at "
            f"{first.id}{more if len(sites) > 1 else ''}",
            ids=site_ids(ranked),
            severity=how[0],
            confidence=how[1],
            measured=(worst.value, limits["magnitude"]),
            advice="common in trained language models: quantise per channel, exclude this token "
            f"from averages; {trace_hint(evidence, first.id)}",
        )


def _largest_activations(evidence: Evidence, stack: str) -> Iterator[RatedSite]:
    """The adds of a stack in order, with their largest |y|."""
    measured = evidence.measurements.stream
    for add in evidence.architecture.adds_of_stack(stack):
        if add.id in measured:
            yield rate_site(add, measured[add.id].max_abs)


def _is_at_first_token(evidence: Evidence, each: RatedSite) -> bool:
    return evidence.measurements.stream[each.id].max_token.position == 0


def _is_outlier(evidence: Evidence, each: RatedSite, limits: Limits) -> bool:
    return _ratio_to_median(evidence.measurements.stream[each.id]) >= limits["ratio"]


def _ratio_to_median(at: AddMeasurement) -> float:
    # A value that is not finite is ND705's finding; behind it there is nothing to compare with.
    if not math.isfinite(at.max_abs) or math.isnan(at.median_abs) or at.max_abs == 0:
        return 0.0
    return at.max_abs / at.median_abs if at.median_abs > 0 else math.inf
