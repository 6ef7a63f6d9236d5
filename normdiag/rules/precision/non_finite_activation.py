"""ND705 non-finite-activation."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.nonfinite import FirstNonFinite, Operand
from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_factor, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import trace_hint
from normdiag.rules.thresholds import Limits


class NonFiniteActivation(Rule):
    """The forward produces a non-finite value.

    ## What it does

    Reports the first operation whose result holds NaN or infinity, with its module and source line,
    the ranges of its operands, and the cause where it is known.

    ## Why it matters

    Everything downstream of that operation is invalid. Frameworks usually notice it later: two
    finite operands of a residual add overflow, and the error appears at the next norm.

    ## How it is measured

    Each operation of the forward is checked, not only module outputs, so additions between modules
    are covered. For an addition the exact result is computed in float64 and compared with the
    largest number of the format: float16 ends at 65504. A float32 copy of a half-precision model of
    up to 2^28 parameters is run once to measure the range that its stream would need.

    ## Thresholds

    ## Example

    A float16 stream of 60000 to which a branch adds 30000; the same model in float32.

    ## How to fix

    An overflowing add: run in bfloat16, or scale the stream down (a pre-norm model is nearly
    unchanged when embeddings and all that branches write are divided by the same power of two).
    A norm with epsilon 0: set it. A parameter that is not finite: see ND203, nothing else matters.

    ## When it is wrong

    The inputs may be unlike those that the model was trained on: random token ids reach states that
    text does not.

    ## References

    * Overflow at a residual add that module hooks cannot see: github.com/huggingface/transformers,
      issue 12225 (2021).
    * Gemma 3 in float16: github.com/huggingface/transformers, issue 36822 (2025).
    """

    code = "ND705"
    name = "non-finite-activation"
    since = "0.1"
    requirements = ("values",)
    fires_on = "sample_models/overflowing_add.py:build"
    silent_on = "sample_models/overflowing_add.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """At most one finding: the first non-finite value."""
        first = evidence.measurements.first_nonfinite
        if first is None:
            return
        where = first.site or first.module
        line = f" ({first.line})" if first.line else ""
        why, advice = _describe_cause(evidence, first)
        more = f"; {trace_hint(evidence, first.site)}" if first.site else ""
        yield self.finding(
            f"{format_count(first.count, first.kind)} first produced by {first.operation} at "
            f"{where}{line}, "
            f"from {' and '.join(_format_range(operand) for operand in first.operands)}{why}",
            ids=(where,),
            severity="error",
            confidence="high",
            measured=(first.exact_max, _largest_finite(evidence) if first.exact_max else None),
            advice=advice + more,
        )


def _describe_cause(evidence: Evidence, first: FirstNonFinite) -> tuple[str, str]:
    """The cause and the advice. A cause is named only where the numbers show it."""
    broken = [operand.name for operand in first.operands if operand.nonfinite]
    if broken:
        return f": {', '.join(broken)} is not finite", "restore that tensor, see ND203"
    largest = _largest_finite(evidence)
    if first.exact_max is not None and largest is not None and first.exact_max > largest:
        exact = format_number(first.exact_max)
        over = f": the exact result is {exact}, above {format_setting(largest)}"
        return (
            f"{over}, the largest {_run_format(evidence)}{_describe_float32_run(first, largest)}",
            ("run it in bfloat16 or float32, or scale the stream down by a power of two"),
        )
    norm = next((norm for norm in evidence.architecture.norms if norm.id == first.site), None)
    if norm is not None and norm.eps == 0:
        return ": the norm's epsilon is 0 and a row is constant", "set epsilon to 1e-5 or 1e-6"
    return "", "inspect that source line with these operands"


def _describe_float32_run(first: FirstNonFinite, largest: float) -> str:
    wide = first.in_float32
    if wide is None:
        return ""
    return (
        f"; in float32 the stream reaches {format_number(wide.max_abs)} "
        f"({format_factor(wide.max_abs / largest)} the largest) at {wide.site}"
    )


def _format_range(operand: Operand) -> str:
    bad = f", {operand.nonfinite} not finite" if operand.nonfinite else ""
    if operand.min is None or operand.max is None:
        return f"{operand.name} (no finite value)"
    return f"{operand.name} in [{format_number(operand.min)}, {format_number(operand.max)}]{bad}"


def _run_format(evidence: Evidence) -> str:
    return (evidence.subject.dtype or "").removeprefix("torch.")


def _largest_finite(evidence: Evidence) -> float | None:
    """The largest finite value; None for float64, in which the exact result is computed."""
    number_format = NUMBER_FORMATS.get(_run_format(evidence))
    if number_format is None or number_format.name == "float64":
        return None
    return number_format.largest
