"""ND109 missing-residual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from normdiag.evidence.architecture import Doubling, StreamBreak
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Confidence, Finding
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

    Architectures without skip connections by design. Info where the code can mean it: a branch that
    is the first of its stack, so that the stream begins with its output (the mask decoder of SAM),
    and a single product, which may be a projection between two streams.

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
        """One finding per kind of break, one for sums of the stream with itself elsewhere."""
        breaks = evidence.architecture.breaks
        kinds = dict.fromkeys(map(_kind_of_break, breaks))
        for kind in kinds:
            yield self._broken_branches([b for b in breaks if _kind_of_break(b) == kind])
        doublings = evidence.architecture.doublings
        if doublings and not any(each.is_doubled for each in breaks):
            yield self._doubled_stream(doublings)

    def _broken_branches(self, breaks: Sequence[StreamBreak]) -> Finding:
        named = list_places(tuple(dict.fromkeys(map(_describe_branch, breaks))))
        many = format_count(len(breaks), "branch", "branches")
        kind = _kind_of_break(breaks[0])
        if kind.is_whole_model:
            message = (
                f"no layer has a residual add: {many} replace the value that they read, {named}"
            )
        elif len(breaks) == 1:
            message = f"no residual around {named}: its output replaces the stream"
        else:
            message = f"no residual around {many}, {named}: their outputs replace the stream"
        if kind.is_doubled:
            message += "; the output is then added to itself, x + x, which doubles it"
        sure: Confidence = "medium" if kind.is_whole_model else "high"
        return self.finding(
            message,
            ids=tuple(dict.fromkeys(each.last_module for each in breaks)),
            severity="info" if kind.may_be_meant else "warning",
            confidence="low" if kind.may_be_meant else sure,
            measured=(float(len(breaks)), 0.0),
            advice="add the output of the branch to its input; expected for "
            + (
                "a projection between two streams, or one that begins a stream"
                if kind.may_be_meant
                else "an architecture without skip connections"
            ),
        )

    def _doubled_stream(self, doublings: Sequence[Doubling]) -> Finding:
        places = tuple(
            (each.module or "the model") + (f" ({each.line})" if each.line else "")
            for each in doublings
        )
        ids = dict.fromkeys(each.module or each.stack or "" for each in doublings)
        return self.finding(
            f"the stream is added to itself, x + x, in {list_places(places)}, which doubles it",
            ids=tuple(ids),
            severity="warning",
            confidence="medium",
            measured=(float(len(doublings)), 0.0),
            advice="add the output of the branch to its input; where a factor of 2 is meant, "
            "write it as one",
        )


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the breaks of one finding have in common."""

    is_whole_model: bool
    is_doubled: bool
    may_be_meant: bool


def _kind_of_break(each: StreamBreak) -> _Kind:
    """A first branch, or a single product, can be a projection that is meant to begin a stream."""
    is_doubtful = each.is_first or each.contractions == 1
    return _Kind(
        is_whole_model=each.stack is None,
        is_doubled=each.is_doubled,
        may_be_meant=is_doubtful and not each.is_doubled and each.stack is not None,
    )


def _describe_branch(each: StreamBreak) -> str:
    """Name the modules at its ends: "blocks.2.attn.q to blocks.2.attn.out"."""
    ends = dict.fromkeys((each.first_module or "the model", each.last_module or "the model"))
    return " to ".join(ends)
