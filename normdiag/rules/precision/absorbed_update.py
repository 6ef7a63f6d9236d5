"""ND703 absorbed-update."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count, number
from normdiag.rules.number_formats import checkpoint_formats, precision_measurement
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_places,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold


class AbsorbedUpdate(Rule):
    """Most of what the branches write is rounded away: x + u is x in the model's format.

    ## What it does

    Names the residual adds of a float16 or bfloat16 model at which most elements of the branch
    leave the stream exactly as it was. A warning where that holds for a good part of a stack, for
    information where it is single adds.

    ## Why it matters

    bfloat16 has 8 significant bits: what is smaller than 1/512 of a value leaves it unchanged. A
    stream that is too large for its branches (an embedding scaled twice) or branches that write
    too little (a residual multiplier applied twice) then compute for nothing, and in training
    their gradients belong to a function that was never evaluated.

    ## How it is measured

    The share of the non-zero elements of u for which x + u = x in the format: of the run over all
    tokens, of a checkpoint run in a wider format by rounding the sampled tokens' x and u.

    ## Thresholds

    ## Example

    A bfloat16 model whose stream is 128 times too large; the same model with the right scale.

    ## How to fix

    Look for a scale that is applied twice, or not at all: of the embedding (`sqrt(hidden_size)`),
    of the branches (`residual_multiplier`). Where the sizes are right, keep the stream in float32.

    ## When it is wrong

    Single adds whose branch has little to say, such as a layer that was pruned to nothing.

    ## References

    * Zamirain et al., Revisiting BFloat16 Training, 2020 (arXiv 2010.06192): updates lost to
      nearest rounding, there of weights.
    * An embedding scale applied twice: github.com/google/gemma_pytorch, issue 67 (2024).
    """

    code = "ND703"
    name = "absorbed-update"
    since = "0.1"
    requirements = ("measurements.precision",)
    thresholds = (
        Threshold(
            name="share",
            unit="share of u",
            default=0.75,
            meaning="an add swallows its update above this",
            source="with its 2^-8, bfloat16 swallows 0.75 of a Gaussian u of 0.0011 times the size "
            "of x; trained models write 0.01 and more, of which it swallows less than 0.2",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="adds",
            unit="share of a stack's adds",
            default=0.25,
            meaning="from this on it is a warning",
            source="2^-2 of them: more than single layers that write little",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/absorbed_update.py:build"
    silent_on = "sample_models/absorbed_update.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per format and stack."""
        known = precision_measurement(evidence).formats
        for name in sorted(checkpoint_formats(evidence) & {"float16", "bfloat16"} & known.keys()):
            shares = known[name].absorbed_updates
            for stack in evidence.architecture.stacks:
                adds = [a for a in evidence.architecture.residual_adds if a.stack == stack.id]
                lost = [
                    rate_site(add, shares[add.id])
                    for add in adds
                    if shares.get(add.id, 0.0) > limits["share"]
                ]
                if lost:
                    is_wide = len(lost) >= limits["adds"] * len(adds)
                    yield self._finding(evidence, name, lost, limits, is_wide=is_wide)

    def _finding(
        self,
        evidence: Evidence,
        name: str,
        sites: list[RatedSite],
        limits: Limits,
        *,
        is_wide: bool,
    ) -> Finding:
        ranked = sort_worst_first(sites)
        worst, least = ranked[0], ranked[-1]
        span = f"{number(100 * worst.value)} %"
        if least is not worst:
            span = f"{number(100 * least.value)} to {span}"
        return self.finding(
            f"{span} of what the branch writes is swallowed: x + u is x in {name} (threshold "
            f"{number(100 * limits['share'])} %), at {count(len(sites), 'add')}, {describe_places(sites)}",
            ids=site_ids(ranked),
            severity="warning" if is_wide else "info",
            confidence="high",
            measured=(worst.value, limits["share"]),
            advice="look for a scale of the embedding or of the branches that is applied twice or "
            f"missing, or keep the stream in float32; {trace_hint(evidence, worst.id)}",
        )
