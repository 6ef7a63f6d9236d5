"""ND002 replay-mismatch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm, ResidualAdd
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, sort_worst_first
from normdiag.rules.thresholds import Limits, Threshold

LOOSEST = "bfloat16"


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
    the recorded value: max |recomputed - recorded| / max |recorded|. Closure applies the same test
    to each layer: its input plus the writes of its adds, through the detected norms and scales,
    against its output.

    ## Thresholds

    They are multiples of the rounding error of the number format, since the model rounds after
    every operation and the replay does not. Formats that are not listed use the bfloat16 threshold.

    ## Example

    The sample model doubles one channel of its stream through a numpy view, which no tracer of
    PyTorch operations sees.

    ## How to fix

    Do not rely on the measurements of the reported sites. Run the model without fused kernels,
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
        """Two findings at most: of the sites, of the stacks."""
        limit = limits[_threshold_name(evidence.subject.dtype)]
        broken = sort_worst_first(
            each for each in _replay_errors(evidence) if _is_above(evidence, each, limit)
        )
        if broken:
            yield self._finding(
                f"replay differs at {format_count(len(broken), 'site')}",
                broken,
                limit,
            )
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
