"""ND204 gain-offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gains import Gain
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, trace_hint
from normdiag.rules.thresholds import Limits, Threshold

MIN_FEATURES = 8
"""With fewer features the signs of a gain are no evidence."""


class GainOffset(Rule):
    """The gains of a model suggest that the 1 of `1 + w` is missing or applied twice.

    ## What it does

    Compares all norms of the model. It reports models in which most norms have many negative gains,
    or nearly all norms have gains above one only.

    ## Why it matters

    Some families store w and multiply by 1 + w (Gemma, Qwen3-Next, Nemotron); others store the gain
    itself. A conversion that confuses the two loads without a warning. With the 1 missing, norm
    outputs are too small with flipped signs; with the 1 applied twice, about doubled. The model's
    text is then garbage, or fluent and wrong.

    ## How it is measured

    From the effective gain gamma of each LayerNorm and RMSNorm in the graph and the constant that
    the model adds to the stored vector. A gain looks like w without the 1 where a fifth or more of
    it is negative, or all of it is zero; it looks doubled where its minimum is above 1 and its mean
    above 1.5, since learned gains fall below 1 in some channel. The shares of such norms are
    compared with the thresholds. A single norm is no evidence: the first norm of SmolLM2-135M has
    271 negative gains of 576 and is correct.

    ## Thresholds

    ## Example

    A model whose norms use w, drawn with mean 0 and standard deviation 0.1, as the gain.

    ## How to fix

    Missing: add 1 to every norm weight when converting, or use the class that computes 1 + w.
    Applied twice: subtract 1 when converting to a class that computes 1 + w, or use one that does
    not. A mean gain that lies 2 or more above 1 has another cause; the message says by how much it
    is too large. Gains of 0 with biases of rms about 1: the two are exchanged. Gains of 0
    otherwise: w as initialised, or gains that were never loaded.

    ## When it is wrong

    A model whose norms all learned large gains is possible, though none is known: where the model
    itself adds no 1, the confidence is low.

    ## References

    * Gemma Team, Gemma: Open Models Based on Gemini Research and Technology, 2024
      (arXiv 2403.08295); `GemmaRMSNorm` of transformers computes `x * (1 + w)`.
    * The 1 missing: github.com/linkedin/Liger-Kernel, issue 74 (2024);
      github.com/pytorch/executorch, pull request 19901 (2026).
    * The 1 applied twice: github.com/vllm-project/vllm, pull request 31464 (2025).
    """

    code = "ND204"
    name = "gain-offset"
    since = "0.1"
    requirements = ("gains",)
    thresholds = (
        Threshold(
            name="missing_share",
            unit="share of norms",
            default=0.5,
            meaning="a share of norms above this with many negative gains is a warning",
            source="our choice (2026): of 61 norms of SmolLM2-135M one has such gains, of "
            "all-MiniLM-L6-v2 and RXNMapper's ALBERT none",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="doubled_share",
            unit="share of norms",
            default=0.9,
            meaning="a share of norms above this with all gains above 1 is a warning",
            source="our choice (2026): a 1 applied twice affects every norm; of "
            "SmolLM2-135M, all-MiniLM-L6-v2 and RXNMapper's ALBERT no norm has such gains",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/gains.py:build_missing_one"
    silent_on = "sample_models/gains.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """At most one finding."""
        norms = [
            norm
            for norm in evidence.architecture.norms
            if norm.gain is not None
            and norm.gain.mean is not None
            and norm.kind in ("layernorm", "rmsnorm")
            and norm.features >= MIN_FEATURES
        ]
        if len(norms) < 2:
            return
        missing = [
            norm for norm in norms if norm.gain and _has_negative_gains(norm.gain, norm.features)
        ]
        doubled = [norm for norm in norms if norm.gain and _has_large_gains(norm.gain)]
        if len(missing) > limits["missing_share"] * len(norms):
            yield self._missing_offset_finding(
                evidence, missing, len(norms), limits["missing_share"]
            )
        elif len(doubled) > limits["doubled_share"] * len(norms):
            yield self._doubled_offset_finding(
                evidence, doubled, len(norms), limits["doubled_share"]
            )

    def _missing_offset_finding(
        self, evidence: Evidence, norms: Sequence[Norm], total: int, limit: float
    ) -> Finding:
        gains = [norm.gain for norm in norms if norm.gain]
        if all(gain.max_abs == 0 for gain in gains):
            observation, advice = _describe_zero_gains(norms)
            sites = _rate_by_mean_gain(norms)
            return self.finding(
                f"{len(norms)} of {format_count(total, 'norm')} (threshold "
                f"{format_setting(limit)}) have gains of exactly 0, {describe_places(sites)}"
                f"{observation}",
                ids=site_ids(sites),
                severity="warning",
                confidence="medium",
                measured=(len(norms) / total, limit),
                advice=f"{advice}; {trace_hint(evidence, sites[0].id)}",
            )
        negative = sum(gain.negatives for gain in gains) / sum(norm.features for norm in norms)
        outputs = [
            measurement.output_rms
            for norm in norms
            if (measurement := evidence.measurements.norms.get(norm.id))
            and measurement.output_rms is not None
        ]
        size = f", mean output rms {format_number(fmean(outputs))}" if outputs else ""
        sites = _rate_by_mean_gain(norms)
        return self.finding(
            f"{len(norms)} of {format_count(total, 'norm')} (threshold {format_setting(limit)}) "
            f"have "
            f"many negative gains, {describe_places(sites)}: share of negative gains "
            f"{format_number(negative)}, mean gain {format_number(_mean_gain(gains))} (about 1 is "
            f"expected){size}",
            ids=site_ids(sites),
            severity="warning",
            confidence="medium",
            measured=(len(norms) / total, limit),
            advice="if the checkpoint stores w of 1 + w, add 1 to every norm weight or use a class "
            f"that does; {trace_hint(evidence, sites[0].id)}",
        )

    def _doubled_offset_finding(
        self, evidence: Evidence, norms: Sequence[Norm], total: int, limit: float
    ) -> Finding:
        gains = [norm.gain for norm in norms if norm.gain]
        sites = _rate_by_mean_gain(norms)
        adds = all(gain.offset == 1 for gain in gains)
        excess = _mean_gain(gains) - 1
        surplus = max(1, round(excess))
        if surplus == 1:
            why = (
                "the model adds 1, and the checkpoint may include it"
                if adds
                else "1 may be added twice"
            )
            advice = (
                "if the checkpoint stores the gain itself, subtract 1 from every norm weight or "
                "use a class that adds none"
            )
        else:
            why = "a 1 applied twice would leave 1 above 1"
            advice = (
                "compare the norm weights with the reference checkpoint; if these gains should lie "
                f"around 1, subtract about {surplus} from every norm weight"
            )
        return self.finding(
            f"{len(norms)} of {format_count(total, 'norm')} (threshold {format_setting(limit)}) "
            f"have only gains "
            f"above 1, {describe_places(sites)}: mean gain {format_number(_mean_gain(gains))}, "
            f"{format_number(excess)} above 1; "
            f"{why}",
            ids=site_ids(sites),
            severity="warning",
            confidence="medium" if adds else "low",
            measured=(len(norms) / total, limit),
            advice=f"{advice}; {trace_hint(evidence, sites[0].id)}",
        )


def _describe_zero_gains(norms: Sequence[Norm]) -> tuple[str, str]:
    """Return what the biases of norms with zero gains show, and the advice that follows."""
    biases = [norm.bias_rms for norm in norms if norm.bias_rms is not None]
    if len(biases) == len(norms) and all(abs(rms - 1) < 0.5 for rms in biases):
        return (
            f", and biases of mean rms {format_number(fmean(biases))}, as gains have: gain and "
            "bias may be exchanged",
            "compare both with the reference checkpoint; if they are exchanged, exchange the "
            "tensors of weight and bias when converting",
        )
    return (
        ": each outputs its bias alone" if biases else ": each outputs 0",
        "zeros are w of 1 + w as initialised, or gains that were initialised to 0 or not loaded: "
        "use a class that computes 1 + w, or load or initialise the gains",
    )


def _has_negative_gains(gain: Gain, features: int) -> bool:
    return gain.negatives >= features / 5 or gain.max_abs == 0


def _has_large_gains(gain: Gain) -> bool:
    return gain.negatives == 0 and gain.min_abs > 1 and (gain.mean or 0.0) > 1.5


def _mean_gain(gains: Sequence[Gain]) -> float:
    return fmean(gain.mean for gain in gains if gain.mean is not None)


def _rate_by_mean_gain(norms: Sequence[Norm]) -> tuple[RatedSite, ...]:
    return tuple(rate_site(norm, norm.gain.mean or 0.0) for norm in norms if norm.gain)
