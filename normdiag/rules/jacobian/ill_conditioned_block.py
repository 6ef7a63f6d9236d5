"""ND503 ill-conditioned-block."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd, layer_id
from normdiag.evidence.blocks import BlockJacobian
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, site_ids, sort_worst_first, trace_hint
from normdiag.rules.thresholds import Limits, Threshold


class IllConditionedBlock(Rule):
    """The Jacobian of a block is nearly singular in float32: a direction of the stream is lost.

    ## What it does

    Reports residual adds and layers that suppress some direction of the stream while passing
    others. Singular values that the placement makes zero are excluded: a post-norm block always
    removes the scale of its output and, with LayerNorm, its mean.

    ## Why it matters

    The skip path should pass every direction. Where the branch cancels it in some direction, what
    earlier layers wrote along it is lost and no gradient returns along it. The block is not
    invertible there, and rounding errors determine what later layers read.

    ## How it is measured

    kappa = sigma_max / sigma_min of dy/dx, x and y the stream before and after the block, as the
    median over four tokens at different depths of context; of two in the middle the smaller one,
    which more than half of the tokens reach. Where kappa is a lower
    bound, it is marked "at least". Products of float16 or bfloat16 hold rounding errors of the
    size of the singular values in question, so models in these formats are not judged: load them
    with `--dtype float32`.

    ## Thresholds

    ## Example

    Block 3 of 6 writes -x into one channel, whose sum is 0.

    ## How to fix

    In training: a smaller initial scale of the branch's last weights, or a learned branch scale
    that starts near 0. In a ported or merged model: compare this block's weights with the
    original's.

    ## When it is wrong

    The first blocks of trained models are extreme: the first layer of SmolLM2-135M has a kappa of
    1e4 to 1e6 at most tokens. Layers 3, 4 and 6 of Gemma 3 270M pass 6e5 at one or two of four
    tokens, up to 8.9e5, as blocks that erase a direction do at all of them. Four tokens are a small
    sample.

    ## References

    * Pennington et al., Resurrecting the Sigmoid in Deep Learning through Dynamical Isometry,
      NeurIPS 2017 (arXiv 1711.04735).
    * Zhang et al., Fixup Initialization, ICLR 2019 (arXiv 1901.09321).
    """

    code = "ND503"
    name = "ill-conditioned-block"
    since = "0.1"
    requirements = ("measurements.blocks",)
    thresholds = (
        Threshold(
            name="kappa",
            unit="sigma_max / sigma_min",
            default=6e5,
            meaning="a condition number above this is a warning",
            source="our choice (2026): float32 resolves singular values down to about 8 ulps of "
            "the largest, so that an exactly singular block measures at most 2^20 = 1.05e6; blocks "
            "that erase one direction of 48 measured 7.3e5 to 1.05e6",
            low=1.0,
        ),
    )
    fires_on = "sample_models/erasing_block.py:build"
    silent_on = "sample_models/erasing_block.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per kind of span: adds, layers."""
        limit = limits["kappa"]
        for span in ("add", "layer"):
            blocks = _blocks_of_span(evidence, span)
            sites = sort_worst_first(
                RatedSite(id=add.id, value=block.kappa, stack=add.stack, layer=add.layer)
                for add, block in blocks
                if block.kappa is not None and block.kappa > limit
            )
            if sites:
                worst = next(block for add, block in blocks if add.id == sites[0].id)
                yield self._finding(evidence, sites, worst, limit)

    def _finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], block: BlockJacobian, limit: float
    ) -> Finding:
        worst = sites[0]
        least = "at least " if block.is_bound else ""
        smallest = (
            "" if block.sigma_min is None else f", sigma_min {format_number(block.sigma_min)}"
        )
        place = worst.id if block.span == "add" else f"layer {block.layer} of {worst.stack}"
        many = (
            f"{format_count(len(sites), block.span)}, {describe_places(sites)}; worst "
            if len(sites) > 1
            else ""
        )
        return self.finding(
            f"the Jacobian of {many}{place} has kappa {least}{format_number(worst.value)} "
            f"(threshold "
            f"{format_setting(limit)}): sigma_max {format_number(block.sigma_max)}{smallest}, "
            f"{_describe_tokens(block, limit)}",
            ids=site_ids(sites),
            severity="warning",
            confidence="medium",
            measured=(worst.value, limit),
            advice=f"compare this block's weights with the original's; "
            f"{trace_hint(evidence, worst.id)}",
        )


def _list_kappas(block: BlockJacobian) -> list[float]:
    """Of each token; infinite where sigma_min is zero."""
    return [math.inf if token.kappa is None else token.kappa for token in block.tokens]


def _describe_tokens(block: BlockJacobian, limit: float) -> str:
    """Where the Jacobians were taken and at how many of the tokens kappa is above `limit`."""
    if len(block.tokens) < 2:
        return f"at position {block.token.position} of sequence {block.token.sequence}"
    kappas = _list_kappas(block)
    above = sum(kappa > limit for kappa in kappas)
    return (
        f"medians over {len(kappas)} tokens; kappa {format_number(min(kappas))} to "
        f"{format_number(max(kappas))}, above the threshold at {above} of them"
    )


def _blocks_of_span(evidence: Evidence, span: str) -> list[tuple[ResidualAdd, BlockJacobian]]:
    """The blocks of this span, each with its last add."""
    measured = evidence.measurements.blocks
    last = {
        (add.stack, add.layer): add
        for add in sorted(evidence.architecture.residual_adds, key=lambda add: add.depth)
    }
    if span == "layer":
        named = [(add, layer_id(stack, layer)) for (stack, layer), add in last.items()]
    else:
        named = [(add, add.id) for add in evidence.architecture.residual_adds]
    return [(add, measured[name]) for add, name in named if name in measured]
