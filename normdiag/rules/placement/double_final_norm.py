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
    """A stream's last value goes through two norms in a row.

    ## What it does

    Names the norms that follow each other, with nothing between them, at the end of a stack.
    Where the same module runs on its own output, that is a warning.

    ## Why it matters

    The second norm undoes the scale that the first one's gain gave, and without gains it does
    nothing. A final norm that is applied once inside the model and once more by what wraps it
    (`hidden_states[-1]` of many models has been normalised already) changes all logits; two
    different ones are mostly a leftover: a post-norm layer ends with a norm of its own.

    ## How it is measured

    From the data flow: the norms that read the stack's last value, directly or through another
    norm, with neither weights nor a pooling between them.

    ## Thresholds

    ## Example

    The final norm of a pre-norm stack, called twice.

    ## How to fix

    The same module twice: drop one of the calls. Two modules: keep both if the checkpoint was
    trained so, and drop the second one where it was not, as before the first training.

    ## When it is wrong

    `nn.Transformer` puts a final norm behind its post-norm layers by default, and detection
    transformers do the same; a projector behind an image tower may begin with a norm of its own.
    Models that were trained so need it, and it is only mentioned.

    ## References

    * Two norms in a row by default: github.com/pytorch/pytorch, issue 50086 (2021).
    * `hidden_states[-1]` is behind the final norm: github.com/huggingface/transformers, issue 26142
      (2023).
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
                f"the last value of {stack.id} is normalised {len(ends)} times in a row: {row}"
                + (": the same module runs on its own output" if again else ""),
                ids=tuple(norm.id for norm in ends),
                severity="warning" if again else "info",
                confidence="high" if again else "medium",
                measured=(float(len(ends)), 1.0),
                advice=("call it once" if again else "right where the checkpoint was trained so")
                + f"; {trace_hint(evidence, ends[-1].id)}",
            )


def _trailing_norms(evidence: Evidence, stack: Stack) -> list[Norm]:
    """The norms on the stack's last value, in order, as long as none of its tokens is left out."""
    own = [add for add in evidence.architecture.residual_adds if add.stack == stack.id]
    last = max(own, key=lambda add: add.depth, default=None)
    norms = {norm.id: norm for norm in evidence.architecture.norms}
    found = [norms[last.stream_norm]] if last and last.stream_norm in norms else []
    found += [n for n in norms.values() if n.role == "final" and n.stack == stack.id]
    return [norm for norm in found if prod(norm.shape) == prod(found[0].shape)]


def _module_path(norm: Norm) -> str:
    return norm.id.partition("@")[0]
