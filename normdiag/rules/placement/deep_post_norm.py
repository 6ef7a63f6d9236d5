"""ND101 deep-post-norm."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import number
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits, Threshold


class DeepPostNorm(Rule):
    """A deep stack normalises its stream after every add, so no path through it is free of norms.

    ## What it does

    Names stacks of placement `post`, N(x + F(x)), with more layers than are known to train without
    special care.

    ## Why it matters

    In a pre-norm stack the stream runs past all norms from the first layer to the last. In a
    post-norm stack the way back for the gradient leads through every one of them. Such models
    need a long warm-up, and deep ones diverge: with the same recipe a pre-norm model trains.

    ## How it is measured

    From the architecture alone: the placement that the data flow shows, and the number of layers.
    A scale on the skip operand makes it `deepnorm`, which is another placement and no defect.

    ## Thresholds

    ## Example

    64 layers of ln(x + mlp(x)) against 48 of x + fc(ln(x)).

    ## How to fix

    Before training: move the norm into the branch and add a final norm (pre-norm), or keep it and
    scale the skip by (2L)^(1/4) with branch weights scaled by (8L)^(-1/4) at the start (DeepNorm).
    For a trained checkpoint: keep the learning rate low and the warm-up long when fine-tuning.

    ## When it is wrong

    The placement of a trained checkpoint that is only run is a fact, not a defect. Nor is the
    mechanism settled: recomputed in the theoretical setting of the first paper, the gradient of a
    post-norm stack is flat over depth. What was seen again and again is that such models need the
    warm-up and that deep ones diverge.

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
            meaning="more layers than this are reported",
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
                    f"{stack.id} is post-norm, {stack.drawing}, and {stack.layers} layers deep "
                    f"(threshold {number(limit)})",
                    ids=(stack.id,),
                    severity="warning",
                    confidence="medium",
                    measured=(float(stack.layers), limit),
                    advice="train it with a long warm-up, or move the norms into the branches "
                    "(pre-norm), or scale the skip by (2L)^(1/4) (DeepNorm)",
                )
