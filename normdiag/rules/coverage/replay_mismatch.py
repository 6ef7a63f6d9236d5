"""ND002 replay-mismatch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm, ResidualAdd
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, sort_worst_first
from normdiag.rules.thresholds import Limits, Threshold

LOOSEST = "bfloat16"
HALF = NUMBER_FORMATS["float16"]


class ReplayMismatch(Rule):
    """A norm or a stream recomputed from its detected operands differs from the recorded value.

    ## What it does

    Reports norms and residual adds whose replay differs from the recorded value, and stacks whose
    reconstruction (x_in + Σ u vs x_out) differs.

    ## Why it matters

    The report then describes a computation other than the one that ran: a wrong epsilon or gain, a
    missed addition, or a write to the stream that the tracer cannot see. Tools without this check
    have given wrong decompositions for sandwich norms, post-norm, and models that add the residual
    inside a sub-module.

    ## How it is measured

    Each norm is recomputed in float64 from its operands, each add from its own, and compared with
    the recorded value: max |recomputed - recorded| / max |recorded|. A norm written out in float16
    whose sum of squares passes 65504, or whose mean square is below 6.1e-5, is recomputed once more
    with that statistic rounded to float16; where this agrees, arithmetic is the cause. Closure
    applies the same test to each layer: its input plus the writes of its adds, through the detected
    norms and scales, against its output.

    ## Thresholds

    They are multiples of the rounding error of the number format, since the model rounds after
    every operation and the replay does not. Formats that are not listed use the bfloat16 threshold.

    ## Example

    The sample model doubles one channel of its stream through a numpy view, which no tracer of
    PyTorch operations sees.

    ## How to fix

    A float16 statistic: compute it in float32. Otherwise do not rely on the measurements of the
    reported sites. Run the model without fused kernels,
    compilation, and hooks of other tools; if the mismatch persists, report it with the source line.

    ## When it is wrong

    A norm whose input is a large constant plus a small signal loses digits to cancellation in the
    model itself; the replay is then the more accurate value. Quantised models round more coarsely
    than their nominal format.

    ## References

    * The same identity requested elsewhere: github.com/ndif-team/nnterp, issue 53 (2026).
    * Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition (2002), chapter 4: the
      error of sums.
    """

    code = "ND002"
    name = "replay-mismatch"
    since = "0.1"
    requirements = ("measurements.replay",)
    thresholds = (
        Threshold(
            name="float32",
            unit="relative error",
            default=1e-4,
            meaning="largest error allowed for float32 and float64 models",
            source="our choice (2026), 840 roundings of 2^-23: SmolLM2-135M replays to 1.6e-7",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="float16",
            unit="relative error",
            default=1e-2,
            meaning="the same for float16",
            source="our choice (2026), 10 roundings of 2^-10: the sample Llama replays to 7e-4",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="bfloat16",
            unit="relative error",
            default=5e-2,
            meaning="the same for bfloat16 and every other format",
            source="our choice (2026), 6 roundings of 2^-7: SmolLM2-135M replays to 6e-3, "
            "reconstruction error 0.015",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/hidden_write.py:build"
    silent_on = "sample_models/hidden_write.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for the sites, one for each cause in float16, one for each stack."""
        limit = limits[_threshold_name(evidence.subject.dtype)]
        broken = sort_worst_first(
            each for each in _replay_errors(evidence) if _is_above(evidence, each, limit)
        )
        arithmetic = _group_by_arithmetic(evidence, broken, limit)
        for kind, sites in arithmetic.items():
            if kind is None:
                yield self._finding(
                    f"replay differs at {format_count(len(sites), 'site')}", sites, limit
                )
            else:
                yield self._arithmetic_finding(evidence, sites, limit)
        closures = evidence.measurements.closure.items()
        open_ = sort_worst_first(
            each
            for stack, closure in closures
            if _is_above(
                evidence,
                each := RatedSite(id=stack, value=closure.max_rel_error, stack=stack, layer=None),
                limit,
            )
        )
        for each in open_:
            layer = evidence.measurements.closure[each.id].layer
            place = "" if layer is None else f", largest in layer {layer}"
            yield self._finding(f"x_in + Σ u differs from x_out{place}", (each,), limit)

    def _arithmetic_finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], limit: float
    ) -> Finding:
        worst = sites[0]
        half = evidence.measurements.replay[worst.id].half_statistic
        assert half is not None
        if half.computed is None:
            what = (
                f"the sum of squares at {worst.id} reaches {format_number(half.value)}, above "
                f"{format_setting(HALF.largest)}, the largest float16"
            )
        else:
            what = (
                f"the mean square at {worst.id} is {format_number(half.value)} and becomes "
                f"{format_number(half.computed)} in float16, whose smallest step is "
                f"{format_number(HALF.smallest_subnormal)}"
            )
        return self.finding(
            f"{what}; {format_count(len(sites), 'norm')} with this statistic in float16, "
            f"{describe_places(sites)}: replayed so the relative error at {worst.id} is "
            f"{format_number(half.max_rel_error)}, replayed in float64 it is "
            f"{format_number(worst.value)} (threshold {format_setting(limit)})",
            ids=site_ids(sites),
            severity="warning",
            confidence="high",
            measured=(worst.value, limit),
            advice="compute the statistic in float32: cast before the square, or use PyTorch's "
            "fused norm",
        )

    def _finding(self, what: str, sites: tuple[RatedSite, ...], limit: float) -> Finding:
        worst = sites[0]
        return self.finding(
            f"{what}: relative error {format_number(worst.value)} (threshold "
            f"{format_setting(limit)}) "
            f"at {describe_places(sites)}" + (f", worst at {worst.id}" if len(sites) > 1 else ""),
            ids=site_ids(sites),
            severity="warning",
            confidence="high",
            measured=(worst.value, limit),
            advice="do not rely on other measurements of these sites; look for a fused kernel, a "
            "hook, or a write that bypasses PyTorch's dispatcher",
        )


def _group_by_arithmetic(
    evidence: Evidence, sites: tuple[RatedSite, ...], limit: float
) -> dict[str | None, tuple[RatedSite, ...]]:
    """The sites by the float16 statistic that reproduces the model's output; None without one."""
    groups: dict[str | None, tuple[RatedSite, ...]] = {}
    for site in sites:
        half = evidence.measurements.replay[site.id].half_statistic
        kind = half.kind if half is not None and half.max_rel_error <= limit else None
        groups[kind] = (*groups.get(kind, ()), site)
    return groups


def _threshold_name(dtype: str | None) -> str:
    plain = (dtype or "").removeprefix("torch.")
    return {"float64": "float32", "float32": "float32", "float16": "float16"}.get(plain, LOOSEST)


def _replay_errors(evidence: Evidence) -> Iterator[RatedSite]:
    built = evidence.architecture
    of: dict[str, Norm | ResidualAdd] = {norm.id: norm for norm in built.norms}
    of |= {add.id: add for add in built.residual_adds}
    for site_id, replay in evidence.measurements.replay.items():
        if site_id in of:
            yield rate_site(of[site_id], replay.max_rel_error)


def _is_above(evidence: Evidence, each: RatedSite, limit: float) -> bool:
    # Behind a NaN or an infinity nothing can be compared, and the value itself is ND705's finding.
    if not math.isfinite(each.value):
        return evidence.measurements.first_nonfinite is None
    return each.value > limit
