"""ND501 ill-conditioned-norm."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_sample,
    describe_sites,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold


class IllConditionedNorm(Rule):
    """The Jacobian of a norm has a condition number of hundreds or more.

    ## What it does

    Reports norms whose Jacobian has a large condition number at the typical token. The directions
    that every norm removes, the scale and (LayerNorm) the mean, are excluded.

    ## Why it matters

    Changes of the input along the weak directions hardly reach the branch, and hardly any gradient
    returns along them: those channels learn slowly. In half precision their values are rounded away
    in the first sum with the strong ones.

    ## How it is measured

    kappa = sigma_max / sigma_min of J = diag(gamma)/s (I - uu' - c zz') at sampled tokens, exactly,
    by the secular equation; sigma_min is the smallest singular value that the norm does not
    suppress by construction, s_(H-2) for LayerNorm and s_(H-1) for RMSNorm. The median over them
    is compared. kappa is at most max |gamma| / min |gamma|, and 1 for a constant gain. Norms with
    dead gains, whose kappa is infinite or nearly so, are reported by ND201.

    ## Thresholds

    ## Example

    One gain of 300 among 63 of 0.05: kappa is 6000.

    ## How to fix

    Inspect the largest and smallest gains, and the same channels of the neighbouring norms. One
    outlier among equal gains is ND202. Gains that shrank during training were decayed: exclude them
    from weight decay.

    ## When it is wrong

    Trained models suppress channels through small gains, mostly in their first layers: the first
    norm of SmolLM2-135M has a kappa of 1460, one in the decoder of Whisper base 2.0e6, by a single
    gain of 1.6e-6. Such a model works, so this is info at any size; gains that break something are
    those of ND202 and ND206.

    ## References

    * Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020
      (arXiv 2002.04745), lemma 3: the Jacobian of LayerNorm.
    * Golub, Some Modified Matrix Eigenvalue Problems, SIAM Review 15, 1973: the secular equation.
    """

    code = "ND501"
    name = "ill-conditioned-norm"
    since = "0.1"
    requirements = ("measurements.jacobians",)
    thresholds = (
        Threshold(
            name="kappa",
            unit="sigma_max / sigma_min",
            default=256,
            meaning="a median over tokens above this is info",
            source="bfloat16 has 8 bits: 2^8. Norms with dead gains apart, three of "
            "SmolLM2-135M are above it, none of all-MiniLM-L6-v2, all-mpnet-base-v2 and "
            "RXNMapper's ALBERT (2026)",
            low=1.0,
        ),
    )
    fires_on = "sample_models/gains.py:build_outlier"
    silent_on = "sample_models/gains.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for all norms."""
        sites = sort_worst_first(
            each for each in _median_kappas(evidence) if each.value > limits["kappa"]
        )
        if not sites:
            return
        worst = sites[0]
        jacobian = evidence.measurements.norms[worst.id].jacobian
        largest = f", sigma_max {format_number(jacobian.sigma_max.median)}" if jacobian else ""
        yield self.finding(
            f"kappa {format_number(worst.value)} (median over "
            f"{describe_sample(jacobian)}, threshold {format_setting(limits['kappa'])}) "
            f"{describe_sites(sites, 'norm')}{largest}",
            ids=site_ids(sites),
            severity="info",
            confidence="high",
            measured=(worst.value, limits["kappa"]),
            advice=f"inspect the largest and smallest gains of {worst.id}; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _median_kappas(evidence: Evidence) -> Iterator[RatedSite]:
    for norm in evidence.architecture.norms:
        measured = evidence.measurements.norms.get(norm.id)
        is_alive = norm.gain is None or norm.gain.dead == 0
        if is_alive and measured and measured.jacobian and measured.jacobian.kappa:
            yield rate_site(norm, measured.jacobian.kappa.median)
