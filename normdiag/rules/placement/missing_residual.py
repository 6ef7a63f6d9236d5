"""ND109 missing-residual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import StreamBreak
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.site import list_places
from normdiag.rules.thresholds import Limits


class MissingResidual(Rule):
    """The output of a branch replaces the stream instead of being added to it.

    ## What it does

    Reports branches that read the stream and are not added to it, models in which no layer has a
    residual add, and additions of the stream to itself.

    ## Why it matters

    Behind such a branch nothing remains of what earlier layers wrote but what passes through its
    weights, and the gradient has no path around them. The model runs, and trains worse. Causes are
    `x = attn(norm(x))` where `x = x + attn(norm(x))` was meant, and `x = x + x` for
    `x = residual + x`.

    ## How it is measured

    From the data flow. Between two chains of residual adds of one shape stands a stretch around
    which nothing carries the stream. It is a missing residual where it contracts as branches of
    these chains do, weight by weight in shape and order; where such a branch runs before the first
    or behind the last add of a layer that lacks it; or where the same stretch repeats between
    several chains. In a model without residual adds it is what stands between two norms of the
    same shape, where at least two such stretches mix tokens as attention or a state space does.

    ## Thresholds

    ## Example

    Block 3 of 6 computes x = mix(ln1(x)), the others x = x + mix(ln1(x)).

    ## How to fix

    Add the branch to its input in the reported module. A model that was trained without the
    residual needs to be trained again.

    ## When it is wrong

    Architectures without skip connections by design. Where the branch is the first of a stack, the
    stream begins with its output, which some models mean to do (the mask decoder of SAM); that is
    info.

    ## References

    * He et al., Deep Residual Learning for Image Recognition, CVPR 2016 (arXiv 1512.03385).
    * Dong et al., Attention is not all you need: pure attention loses rank doubly exponentially
      with depth, ICML 2021 (arXiv 2103.03404): without skip connections.
    * Noci et al., Signal Propagation in Transformers, NeurIPS 2022 (arXiv 2206.03126).
    """

    code = "ND109"
    name = "missing-residual"
    since = "0.1"
    requirements = ("forward",)
    fires_on = "sample_models/broken_wiring.py:build_lost_residual"
    silent_on = "sample_models/broken_wiring.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for the branches, one for sums of the stream with itself elsewhere."""
        breaks = evidence.architecture.breaks
        if breaks:
            yield self._broken_branches(breaks)
        doublings = evidence.architecture.doublings
        if doublings and not any(each.is_doubled for each in breaks):
            places = tuple(f"{each.module or 'the model'} ({each.line})" for each in doublings)
            yield self.finding(
                f"the stream is added to itself, x + x, in {list_places(places)}: it is doubled, "
                "and no branch is added",
                ids=tuple(dict.fromkeys(each.module for each in doublings)),
                severity="warning",
                confidence="medium",
                measured=(float(len(doublings)), 0.0),
                advice="add the output of the branch to its input; where a factor of 2 is meant, "
                "write it as one",
            )

    def _broken_branches(self, breaks: Sequence[StreamBreak]) -> Finding:
        named = list_places(tuple(dict.fromkeys(map(_describe_branch, breaks))))
        if all(each.stack is None for each in breaks):
            message = (
                f"no layer has a residual add: {format_count(len(breaks), 'branch', 'branches')} "
                f"replace the value that they read, {named}"
            )
        elif len(breaks) == 1:
            message = f"no residual around {named}: its output replaces the stream"
        else:
            message = (
                f"no residual around {format_count(len(breaks), 'branch', 'branches')}, {named}: "
                "their outputs replace the stream"
            )
        if any(each.is_doubled for each in breaks):
            message += "; the output is then added to itself, x + x, which doubles it"
        begins = all(each.is_first for each in breaks)
        return self.finding(
            message,
            ids=tuple(dict.fromkeys(each.last_module for each in breaks)),
            severity="info" if begins else "warning",
            confidence="high" if any(each.stack is not None for each in breaks) else "medium",
            measured=(float(len(breaks)), 0.0),
            advice="add the output of the branch to its input; expected for an architecture "
            "without skip connections",
        )


def _describe_branch(each: StreamBreak) -> str:
    """Name the modules at its ends: "blocks.2.attn.q to blocks.2.attn.out"."""
    ends = dict.fromkeys((each.first_module or "the model", each.last_module or "the model"))
    return " to ".join(ends)
