"""ND101 deep-post-norm."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits, Threshold


class DeepPostNorm(Rule):
    """A deep stack is post-norm, so every path through it passes all norms.

    ## What it does

    Reports stacks of placement `post`, N(x + F(x)), with more layers than are known to train with
    warm-up alone.

    ## Why it matters

    In a pre-norm stack the skip path has no norms. In a post-norm stack the gradient passes every
    norm. Such models need a long warm-up, and deep ones diverge where a pre-norm model trains with
    the same recipe.

    ## How it is measured

    From the architecture alone: the placement in the data flow and the number of layers. A scale on
    the skip operand makes it `deepnorm`, a different placement that is not reported.

    ## Thresholds

    ## Example

    64 layers of ln(x + mlp(x)); 48 layers of x + fc(ln(x)).

    ## How to fix

    Before training: move the norm into the branch and add a final norm (pre-norm), or keep it and
    scale the skip by (2L)^(1/4) with branch weights scaled by (8L)^(-1/4) at the start (DeepNorm).
    For a trained checkpoint: keep the learning rate low and the warm-up long when fine-tuning.

    ## When it is wrong

    For inference with a trained checkpoint the placement is not a defect. The mechanism is not
    settled. In the theoretical setting of the first paper (64 layers, width 192, at initialisation)
    the gradient does not vanish exponentially, nor is it constant over depth: between the last and
    the first residual sum it falls by a factor of 0.6 to 7 with 4 tokens, and of 11 to 79 with 512
    (five seeds each). What falls is the part that differs between tokens, in the upper layers,
    where attention has made them alike; docs/claims.md has the figures. That such models need
    warm-up and that deep ones diverge has been observed repeatedly.

    ## References

    * Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020
      (arXiv 2002.04745).
    * Liu et al., Understanding the Difficulty of Training Transformers (Admin), EMNLP 2020
      (arXiv 2004.08249).
    * Wang et al., DeepNet: Scaling Transformers to 1,000 Layers, 2022 (arXiv 2203.00555).
    """

    code = "ND101"
    name = "deep-post-norm"
    since = "0.1"
    requirements = ("architecture.stacks",)
    thresholds = (
        Threshold(
            name="layers",
            unit="layers",
            default=24,
            meaning="a post-norm stack with more layers is reported",
            source="BERT-large and RoBERTa-large, the deepest post-norm models in wide use that "
            "train with warm-up alone, have 24 (Devlin et al. 2019, Liu et al. 2019)",
            low=1,
        ),
    )
    fires_on = "sample_models/post_norm.py:build"
    silent_on = "sample_models/pre_norm.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        limit = limits["layers"]
        for stack in evidence.architecture.stacks:
            if stack.placement == "post" and stack.layers > limit:
                yield self.finding(
                    f"{stack.title} is post-norm, {stack.drawing}, with {stack.layers} layers "
                    f"(threshold {format_setting(limit)})",
                    ids=(stack.id,),
                    severity="warning",
                    confidence="medium",
                    measured=(float(stack.layers), limit),
                    advice="train it with a long warm-up, or move the norms into the branches "
                    "(pre-norm), or scale the skip by (2L)^(1/4) (DeepNorm)",
                )
