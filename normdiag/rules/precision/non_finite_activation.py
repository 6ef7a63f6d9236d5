"""ND705 non-finite-activation."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.nonfinite import FirstNonFinite, NonFiniteKind, Operand
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

    An overflowing product of q and k: scale q before the product. A division by 0: bound the
    divisor. An overflowing add: run in bfloat16, or scale the stream down (a pre-norm model is
    nearly unchanged when embeddings and all that branches write are divided by the same power of
    two).
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
            measured=(
                first.exact_max,
                _largest_finite(evidence, first) if first.exact_max else None,
            ),
            advice=advice + more,
        )


def _describe_cause(evidence: Evidence, first: FirstNonFinite) -> tuple[str, str]:
    """The cause and the advice. A cause is named only where the numbers show it."""
    largest = _largest_finite(evidence, first)
    if largest is not None and first.exact_max is not None and first.exact_max > largest:
        return (
            f": the exact result is {format_number(first.exact_max)}, above "
            f"{format_setting(largest)}, the largest {_result_format(evidence, first)}"
            f"{_describe_float32_run(first, largest)}",
            _advise_on_overflow(first),
        )
    cause = first.cause
    norm = next((norm for norm in evidence.architecture.norms if norm.id == first.site), None)
    broken = [operand.name for operand in first.operands if operand.nonfinite]
    is_zero = cause is None or cause.kind in _ZERO_DIVISIONS
    if norm is not None and norm.eps == 0 and is_zero and not broken:
        return ": the norm's epsilon is 0 and a row is constant", "set epsilon to 1e-5 or 1e-6"
    if cause is not None:
        why, advice = _CAUSES[cause.kind]
        return f": {why} ({format_count(cause.elements, 'element')})", advice
    if broken:
        return f": {', '.join(broken)} is not finite", "restore that tensor, see ND203"
    return "", "inspect that source line with these operands"


_ZERO_DIVISIONS = frozenset({"zero-by-zero", "division-by-zero", "division-by-zero-root"})
_BOUND_DIVISOR = "bound the divisor from below: add an epsilon, or clamp it"
_BOUND_ARGUMENT = "find what made the value negative, or clamp it before this operation"

_CAUSES: dict[NonFiniteKind, tuple[str, str]] = {
    "overflow": (
        "the exact result is beyond the format",
        "bound or scale the operands before this operation",
    ),
    "partial-sum-overflow": (
        "the exact result fits into the format, a partial sum does not",
        "scale the operands before the sum, or accumulate it in float32",
    ),
    "zero-by-zero": ("0 is divided by 0", _BOUND_DIVISOR),
    "division-by-zero": ("a value other than 0 is divided by 0", _BOUND_DIVISOR),
    "division-by-zero-root": ("1 is divided by the square root of 0", _BOUND_DIVISOR),
    "infinity-by-infinity": (
        "an infinity is divided by an infinity",
        "find where the infinities come from",
    ),
    "negative-root": ("the root of a negative value is taken", _BOUND_ARGUMENT),
    "negative-logarithm": ("the logarithm of a negative value is taken", _BOUND_ARGUMENT),
    "logarithm-of-zero": ("the logarithm of 0 is taken", "bound the argument from below"),
    "zero-times-infinity": (
        "0 is multiplied by an infinity",
        "find where the infinity comes from; to mask, select with where instead of multiplying",
    ),
    "infinite-difference": (
        "an infinity is subtracted from an infinity",
        "find where the infinities come from",
    ),
    "masked-row": (
        "a softmax is taken over a row of -inf alone",
        "leave one position in each row of the mask, or mask with a large finite number",
    ),
}
"""The sentence and the advice for each cause."""


def _advise_on_overflow(first: FirstNonFinite) -> str:
    if first.operation in ("mm", "bmm", "addmm", "baddbmm"):
        return (
            "scale an operand before the product (a factor that follows the product comes too "
            "late), or form the product in bfloat16 or float32"
        )
    if first.operation == "_to_copy":
        return "scale or clamp the value before the cast"
    if first.operation in ("add", "sub"):
        return "run it in bfloat16 or float32, or scale the stream down by a power of two"
    return "run it in a format of wider range, or scale the operands before this operation"


def _describe_float32_run(first: FirstNonFinite, largest: float) -> str:
    wide = first.in_float32
    if wide is None or wide.max_abs <= largest:  # the stream is not what overflowed
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


def _result_format(evidence: Evidence, first: FirstNonFinite) -> str:
    return first.dtype or (evidence.subject.dtype or "").removeprefix("torch.")


def _largest_finite(evidence: Evidence, first: FirstNonFinite) -> float | None:
    """The largest finite value; None for float64, in which the exact result is computed."""
    number_format = NUMBER_FORMATS.get(_result_format(evidence, first))
    if number_format is None or number_format.name == "float64":
        return None
    return number_format.largest
