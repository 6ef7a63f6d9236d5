"""ND405 token-collapse."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd, Stack, layer_id
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import rate_site, site_ids, trace_hint
from normdiag.rules.thresholds import Limits, Threshold

LASTING = 0.25
"""The share of a stack's adds, up to its end, over which the cosine must be above the threshold."""


class TokenCollapse(Rule):
    """The tokens of a sequence collapse to one direction (rank collapse).

    ## What it does

    Reports stacks at whose end the tokens of a sequence point in nearly the same direction, and the
    add from which on they do.

    ## Why it matters

    Later layers then process one vector, their attention is uniform, and queries and keys receive
    no gradient. Training hardly recovers from it. In a trained model it means that one direction,
    often a single channel, dominates the stream.

    ## How it is measured

    At every add the mean cosine of y between tokens of a sequence. The finding needs it above the
    threshold at the last quarter of the stack's adds or more: some language models, GPT-2 among
    them, have a cosine near 1 in their last layer alone, which comes from a few channels.

    ## Thresholds

    ## Example

    24 layers of x <- LN(x + attention(x)) with uniform attention.

    ## How to fix

    Before training: pre-norm instead of post-norm, branches scaled by 1/sqrt(L), attention that
    starts less uniform (larger query and key weights). In a trained model: find the dominant
    channel (`outlier-channel`) and the layer that writes it.

    ## When it is wrong

    The tokens of the inputs may be similar from the first add on, which is info. Models with one
    vector per input collapse by design.

    ## References

    * Dong et al., Attention is Not All You Need: Pure Attention Loses Rank Doubly Exponentially
      with Depth, ICML 2021 (arXiv 2103.03404).
    * Noci et al., Signal Propagation in Transformers: Theoretical Perspectives and the Role of
      Rank Collapse, NeurIPS 2022 (arXiv 2206.03126).
    * Ethayarajh, How Contextual are Contextualized Word Representations?, EMNLP 2019 (arXiv
      1909.00512).
    """

    code = "ND405"
    name = "token-collapse"
    since = "0.1"
    requirements = ("measurements.stream",)
    thresholds = (
        Threshold(
            name="token_cosine",
            unit="mean cosine between tokens",
            default=0.99,
            meaning="a mean cosine above this counts as collapsed",
            source="the gradient of queries and keys is 0.32 (1 - cosine) of that of values: 0.3 % "
            "here (Noci et al. 2022, reproduced)",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/token_collapse.py:build"
    silent_on = "sample_models/token_collapse.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        measured = evidence.measurements.stream
        for stack in evidence.architecture.stacks:
            adds = [
                add for add in evidence.architecture.adds_of_stack(stack.id) if add.id in measured
            ]
            collapsed: list[ResidualAdd] = []
            for add in sorted(adds, key=lambda add: -add.depth):
                cosine = measured[add.id].token_cosine
                if cosine is None or not cosine > limits["token_cosine"]:
                    break
                collapsed.insert(0, add)
            if collapsed and len(collapsed) >= LASTING * len(adds):
                yield self._finding(evidence, stack, collapsed, limits)

    def _finding(
        self, evidence: Evidence, stack: Stack, collapsed: list[ResidualAdd], limits: Limits
    ) -> Finding:
        first, last = collapsed[0], collapsed[-1]
        cosine = evidence.measurements.stream[last.id].token_cosine or 0.0
        layer = evidence.measurements.layers.get(layer_id(stack.id, last.layer))
        rank = ""
        if layer is not None and layer.effective_rank is not None:
            rank = (
                f"; effective rank {format_number(layer.effective_rank)} of {layer.tokens} tokens"
            )
        from_start = first.depth == 0
        return self.finding(
            f"the mean cosine between tokens is {format_number(cosine)} at "
            f"the end of {stack.title} "
            f"(threshold "
            f"{format_setting(limits['token_cosine'])}), above it from {first.id} (layer "
            f"{first.layer}) on"
            f"{rank}{'; from the first add on' if from_start else ''}",
            ids=site_ids([rate_site(add, 0.0) for add in collapsed]),
            severity="info" if from_start else "warning",
            confidence="medium" if from_start else "high",
            measured=(cosine, limits["token_cosine"]),
            advice="run it on other inputs"
            if from_start
            else "find the layer that writes the common direction, and whether it is a single "
            f"channel; {trace_hint(evidence, first.id)}",
        )
