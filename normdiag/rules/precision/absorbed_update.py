"""ND703 absorbed-update."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_percent, format_setting
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
    """Most of a branch's update is absorbed by rounding: x + u = x in the model's format.

    ## What it does

    Reports the residual adds of a float16 or bfloat16 model at which most elements of the update
    leave the stream unchanged. It is a warning for a large part of a stack, info for single adds.

    ## Why it matters

    bfloat16 has 8 significant bits: an addend smaller than 1/512 of a value leaves it unchanged.
    Branches are then without effect, because the stream is too large (an embedding scaled twice) or
    the updates are too small (a residual multiplier applied twice), and in training their gradients
    belong to a function that was not evaluated.

    ## How it is measured

    The share of the non-zero elements of u for which x + u = x in the format: of the run over all
    tokens, of a checkpoint run in a wider format by rounding the sampled tokens' x and u.

    ## Thresholds

    ## Example

    A bfloat16 model whose stream is 128 times too large; the same model with the right scale.

    ## How to fix

    Look for a scale that is applied twice or missing: of the embedding (`sqrt(hidden_size)`), of
    the branches (`residual_multiplier`). Where the scales are right, keep the stream in float32.

    ## When it is wrong

    Single adds with a small branch by design, such as a pruned layer.

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
            meaning="an absorbed share above this is reported",
            source="bfloat16 (2^-8) absorbs 0.75 of a Gaussian u of 0.0011 times the size of x; "
            "trained "
            "models write 0.01 and more, of which it absorbs less than 0.2",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="share_of_adds",
            unit="share of a stack's adds",
            default=0.25,
            meaning="a share of a stack's adds from this on is a warning",
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
                adds = evidence.architecture.adds_of_stack(stack.id)
                lost = [
                    rate_site(add, shares[add.id])
                    for add in adds
                    if shares.get(add.id, 0.0) > limits["share"]
                ]
                if lost:
                    is_wide = len(lost) >= limits["share_of_adds"] * len(adds)
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
        worst = ranked[0]
        span = " to ".join(
            dict.fromkeys(format_percent(each.value) for each in (ranked[-1], worst))
        )
        return self.finding(
            f"{span} of the update u is absorbed (x + u = x) in {name} (threshold "
            f"{format_setting(100 * limits['share'])}%) at {format_count(len(sites), 'add')}, "
            f"{describe_places(sites)}",
            ids=site_ids(ranked),
            severity="warning" if is_wide else "info",
            confidence="high",
            measured=(worst.value, limits["share"]),
            advice="look for a scale of the embedding or of the branches that is applied twice or "
            f"missing, or keep the stream in float32; {trace_hint(evidence, worst.id)}",
        )
