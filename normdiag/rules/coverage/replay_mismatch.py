"""ND002 replay-mismatch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm, ResidualAdd
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count, number
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, sort_worst_first
from normdiag.rules.thresholds import Limits, Threshold

LOOSEST = "bfloat16"


class ReplayMismatch(Rule):
    """A norm or a stream, recomputed from what was found of it, does not come out as seen.

    ## What it does

    Names the norms and residual adds that do not replay, and the stacks that do not close.

    ## Why it matters

    Then the report describes another computation than the one that ran: a wrong epsilon or gain,
    an addition that was missed, a write to the stream behind the tracer's back. Tools that skip
    this check have been silently wrong on sandwich norms, on post-norm, and on models that add
    the residual inside a sub-module.

    ## How it is measured

    Each norm is recomputed in float64 from its operands, each add from its own, and compared with
    what the model made: the largest |recomputed - seen| over the largest |seen|. Closure is the
    same along the chain: for every layer, what came in plus what the adds wrote, through the norms
    and scales that were found, against what went out.

    ## Thresholds

    They are some roundings of the number format, since the model rounds after every operation and
    the replay does not; in float32, which has digits to spare, many. Formats that are not listed
    are judged as bfloat16.

    ## Example

    The sample model doubles one channel of its stream through a numpy view, which no tracer of
    PyTorch operations sees.

    ## How to fix

    Do not trust the numbers of the sites that are named. Run the model without fused kernels,
    compilation and hooks of other tools; if the mismatch stays, report it with the source line.

    ## When it is wrong

    A norm whose input is a large constant plus a small signal loses digits to cancellation inside
    the model itself: the replay is then the better number of the two. Quantised models round more
    coarsely than their nominal format.

    ## References

    * The same identity asked for elsewhere: github.com/ndif-team/nnterp, issue 53 (2026).
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
            meaning="most that float32 and float64 models may differ by",
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
            "closes to 0.015",
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
                f"{count(len(broken), 'site')} do not replay"
                if len(broken) > 1
                else "one site does not replay",
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
            at = "" if layer is None else f", worst in layer {layer}"
            yield self._finding(f"the stream does not add up{at}", (each,), limit)

    def _finding(self, what: str, sites: tuple[RatedSite, ...], limit: float) -> Finding:
        worst = sites[0]
        return self.finding(
            f"{what}: relative error {number(worst.value)} (threshold {number(limit)}) "
            f"at {describe_places(sites)}" + (f", worst at {worst.id}" if len(sites) > 1 else ""),
            ids=site_ids(sites),
            severity="warning",
            confidence="high",
            measured=(worst.value, limit),
            advice="do not trust the other numbers of these sites; look for a fused kernel, a hook "
            "or a write past PyTorch's dispatcher",
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
