"""ND704 epsilon-underflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids
from normdiag.rules.thresholds import Limits, Threshold


class EpsilonUnderflow(Rule):
    """A norm's epsilon is zero in the number format of the model.

    ## What it does

    Reports norms whose epsilon is 0, or rounds to 0 in the format in which the graph adds it, as a
    warning. A fused norm whose epsilon would round to 0 in the model's format is info: PyTorch
    computes it in float32, another runtime may not.

    ## Why it matters

    Epsilon protects constant rows: a padded token, silence, a white image. With epsilon 0 such a
    row is divided by zero. The 1e-12 of the BERT family rounds to 0 in float16, whose smallest
    number is 6e-8. A norm that is written out in float16 then has no epsilon. PyTorch's fused norms
    compute in float32 and keep it; where an exported model computes them in float16, the same
    checkpoint gives NaN.

    ## How it is measured

    The epsilon in the graph is compared with half of the smallest positive number of a format:
    float16 2^-24, bfloat16 2^-133, float32 2^-149. The format is that of the addition in a norm
    that is written out (so a norm that casts to float32 first passes), and the model's for a fused
    one. It covers layer, RMS and group norms; an L2 norm clamps its denominator instead.

    ## Thresholds

    ## Example

    A float16 model with the epsilon of BERT, 1e-12: a warning where the norms are written out, info
    where they are fused.

    ## How to fix

    Set `layer_norm_eps` (`rms_norm_eps`, `layer_norm_epsilon`) to 1e-5 before exporting to half
    precision, and compare the outputs with the reference. Or run in bfloat16.

    ## When it is wrong

    Nothing goes wrong as long as no row is constant.

    ## References

    * LayerNorm's epsilon in half precision: github.com/pytorch/pytorch, issues 41527 (2020) and
      66707 (2021).
    * IEEE 754-2019: the subnormal numbers of binary16 and binary32.
    """

    code = "ND704"
    name = "epsilon-underflow"
    since = "0.1"
    requirements = ("measurements.norms",)
    thresholds = (
        Threshold(
            name="float16",
            unit="epsilon",
            default=NUMBER_FORMATS["float16"].smallest_subnormal / 2,
            meaning="largest epsilon reported in float16",
            source="IEEE 754-2019: half of 2^-24, rounds to 0",
            low=0.0,
            is_lower=True,
        ),
        Threshold(
            name="bfloat16",
            unit="epsilon",
            default=NUMBER_FORMATS["bfloat16"].smallest_subnormal / 2,
            meaning="largest epsilon reported in bfloat16",
            source="half of 2^-133, rounds to 0 (7 bits of fraction, exponents of IEEE 754-2019)",
            low=0.0,
            is_lower=True,
        ),
        Threshold(
            name="float32",
            unit="epsilon",
            default=NUMBER_FORMATS["float32"].smallest_subnormal / 2,
            meaning="largest epsilon reported in every other format",
            source="IEEE 754-2019: half of 2^-149, rounds to 0",
            low=0.0,
            is_lower=True,
        ),
    )
    fires_on = "sample_models/half_epsilon.py:build"
    silent_on = "sample_models/half_epsilon.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for the norms without an epsilon, one for fused norms that keep theirs."""
        model_dtype = (evidence.subject.dtype or "").removeprefix("torch.")
        lost: list[RatedSite] = []
        fused: list[RatedSite] = []
        for norm in evidence.architecture.norms:
            if norm.kind not in ("layernorm", "rmsnorm", "groupnorm") or norm.eps is None:
                continue
            if norm.eps <= _format_limit(norm.eps_dtype or model_dtype, limits):
                is_kept = norm.eps_dtype is None and norm.eps > 0
                (fused if is_kept else lost).append(rate_site(norm, norm.eps))
        if lost:
            yield self._lost_epsilon_finding(evidence, lost, limits)
        if fused:
            limit = _format_limit(model_dtype, limits)
            least = min(each.value for each in fused)
            yield self.finding(
                f"epsilon is {format_setting(least)}, which would round to 0 in {model_dtype} "
                f"(threshold {format_setting(limit)}), at {format_count(len(fused), 'norm')}, "
                f"{describe_places(fused)}; each is one fused operation, which PyTorch computes in "
                "float32",
                ids=site_ids(fused),
                severity="info",
                confidence="high",
                measured=(least, limit),
                advice="before an export to a runtime that computes norms in half precision, set "
                "layer_norm_eps, rms_norm_eps or layer_norm_epsilon in config.json to 1e-5 or 1e-6",
            )

    def _lost_epsilon_finding(
        self, evidence: Evidence, sites: Sequence[RatedSite], limits: Limits
    ) -> Finding:
        smallest = min(sites, key=lambda each: each.value)
        dtype = next(
            norm.eps_dtype or (evidence.subject.dtype or "").removeprefix("torch.")
            for norm in evidence.architecture.norms
            if norm.id == smallest.id
        )
        least, limit = smallest.value, _format_limit(dtype, limits)
        rounds = f", which rounds to 0 in {dtype} (threshold {format_setting(limit)})"
        return self.finding(
            f"epsilon is {format_setting(least)}{rounds if least else ''}, at "
            f"{format_count(len(sites), 'norm')}, {describe_places(sites)}",
            ids=site_ids(sites),
            severity="warning",
            confidence="high",
            measured=(least, limit),
            advice="set layer_norm_eps, rms_norm_eps or layer_norm_epsilon in config.json to 1e-5 "
            "or 1e-6, or compute the norm in a format that can represent the epsilon",
        )


def _format_limit(dtype: str, limits: Limits) -> float:
    return limits[dtype if dtype in ("float16", "bfloat16") else "float32"]
