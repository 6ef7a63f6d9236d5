from __future__ import annotations

import math

from tests.rules.builders import evidence, judge_rule, make_adds, one, run_rule
from tests.rules.precision.formats import make_evidence

AT = ("layers.2.norm", "layers.3.norm")


def squares(value: float, squared_in: str, **given):
    return make_evidence(
        max_square=dict.fromkeys(AT, value),
        square_formats=dict.fromkeys(AT, squared_in),
        max_abs={AT[0]: 300.0, AT[1]: 280.0},
        **given,
    )


def test_what_went_wrong_in_the_run_is_an_error() -> None:
    finding = one(squares(math.inf, "float16", run="float16", stored="float16"), "ND702")
    assert (finding.severity, finding.confidence) == ("error", "high")
    assert (finding.value, finding.threshold) == (90000.0, 65504.0)
    assert finding.ids == AT and "whose output is 0" in finding.message


def test_a_norm_that_casts_first_is_sound() -> None:
    assert run_rule(squares(90000.0, "float32", run="float16", stored="float16"), "ND702") == ()


def test_a_float16_checkpoint_in_a_wider_run_is_told_for_information() -> None:
    finding = one(squares(90000.0, "float32", stored="float16"), "ND702")
    assert (finding.severity, finding.value) == ("info", 90000.0)
    assert "if it is squared in float16" in finding.message


def test_other_models_are_not_told() -> None:
    assert run_rule(squares(90000.0, "float32"), "ND702") == ()
    assert run_rule(squares(90000.0, "bfloat16", run="bfloat16", stored="bfloat16"), "ND702") == ()


def test_squares_that_fit() -> None:
    assert run_rule(squares(65504.0, "float16", run="float16", stored="float16"), "ND702") == ()


def test_without_precision_it_is_skipped() -> None:
    assert "not measured" in judge_rule(evidence(adds=make_adds(1)), "ND702").skipped[0].why
