from __future__ import annotations

import pytest

from normdiag.evidence.nonfinite import FirstNonFinite, NonFiniteCause, Operand
from normdiag.evidence.stream import HeadInput
from tests.rules.builders import evidence, judge_rule, norms, one, run_rule

X = Operand(name="skip", min=-3.0, max=60000.0, nonfinite=0)
U = Operand(name="branch", min=-1.0, max=12000.0, nonfinite=0)


def first(*operands: Operand, dtype: str = "float16", result: str | None = None, eps=1e-5, **given):
    fields = {
        "operation": "add",
        "module": "layers.5",
        "line": "modeling.py:301",
        "site": "layers.5/add#0",
        "layer": 5,
        "kind": "inf",
        "count": 8,
        "operands": operands,
        "exact_max": None,
        "dtype": result or dtype,
        **given,
    }
    return evidence(
        subject={"dtype": dtype},
        norms=norms(8, eps=eps),
        first_nonfinite=FirstNonFinite(**fields),
    )


def test_a_finite_forward_is_silent() -> None:
    assert run_rule(evidence(head_input=HeadInput(rms=1.0, max_abs=4.0)), "ND705") == ()


def test_an_add_that_overflows_names_both_operands_and_the_exact_sum() -> None:
    finding = one(first(X, U, exact_max=72000.0), "ND705")
    assert (finding.severity, finding.confidence) == ("error", "high")
    assert (finding.value, finding.threshold) == (72000.0, 65504.0)
    assert finding.ids == ("layers.5/add#0",)
    assert "8 infs first produced by add at layers.5/add#0" in finding.message
    assert "skip in [-3.00, 60,000] and branch in [-1.000, 12,000]" in finding.message
    assert "the exact result is 72,000, above 65504, the largest float16" in finding.message
    assert "bfloat16" in finding.advice and "--site 'layers.5/add#0'" in finding.advice


def test_a_parameter_that_is_not_finite_is_not_called_overflow() -> None:
    gain = Operand(name="weight", min=0.5, max=2.0, nonfinite=1)
    finding = one(first(X, gain, kind="nan", count=8, site="layers.2.norm"), "ND705")
    assert "weight is not finite" in finding.message and "ND203" in finding.advice
    assert "overflow" not in finding.message and "exact" not in finding.message
    assert finding.value is None is finding.threshold


def test_an_epsilon_of_zero_is_named() -> None:
    zero = Operand(name="x", min=0.0, max=3.0, nonfinite=0)
    finding = one(first(zero, eps=0.0, kind="nan", site="layers.0.norm"), "ND705")
    assert "epsilon is 0" in finding.message and "set epsilon" in finding.advice


def test_where_nothing_explains_it_nothing_is_made_up() -> None:
    finding = one(first(X, site=None, kind="nan"), "ND705")
    assert finding.ids == ("layers.5",) and "--site" not in finding.advice
    assert finding.message.endswith("from skip in [-3.00, 60,000]")


def test_a_sum_within_the_format_is_no_overflow() -> None:
    finding = one(first(X, U, exact_max=72000.0, dtype="float32"), "ND705")
    assert "above" not in finding.message


def test_without_values_it_is_skipped() -> None:
    judgement = judge_rule(evidence(norms=norms(1), subject={"mode": "structure-only"}), "ND705")
    assert judgement.passed == () and "not run with weights" in judgement.skipped[0].why


def test_a_product_that_overflows_names_its_factors() -> None:
    q = Operand(name="q", min=-136.0, max=120.0, nonfinite=0)
    fields = {"operation": "bmm", "site": None, "module": "layers.2.attn", "result": "float16"}
    finding = one(first(q, q, exact_max=189713.0, **fields), "ND705")
    assert "q in [-136, 120] and q in [-136, 120]" in finding.message
    assert "the exact result is 1.90e5, above 65504, the largest float16" in finding.message
    assert "scale an operand before the product" in finding.advice
    assert "stream" not in finding.message + finding.advice


def test_the_format_is_that_of_the_result() -> None:
    cast = {"operation": "_to_copy", "dtype": "float32", "exact_max": 600.0}
    finding = one(first(X, result="float8_e4m3fn", **cast), "ND705")
    assert "600, above 448, the largest float8_e4m3fn" in finding.message
    assert "before the cast" in finding.advice


@pytest.mark.parametrize(
    ("kind", "says", "advises"),
    [
        ("zero-by-zero", "0 is divided by 0", "epsilon"),
        ("division-by-zero", "other than 0 is divided by 0", "epsilon"),
        ("masked-row", "a row of -inf alone", "mask"),
        ("zero-times-infinity", "multiplied by an infinity", "where"),
    ],
)
def test_a_cause_without_overflow_is_named_with_its_elements(kind, says, advises) -> None:
    cause = NonFiniteCause(kind=kind, elements=3)
    finding = one(first(X, kind="nan", site=None, cause=cause), "ND705")
    assert f"{says} (3 elements)" in finding.message and advises in finding.advice


def test_an_epsilon_of_zero_is_not_blamed_for_another_cause() -> None:
    cause = NonFiniteCause(kind="negative-root", elements=2)
    site = {"site": "layers.0.norm", "kind": "nan", "cause": cause}
    finding = one(first(X, eps=0.0, **site), "ND705")
    assert "root of a negative value is taken (2 elements)" in finding.message
    assert "epsilon" not in finding.message + finding.advice
