"""ND704 epsilon-underflow."""

from __future__ import annotations

from collections.abc import Iterator

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

    Reports norms whose epsilon is 0 or rounds to 0 in the model's format.

    ## Why it matters

    Epsilon protects constant rows: a padded token, silence, a white image. With epsilon 0 such a
    row is divided by zero. The 1e-12 of the BERT family rounds to 0 in float16, whose smallest
    number is 6e-8; whether a kernel computes the norm in float32 depends on the backend, so the
    same checkpoint works on one machine and gives NaN on another.

    ## How it is measured

    The epsilon in the graph is compared with half of the smallest positive number of the format:
    float16 2^-24, bfloat16 2^-133, float32 2^-149. It covers layer, RMS and group norms; an L2 norm
    clamps its denominator instead.

    ## Thresholds

    ## Example

    A float16 model with the epsilon of BERT, 1e-12.

    ## How to fix

    Set `layer_norm_eps` (`rms_norm_eps`, `layer_norm_epsilon`) to 1e-5 before exporting to half
    precision, and compare the outputs with the reference. Or run in bfloat16.

    ## When it is wrong

    Where the kernel is known to compute norms in float32 (PyTorch's own do), nothing goes wrong
    until the model is exported.

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
        ),
        Threshold(
            name="bfloat16",
            unit="epsilon",
            default=NUMBER_FORMATS["bfloat16"].smallest_subnormal / 2,
            meaning="largest epsilon reported in bfloat16",
            source="half of 2^-133, rounds to 0 (7 bits of fraction, exponents of IEEE 754-2019)",
            low=0.0,
        ),
        Threshold(
            name="float32",
            unit="epsilon",
            default=NUMBER_FORMATS["float32"].smallest_subnormal / 2,
            meaning="largest epsilon reported in every other format",
            source="IEEE 754-2019: half of 2^-149, rounds to 0",
            low=0.0,
        ),
    )
    fires_on = "sample_models/half_epsilon.py:build"
    silent_on = "sample_models/half_epsilon.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding."""
        dtype = (evidence.subject.dtype or "").removeprefix("torch.")
        limit = limits[dtype if dtype in ("float16", "bfloat16") else "float32"]
        sites: tuple[RatedSite, ...] = tuple(
            rate_site(norm, norm.eps)
            for norm in evidence.architecture.norms
            if norm.kind in ("layernorm", "rmsnorm", "groupnorm")
            and norm.eps is not None
            and norm.eps <= limit
        )
        if not sites:
            return
        least = min(each.value for each in sites)
        rounds = (
            ""
            if least == 0
            else f", which rounds to 0 in {dtype} (threshold {format_setting(limit)})"
        )
        yield self.finding(
            f"epsilon is {format_setting(least)}{rounds}, at {format_count(len(sites), 'norm')}, "
            f"{describe_places(sites)}",
            ids=site_ids(sites),
            severity="warning",
            confidence="high",
            measured=(least, limit),
            advice="set layer_norm_eps, rms_norm_eps or layer_norm_epsilon in config.json to 1e-5 "
            "or 1e-6, or run the model in a format that can represent the epsilon",
        )
