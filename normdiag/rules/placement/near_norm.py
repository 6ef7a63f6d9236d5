"""ND108 near-norm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
from normdiag.number_text import format_factor, format_number
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_sites,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold


class NearNorm(Rule):
    """What scales x by a statistic over its features is neither LayerNorm nor RMSNorm.

    ## What it does

    Names products and quotients of x, or x - mean(x), and a statistic of x over its features that
    make no known norm, with the statistic. It is a warning where the size of the output still
    follows the size of the input, and info where it does not.

    ## Why it matters

    Such a formula mostly is a norm with one step missing: the mean is left in x although the
    deviation is taken about it, or the root of the variance is missing. Divided by its variance, x
    has the rms 1/s instead of 1, so a stream that grows reaches the branches ever smaller;
    multiplied by its rms it reaches them squared. Divided by its standard deviation with the mean m
    left in, x has the rms sqrt(1 + m^2/s^2) instead of 1, and what all features share passes.
    Weights trained with a norm do not fit such a formula.

    ## How it is measured

    The formula is read from the data flow. It is run again in float64 on up to 16 recorded tokens x
    and on 2 x, without gain and bias: p in rms(y(2 x)) = 2^p rms(y(x)), the median over tokens. For
    every norm p is 0 where epsilon is small, and rms(y) is 1 for LayerNorm and RMSNorm.

    ## Thresholds

    ## Example

    x / (mean square + eps), with the root missing: p is -1.

    ## How to fix

    Compare with the formula of the reference: (x - mean) / sqrt(variance + eps) for LayerNorm,
    x / sqrt(mean square + eps) for RMSNorm.

    ## When it is wrong

    Formulas that are meant so: an RMSNorm whose mean square is of a part of the features (Zhang and
    Sennrich 2019, section 4), a norm by the sum or the largest of |x|. With trained weights they
    work as they are.

    ## References

    * Zhang and Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019 (arXiv 1910.07467).
    * Hoffer et al., Norm matters: efficient and accurate normalization schemes in deep networks,
      NeurIPS 2018 (arXiv 1803.01814), on L1 and L-infinity norms.
    * x / std without centring: github.com/huggingface/pytorch-image-models, pull request 2380
      (2024).
    """

    code = "ND108"
    name = "near-norm"
    since = "0.1"
    requirements = ("architecture.norms",)
    thresholds = (
        Threshold(
            name="size_exponent",
            unit="absolute exponent",
            default=0.1,
            meaning="beyond it the output's size follows the input's, which is a warning",
            source="our choice (2026): 0 for a norm; 0.1 changes the output by 7% where the input "
            "doubles, as an epsilon of a fifth of the mean square does in RMSNorm",
            low=0.0,
        ),
    )
    fires_on = "sample_models/near_norms.py:build"
    silent_on = "sample_models/near_norms.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for each formula and severity."""
        limit = limits["size_exponent"]
        groups: dict[tuple[str, Severity], list[Norm]] = {}
        for norm in evidence.architecture.norms:
            if norm.scaling is not None:
                exponent = _size_exponent(evidence, norm.id)
                severity: Severity = "warning" if abs(exponent or 0.0) > limit else "info"
                groups.setdefault((_describe_formula(norm), severity), []).append(norm)
        for (formula, severity), norms in groups.items():
            sites = sort_worst_first(
                rate_site(norm, abs(_size_exponent(evidence, norm.id) or 0.0)) for norm in norms
            )
            yield self.finding(
                f"{formula} {describe_sites(sites, 'call')}: neither LayerNorm nor RMSNorm"
                f"{_describe_sizes(evidence, sites)}",
                ids=site_ids(sites),
                severity=severity,
                confidence="high",
                measured=(sites[0].value, limit),
                advice="compare with the reference: LayerNorm is (x - mean) / sqrt(variance + eps),"
                " RMSNorm x / sqrt(mean square + eps); " + trace_hint(evidence, sites[0].id),
            )


def _describe_formula(norm: Norm) -> str:
    """Return what is scaled by what: "x is divided by its variance (mean subtracted)"."""
    centring = "mean subtracted" if norm.is_centred else "mean not subtracted"
    return f"x is {norm.scaling} ({centring})"


def _size_exponent(evidence: Evidence, id: str) -> float | None:
    measured = evidence.measurements.near_norms.get(id)
    return None if measured is None else measured.size_exponent


def _describe_sizes(evidence: Evidence, sites: Sequence[RatedSite]) -> str:
    """Return the measured sizes at the first site that has any."""
    measured = evidence.measurements.near_norms.get(sites[0].id)
    if measured is None:
        return ""
    sizes = measured.output_rms
    return (
        f"; output rms {format_number(sizes.min)} to {format_number(sizes.max)} there (1 for a "
        f"norm), {format_factor(2.0**measured.size_exponent)} that for 2 x (1 for a norm)"
    )
