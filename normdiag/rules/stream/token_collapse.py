"""ND405 token-collapse."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import number
from normdiag.rules.rule import Rule
from normdiag.rules.site import rate_site, site_ids, trace_hint
from normdiag.rules.thresholds import Limits, Threshold

LASTING = 0.25
"""The share of a stack's adds, up to its end, over which tokens must be alike."""


class TokenCollapse(Rule):
    """All tokens of a sequence have become one and the same vector.

    ## What it does

    Names stacks at whose end the tokens of a sequence point in one direction, and the add from
    which on they do.

    ## Why it matters

    What is the same for every token tells nothing of any: the layers behind work on one vector, the
    attention there is uniform, and its queries and keys get no gradient. Training that starts so
    hardly gets away from it. In a trained model it means that one direction, often a single
    channel, has outgrown everything else.

    ## How it is measured

    At every add the mean cosine of y between tokens of a sequence. The finding needs it above the
    threshold at the last quarter of the stack's adds or more: some language models, GPT-2 among
    them, have a cosine near 1 in their last layer alone, which comes from a few channels.

    ## Thresholds

    ## Example

    24 layers of x <- LN(x + attention(x)) with uniform attention.

    ## How to fix

    Before training: pre-norm instead of post-norm, branches scaled by 1/sqrt(L), attention that
    starts less uniform (larger query and key weights). In a trained model: see which channel holds
    the stream (`outlier-channel`), and which layer writes it.

    ## When it is wrong

    The probe's tokens may be alike from the start: then it says so, for information. Models of one
    vector per input have nothing else to hold.

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
            meaning="tokens with a larger one are alike",
            source="the gradient of queries and keys is 0.32 (1 - cosine) of that of values: 0.3 % "
            "here (Noci et al. 2022, reproduced); SmolLM2, MiniLM and an ALBERT stay below 0.7",
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
                add
                for add in evidence.architecture.residual_adds
                if add.stack == stack.id and add.id in measured
            ]
            alike: list[ResidualAdd] = []
            for add in sorted(adds, key=lambda add: -add.depth):
                cosine = measured[add.id].token_cosine
                if cosine is None or not cosine > limits["token_cosine"]:
                    break
                alike.insert(0, add)
            if alike and len(alike) >= LASTING * len(adds):
                yield self._finding(evidence, stack, alike, limits)

    def _finding(
        self, evidence: Evidence, stack: Stack, alike: list[ResidualAdd], limits: Limits
    ) -> Finding:
        first, last = alike[0], alike[-1]
        cosine = evidence.measurements.stream[last.id].token_cosine or 0.0
        layer = evidence.measurements.layers.get(f"{stack.id}/layer#{last.layer}")
        rank = ""
        if layer is not None and layer.effective_rank is not None:
            rank = f"; effective rank {number(layer.effective_rank)} of {layer.tokens} tokens"
        from_start = first.depth == 0
        return self.finding(
            f"tokens have a mean cosine of {number(cosine)} at the end of {stack.id} (threshold "
            f"{number(limits['token_cosine'])}), above it from {first.id}, layer {first.layer}, on"
            f"{rank}{'; they are alike from the first add on' if from_start else ''}",
            ids=site_ids([rate_site(add, 0.0) for add in alike]),
            severity="info" if from_start else "warning",
            confidence="medium" if from_start else "high",
            measured=(cosine, limits["token_cosine"]),
            advice="compare it with the tokens of other inputs"
            if from_start
            else "see which layer writes the common direction, and whether one channel is all of "
            f"it; {trace_hint(evidence, first.id)}",
        )
