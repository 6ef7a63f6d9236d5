"""ND103 double-final-norm."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod

from normdiag.evidence.architecture import Norm, Stack
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.rule import Rule
from normdiag.rules.site import trace_hint
from normdiag.rules.thresholds import Limits


class DoubleFinalNorm(Rule):
    """Two norms in a row are applied to the stream's last value.

    ## What it does

    Reports consecutive norms at the end of a stack. It is a warning where the same module runs on
    its own output, info otherwise.

    ## Why it matters

    The second norm removes the scale of the first one's output, and without gains it does nothing.
    A final norm that is applied once inside the model and once more by what wraps it
    (`hidden_states[-1]` of many models has been normalised already) changes all logits. Two
    different norms are usually redundant: a post-norm layer already ends with a norm.

    ## How it is measured

    From the data flow: the norms that read the stack's last value, directly or through another
    norm, without weights or pooling in between.

    ## Thresholds

    ## Example

    The final norm of a pre-norm stack, called twice.

    ## How to fix

    The same module twice: remove one call. Two modules: keep both if the checkpoint was trained
    with both, otherwise remove the second.

    ## When it is wrong

    `nn.Transformer` adds a final norm after its post-norm layers by default, and so do detection
    transformers; the projector after an image tower may begin with a norm. Models trained this way
    need both norms; the severity is info.

    ## References

    * Two norms in a row by default: github.com/pytorch/pytorch, issue 50086 (2021).
    * `hidden_states[-1]` is taken after the final norm: github.com/huggingface/transformers, issue
      26142 (2023).
    """

    code = "ND103"
    name = "double-final-norm"
    since = "0.1"
    requirements = ("architecture.stacks",)
    fires_on = "sample_models/odd_norms.py:build_double_final"
    silent_on = "sample_models/odd_norms.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        for stack in evidence.architecture.stacks:
            ends = _trailing_norms(evidence, stack)
            if len(ends) < 2:
                continue
            again = any(_module_path(a) == _module_path(b) for a, b in pairwise(ends))
            row = ", then ".join(norm.id for norm in ends)
            yield self.finding(
                f"the last value of {stack.title} is normalised {len(ends)} times in a row: {row}"
                + (": the same module runs on its own output" if again else ""),
                ids=tuple(norm.id for norm in ends),
                severity="warning" if again else "info",
                confidence="high" if again else "medium",
                measured=(float(len(ends)), 1.0),
                advice=(
                    "call it once"
                    if again
                    else "expected where the checkpoint was trained with both"
                )
                + f"; {trace_hint(evidence, ends[-1].id)}",
            )


def _trailing_norms(evidence: Evidence, stack: Stack) -> list[Norm]:
    """The norms on the stack's last value, in order, that run on all of its tokens."""
    adds = evidence.architecture.adds_of_stack(stack.id)
    last = max(adds, key=lambda add: add.depth, default=None)
    norms = {norm.id: norm for norm in evidence.architecture.norms}
    trailing = [norms[last.stream_norm]] if last and last.stream_norm in norms else []
    trailing += [n for n in norms.values() if n.role == "final" and n.stack == stack.id]
    return [norm for norm in trailing if prod(norm.shape) == prod(trailing[0].shape)]


def _module_path(norm: Norm) -> str:
    return norm.id.partition("@")[0]
