"""ND502 amplifying-norm."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.epsilon_forms import format_denominator
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
from normdiag.number_text import format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_sample,
    describe_sites,
    find_norm,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold


class AmplifyingNorm(Rule):
    """A norm amplifies small changes of its input many thousand times.

    ## What it does

    Reports norms whose Jacobian has a large singular value because their input hardly varies and
    their epsilon is too small to limit the amplification.

    ## Why it matters

    Rounding errors in the input become as large as the signal in the output, and the gradient is
    multiplied by the same factor: a single such token can dominate an optimiser step. An epsilon of
    1e-12 bounds the factor at 1e6, one of 1e-5 at 316.

    ## How it is measured

    sigma_max of the norm's Jacobian, exactly. It is about max |gamma| / s with s = sqrt(m2 + eps),
    so at most max |gamma| / sqrt(eps). A median over sampled tokens above the threshold is a
    warning. A single token above it, of all tokens, is info, and so is a norm whose typical input
    is constant, which ND302 reports.

    ## Thresholds

    ## Example

    A stream of size 1e-5 before a LayerNorm with an epsilon of 1e-12.

    ## How to fix

    Find why the input is so small: a missing embedding multiplier, an untrained projection, a
    branch with negligible output. Set epsilon to 1e-6 or 1e-5 if the reference implementation uses
    that.

    ## When it is wrong

    Rows that are constant by design, such as padding without a mask.

    ## References

    * Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020
      (arXiv 2002.04745), lemma 3: the norm of the Jacobian goes as 1/||x||.
    * Zhang and Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019 (arXiv 1910.07467).
    """

    code = "ND502"
    name = "amplifying-norm"
    since = "0.1"
    requirements = ("measurements.jacobians",)
    thresholds = (
        Threshold(
            name="sigma_max",
            unit="change out / change in",
            default=65504,
            meaning="a median over tokens above this is a warning, a value at some tokens is info",
            source="a change of 1 at the input leaves the range of float16 at the output (IEEE "
            "754-2019); 23,006 is reported of a Gemma-like model; 513 model types at random "
            "weights stay below 1300",
            low=0.0,
        ),
    )
    fires_on = "sample_models/odd_norms.py:build_amplifying"
    silent_on = "sample_models/odd_norms.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per severity."""
        limit = limits["sigma_max"]
        median = {each.id: each for each in _median_sigma_max(evidence)}
        varies = {each.id for each in median.values() if _has_varying_input(evidence, each.id)}
        typical = sort_worst_first(
            each for each in median.values() if each.value > limit and each.id in varies
        )
        single = sort_worst_first(
            each
            for each in _largest_amplification(evidence)
            if each.value > limit and each.id not in site_ids(typical)
        )
        if typical:
            yield self._finding(evidence, typical, "warning", limit)
        if single:
            yield self._finding(evidence, single, "info", limit)

    def _finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], severity: Severity, limit: float
    ) -> Finding:
        worst = sites[0]
        norm = find_norm(evidence, worst)
        measured = evidence.measurements.norms[worst.id]
        m2, sample = measured.input_var, describe_sample(measured.jacobian)
        over = f"median over {sample}" if severity == "warning" else "largest over tokens"
        size = m2.median if severity == "warning" else m2.min
        return self.finding(
            f"sigma_max of the norm Jacobian is {format_number(worst.value)} ({over}, threshold "
            f"{format_setting(limit)}) {describe_sites(sites, 'norm')}: m2 {format_number(size)}, "
            f"eps {format_setting(norm.eps or 0.0)} in "
            f"{format_denominator(norm.eps_form, norm.kind)}",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=f"find why the input of {worst.id} is so small; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _has_varying_input(evidence: Evidence, norm_id: str) -> bool:
    measured = evidence.measurements.norms[norm_id]
    return 2 * measured.constant < measured.tokens


def _median_sigma_max(evidence: Evidence) -> Iterator[RatedSite]:
    for norm in evidence.architecture.norms:
        measured = evidence.measurements.norms.get(norm.id)
        if measured and measured.jacobian:
            yield rate_site(norm, measured.jacobian.sigma_max.median)


def _largest_amplification(evidence: Evidence) -> Iterator[RatedSite]:
    """Over all tokens."""
    for norm in evidence.architecture.norms:
        measured = evidence.measurements.norms.get(norm.id)
        if measured and measured.jacobian:
            yield rate_site(norm, measured.jacobian.sigma_max.max)
