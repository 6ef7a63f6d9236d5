"""ND102 missing-final-norm."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Confidence, Finding, Severity
from normdiag.number_text import format_number
from normdiag.rules.rule import Rule
from normdiag.rules.site import trace_hint
from normdiag.rules.thresholds import Limits

BRANCH_NORM_PLACEMENTS = ("pre", "sandwich", "branch-output", "parallel-pre")
"""Placements that leave the stream itself without a norm."""
TEXT_INPUT_KINDS = ("texts", "user-texts", "random-ids")


class MissingFinalNorm(Rule):
    """The stream of a pre-norm stack is read without a final norm.

    ## What it does

    Checks the last stack of the forward: it is reported where its norms act on branches only and no
    norm follows its last add.

    ## Why it matters

    Such a stream grows with depth, differently for each token. A head that reads it produces logits
    whose scale depends on depth and token, where it expects unit size. In ported code a missing
    final norm is one of the most common errors.

    ## How it is measured

    From the architecture: the placement of the stack's last add, the norm that reads the stream's
    last value, and its other readers. A later norm of the stream's width counts as well, such as
    one after pooling over tokens. Stacks that feed another stack (the stages of a vision model, an
    image tower before a language model) are not judged, nor are stacks with BatchNorm or GroupNorm,
    whose branches accept a stream of any scale.

    The severity depends on what reads the stream: a weight contraction outside the stack is a
    warning; where the model returns it, as encoders may, it is info.

    ## Thresholds

    ## Example

    48 pre-norm blocks without the final norm.

    ## How to fix

    Normalise the stream between the last layer and the head with the checkpoint's gain (such as
    `model.norm.weight`, `transformer.ln_f.weight`, `encoder.final_layer_norm.weight`). If the
    checkpoint has that gain, ND003 lists it as unexpected.

    ## When it is wrong

    Post-norm models need none: their last layer ends with a norm. Some image encoders have none
    because their projector was trained on unnormalised features.

    ## References

    * Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020
      (arXiv 2002.04745): pre-norm needs the additional norm before the prediction.
    * A final norm that a library failed to find: github.com/AlignmentResearch/tuned-lens, issue 56
      (2023).
    """

    code = "ND102"
    name = "missing-final-norm"
    since = "0.1"
    requirements = ("architecture.stacks",)
    fires_on = "sample_models/pre_norm.py:build_without_final_norm"
    silent_on = "sample_models/pre_norm.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """At most one finding, of the last stack."""
        stack = evidence.architecture.stacks[-1]
        last = _last_add(evidence, stack)
        if last is None or not _is_unnormalised(evidence, stack, last):
            return
        severity, confidence, reader = _describe_reader(evidence, stack)
        head = evidence.measurements.head_input
        size = f", rms {format_number(head.rms)}" if head else ""
        yield self.finding(
            f"no norm follows {stack.title} ({stack.layers} layers, {last.placement}): "
            f"{reader} the unnormalised stream{size}",
            ids=(stack.id, last.id),
            severity=severity,
            confidence=confidence,
            advice=f"normalise the stream after {last.module or last.id}; "
            f"{trace_hint(evidence, last.id)}",
        )


def _last_add(evidence: Evidence, stack: Stack) -> ResidualAdd | None:
    adds = evidence.architecture.adds_of_stack(stack.id)
    return max(adds, key=lambda add: add.depth, default=None)


def _is_unnormalised(evidence: Evidence, stack: Stack, last: ResidualAdd) -> bool:
    return (
        last.placement in BRANCH_NORM_PLACEMENTS
        and last.stream_norm is None
        and stack.final_norm is None
        and stack.norm_kind in ("layernorm", "rmsnorm")
        and stack.read_by not in ("norm", "stack", "residual-add")
        and not _has_later_norm(evidence, stack)
    )


def _has_later_norm(evidence: Evidence, stack: Stack) -> bool:
    """Does a norm of the stream's width run after the stack's own? Norms are in forward order."""
    norms = evidence.architecture.norms
    own = [index for index, norm in enumerate(norms) if norm.stack == stack.id]
    later = norms[max(own, default=-1) + 1 :]
    return any(norm.features == stack.width for norm in later)


def _describe_reader(evidence: Evidence, stack: Stack) -> tuple[Severity, Confidence, str]:
    if stack.read_by == "head":
        return "warning", "medium", "the next layer reads"
    if stack.read_by is None and evidence.subject.probe.kind in TEXT_INPUT_KINDS:
        return "warning", "low", "the head reads"
    return "info", "low", "the caller receives"
