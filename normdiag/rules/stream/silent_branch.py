"""ND402 silent-branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import ResidualAdd
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
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
from normdiag.rules.stream_leaps import (
    describe_multipliers,
    find_leaps_before,
    multiply_leaps,
)
from normdiag.rules.thresholds import Limits, Threshold

CLOSED = 1e-3
"""A learned branch scale below this explains a negligible update."""


class SilentBranch(Rule):
    """A branch has a negligible update.

    ## What it does

    Reports residual adds whose update u is negligible relative to the stream x.

    ## Why it matters

    The branch costs memory and compute without effect. Causes are weight decay on a branch without
    a gradient, or a gain, scale or projection that is zero or was lost in conversion. Below half an
    ulp of the stream's format the add returns x unchanged.

    ## How it is measured

    Per add the update ratio ||u|| / ||x||, with u as added, all scales included; the median over
    tokens. Where a learned branch scale is near zero, or the weights are random, the finding is
    info. Behind a leap of the stream (one add that changes its norm by far more than those around
    it) the ratio times the leap's factor is judged; updates that only the leap makes small are a
    finding of their own, which names the leap and the stored tensors that multiply its branch.

    ## Thresholds

    ## Example

    The last weights of block 8 of 12 are multiplied by 1e-6.

    ## How to fix

    In training: check that the branch receives a gradient, and exclude its weights from weight
    decay until it does. In a ported model: look for a missing branch scale or a last projection
    that was not loaded. A branch that stays negligible can be removed.

    ## When it is wrong

    ReZero, SkipInit, LayerScale and zero-initialised projections start at zero by design and grow
    in training.

    ## References

    * Touvron et al., Going Deeper with Image Transformers, ICCV 2021 (arXiv 2103.17239): LayerScale
      starts at 1e-4 to 1e-6.
    * Bachlechner et al., ReZero is All You Need, UAI 2021 (arXiv 2003.04887).
    """

    code = "ND402"
    name = "silent-branch"
    since = "0.1"
    requirements = ("measurements.stream",)
    thresholds = (
        Threshold(
            name="update_ratio",
            unit="||u|| / ||x||",
            default=1e-4,
            meaning="a median update ratio below this is reported",
            source="half an ulp is 2^-9 of a value in bfloat16, 2^-12 in float16: below 1e-4 "
            "most of u is lost in both",
            low=0.0,
            is_lower=True,
        ),
    )
    fires_on = "sample_models/dead_branch.py:build"
    silent_on = "sample_models/dead_branch.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack and reason."""
        measured = evidence.measurements.stream
        for stack in evidence.architecture.stacks:
            silent = [
                add
                for add in evidence.architecture.adds_of_stack(stack.id)
                if add.id in measured
                and measured[add.id].update_ratio.median < limits["update_ratio"]
            ]
            closed = [add for add in silent if _closed_scale(add) is not None]
            if closed:
                yield self._finding(evidence, closed, limits, "info")
            unexplained = [add for add in silent if add not in closed]
            rest = [add for add in unexplained if not _is_dwarfed(evidence, add, limits)]
            if dwarfed := [add for add in unexplained if add not in rest]:
                yield self._dwarfed_finding(evidence, dwarfed, limits)
            if rest:
                is_random = evidence.subject.mode == "random-init"
                yield self._finding(evidence, rest, limits, "info" if is_random else "warning")

    def _finding(
        self, evidence: Evidence, adds: Sequence[ResidualAdd], limits: Limits, severity: Severity
    ) -> Finding:
        measured = evidence.measurements.stream
        sites: list[RatedSite] = [
            rate_site(add, -measured[add.id].update_ratio.median) for add in adds
        ]
        worst = sort_worst_first(sites)[0]
        scale = _closed_scale(adds[0])
        why = describe_multipliers(next(add for add in adds if add.id == worst.id), CLOSED)
        if scale is not None:
            why = f"; its learned scale is {format_number(scale)}"
        place = f"at {worst.id}"
        if len(sites) > 1:
            sites_text = f"{format_count(len(sites), 'add')}, {describe_places(sites)}"
            place = f"at {sites_text}; smallest at {worst.id}"
        return self.finding(
            f"||u|| / ||x|| is {format_number(-worst.value)} (median over tokens, threshold "
            f"{format_setting(limits['update_ratio'])}) {place}{why}",
            ids=site_ids(sort_worst_first(sites)),
            severity=severity,
            confidence="high",
            measured=(-worst.value, limits["update_ratio"]),
            advice=f"{_choose_advice(scale is not None, bool(why))}; "
            f"{trace_hint(evidence, worst.id)}",
        )

    def _dwarfed_finding(
        self, evidence: Evidence, adds: Sequence[ResidualAdd], limits: Limits
    ) -> Finding:
        sites = sort_worst_first(
            rate_site(add, -evidence.measurements.stream[add.id].update_ratio.median)
            for add in adds
        )
        leap = max(find_leaps_before(evidence, adds[0]), key=lambda each: each.factor)
        leaping = next(
            add for add in evidence.architecture.adds_of_stack(adds[0].stack) if add.id == leap.add
        )
        return self.finding(
            f"the stream leaps at {leap.add}, by a factor of {format_number(leap.factor)}"
            f"{describe_multipliers(leaping)}. Behind it the median ||u|| / ||x|| falls to "
            f"{format_number(-sites[0].value)} (threshold {format_setting(limits['update_ratio'])}"
            f") at {format_count(len(sites), 'add')}, {describe_places(sites)}: small beside "
            "the leap alone",
            ids=(leap.add, *site_ids(sites)),
            severity="info" if evidence.subject.mode == "random-init" else "warning",
            confidence="high",
            measured=(-sites[0].value, limits["update_ratio"]),
            advice="judge the branches behind it once the leap is explained: look at what scales "
            f"the branch of {leap.add}; {trace_hint(evidence, leap.add)}",
        )


def _choose_advice(is_learned_scale: bool, has_cause: bool) -> str:
    if is_learned_scale:
        return "expected for a zero-initialised branch scale before training"
    if has_cause:
        return "compare the stored value of that tensor with the one that it should have"
    return (
        "look for a missing branch scale or a last projection near zero; a branch that stays "
        "negligible can be removed"
    )


def _is_dwarfed(evidence: Evidence, add: ResidualAdd, limits: Limits) -> bool:
    """Whether the update is negligible only since the stream leapt at an add before."""
    ratio = evidence.measurements.stream[add.id].update_ratio.median
    leaps = find_leaps_before(evidence, add)
    return ratio * multiply_leaps(leaps) >= limits["update_ratio"]


def _closed_scale(add: ResidualAdd) -> float | None:
    """The learned scale of the branch, where it explains the negligible update."""
    scale = add.branch_scale
    size = scale.rms if scale.value is None else abs(scale.value)
    return size if scale.kind == "learned" and size is not None and size < CLOSED else None
