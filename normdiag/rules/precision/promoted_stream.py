"""ND706 promoted-stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.findings import Finding
from normdiag.number_text import format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import trace_hint
from normdiag.rules.thresholds import Limits, Threshold


class PromotedStream(Rule):
    """The stream is promoted to a wider number format between two adds.

    ## What it does

    Reports the add at which a stack's stream changes to a wider format. It is an error where later
    values exceed the range of the first format.

    ## Why it matters

    Such a model is float16 only in part: a branch with float32 weights promotes everything
    downstream to float32, at twice the memory, and hides an overflow. An inference engine that
    keeps the stream in half precision produces infinities from the same checkpoint.

    ## How it is measured

    From the format of each residual add's sum in the forward, and the largest |y| of the adds after
    the change.

    ## Thresholds

    ## Example

    A float16 model with one branch that ends in a float32 matrix.

    ## How to fix

    Run the whole model in bfloat16 or float32; or cast the branch back before the add, if its
    values fit; or scale the stream down, if they do not.

    ## When it is wrong

    Models that keep the stream in float32 by design (`residual_in_fp32`) do so from their first
    add, which is not reported.

    ## References

    * T5 overflows in float16, and has kept one matrix in float32 since:
      github.com/huggingface/transformers, issue 5651 (2020) and pull request 20683 (2022).
    * IEEE 754-2019: the largest finite number of binary16 is 65504.
    """

    code = "ND706"
    name = "promoted-stream"
    since = "0.1"
    requirements = ("architecture.stacks", "measurements.stream")
    thresholds = (
        Threshold(
            name="float16",
            unit="|y|",
            default=int(NUMBER_FORMATS["float16"].largest),
            meaning="larger values of a stream that began in float16 are an error",
            source="(2 - 2^-10) 2^15, the largest finite number of float16 (IEEE 754-2019)",
            low=0.0,
        ),
        Threshold(
            name="bfloat16",
            unit="|y|",
            default=NUMBER_FORMATS["bfloat16"].largest,
            meaning="larger values of a stream that began in bfloat16 are an error",
            source="(2 - 2^-7) 2^127, the largest finite number of bfloat16",
            low=0.0,
        ),
    )
    fires_on = "sample_models/promoted_stream.py:build"
    silent_on = "sample_models/promoted_stream.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        for stack in evidence.architecture.stacks:
            adds = sorted(
                evidence.architecture.adds_of_stack(stack.id),
                key=lambda add: add.depth,
            )
            switch = next(((a, b) for a, b in pairwise(adds) if _is_promotion(a, b)), None)
            if switch is not None:
                yield self._finding(evidence, stack, adds, switch, limits)

    def _finding(
        self,
        evidence: Evidence,
        stack: Stack,
        adds: list[ResidualAdd],
        switch: tuple[ResidualAdd, ResidualAdd],
        limits: Limits,
    ) -> Finding:
        before, after = switch
        measured = evidence.measurements.stream
        behind = [add for add in adds if add.depth >= after.depth and add.id in measured]
        worst = max(behind, key=lambda add: measured[add.id].max_abs, default=after)
        limit = limits[before.dtype or ""]
        largest = measured[worst.id].max_abs if worst.id in measured else 0.0
        first = next((add for add in behind if measured[add.id].max_abs > limit), None)
        size = f"max |y| is {format_number(largest)} at {worst.id}"
        if first is not None:
            bound = f"{format_setting(limit)}, the largest {before.dtype}"
            size += f" and exceeds {bound}, from {first.id} on"
        return self.finding(
            f"the stream of {stack.title} is {before.dtype} up to "
            f"{before.id} and {after.dtype} from "
            f"{after.id} on; {size}",
            ids=(after.id, *([first.id] if first is not None and first.id != after.id else [])),
            severity="info" if first is None else "error",
            confidence="high",
            measured=(largest, limit),
            advice="run the whole model in float32 or bfloat16, or cast the branch back before "
            f"the add; {trace_hint(evidence, after.id)}",
        )


def _is_promotion(before: ResidualAdd, after: ResidualAdd) -> bool:
    return before.dtype in ("float16", "bfloat16") and after.dtype in ("float32", "float64")
