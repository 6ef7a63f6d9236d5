"""ND402 silent-branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import ResidualAdd
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
from normdiag.rules.number import count, number
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_places,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold

CLOSED = 1e-3
"""A learned scale on the branch below this explains that the branch is silent."""


class SilentBranch(Rule):
    """A branch writes next to nothing to the stream.

    ## What it does

    Names the residual adds whose branch is so small beside the stream that it might as well be
    missing.

    ## Why it matters

    Its weights are stored, loaded and multiplied for nothing. Weight decay brings a branch without
    a gradient there; so do a gain, a scale or a projection that is zero or was lost on conversion.
    Below half an ulp of the stream's format the add gives back its skip operand unchanged.

    ## How it is measured

    Per add the update ratio ||u|| / ||x||, u being what is added, all scales included; the median
    over tokens. Where the branch has a learned scale that is itself nearly zero, or the weights are
    random, nothing is wrong and the finding is for information.

    ## Thresholds

    ## Example

    The last weights of block 8 of 12 are a millionth of what they were.

    ## How to fix

    In training: see whether the branch gets a gradient at all, and leave its weights out of the
    decay until it does. In a ported model: look for a lost branch scale or a last projection that
    was not loaded. A branch that stays silent can be removed.

    ## When it is wrong

    ReZero, SkipInit, LayerScale and zero-initialised projections start silent by design, and open
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
            meaning="a branch that writes less, for the median token, is silent",
            source="half an ulp is 2^-9 of a value in bfloat16, 2^-12 in float16: below 1e-4 "
            "most of u is lost in either; of the 60 branches of SmolLM2 the least writes 0.09",
            low=0.0,
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
                for add in evidence.architecture.residual_adds
                if add.stack == stack.id
                and add.id in measured
                and measured[add.id].update_ratio.median < limits["update_ratio"]
            ]
            closed = [add for add in silent if _closed_scale(add) is not None]
            if closed:
                yield self._finding(evidence, closed, limits, "info")
            rest = [add for add in silent if add not in closed]
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
        why = "" if scale is None else f"; its learned scale is {number(scale)}"
        who = f"the branch of {worst.id} writes"
        if len(sites) > 1:
            adds_there = (
                f"the branches of {count(len(sites), 'add')}, {describe_places(sites)}, write"
            )
            who = f"{adds_there} next to nothing, least of all {worst.id}:"
        return self.finding(
            f"{who} {number(-worst.value)} of the stream (threshold "
            f"{number(limits['update_ratio'])}), for the median token{why}",
            ids=site_ids(sort_worst_first(sites)),
            severity=severity,
            confidence="high",
            measured=(-worst.value, limits["update_ratio"]),
            advice="a gate that training opens"
            if scale is not None
            else "look for a lost branch scale or a last projection that is nearly zero; a branch "
            f"that stays silent can be removed; {trace_hint(evidence, worst.id)}",
        )


def _closed_scale(add: ResidualAdd) -> float | None:
    """The learned scale of the branch, where that is what makes it silent."""
    scale = add.branch_scale
    size = scale.rms if scale.value is None else abs(scale.value)
    return size if scale.kind == "learned" and size is not None and size < CLOSED else None
