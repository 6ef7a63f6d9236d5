"""What the survey finds by moving thresholds is what the JSON of the report says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.generators.survey.quantities import find_quantities, find_quantity
from normdiag.pipeline import Options, inspect
from normdiag.report.report import Report
from normdiag.rules.registry import RULES
from normdiag.rules.rule import Rule
from normdiag.rules.threshold_borders import bisect_floats
from normdiag.rules.thresholds import Threshold
from tests.docs.survey_trends import READINGS
from tests.rules.sample_reports import ROOT, inspect_target, target

THRESHOLDS = {
    f"{rule.code}.{threshold.name}": (rule, threshold)
    for rule in RULES
    for threshold in rule.thresholds
}
ADJUSTABLE = [rule for rule in RULES if rule.thresholds]
BOTH_HOLD = {"ND601.rate", "ND602.rate"}
"""The healthy twin is beyond these and not beyond the rule's other threshold, the total."""


def check_against_json(report: Report, key: str) -> float | None:
    """Return the quantity, once it equals the extreme that is read from the JSON."""
    rule, threshold = THRESHOLDS[key]
    found = find_quantity(rule, threshold, report.to_evidence())
    values = [value for value in READINGS[key](report.to_dict()) if is_in_range(value, key)]
    if not values:
        assert found is None, key
    else:
        extreme = (min if threshold.is_lower else max)(values)
        assert found == pytest.approx(extreme, rel=1e-12), key
    return found


def is_in_range(value: float, key: str) -> bool:
    """Whether some setting in the range of the threshold reports the value."""
    _, threshold = THRESHOLDS[key]
    return value < threshold.high if threshold.is_lower else value > threshold.low


def is_beyond(found: float | None, threshold: Threshold) -> bool:
    if found is None:
        return False
    return found <= threshold.default if threshold.is_lower else found >= threshold.default


def keys_of(rule: Rule) -> list[str]:
    return [f"{rule.code}.{threshold.name}" for threshold in rule.thresholds]


def test_every_threshold_has_a_reading() -> None:
    assert set(READINGS) == set(THRESHOLDS)


@pytest.mark.parametrize("rule", ADJUSTABLE, ids=lambda rule: rule.name)
def test_the_model_with_the_defect_is_beyond_a_threshold(rule: Rule, tmp_path: Path) -> None:
    report = inspect_target(target(rule.fires_on, tmp_path), rule.family)
    found = {key: check_against_json(report, key) for key in keys_of(rule)}
    assert any(is_beyond(value, THRESHOLDS[key][1]) for key, value in found.items())


@pytest.mark.parametrize("rule", ADJUSTABLE, ids=lambda rule: rule.name)
def test_its_healthy_twin_is_within_all(rule: Rule, tmp_path: Path) -> None:
    report = inspect_target(target(rule.silent_on, tmp_path), rule.family)
    found = {key: check_against_json(report, key) for key in keys_of(rule)}
    beyond = {key for key, value in found.items() if is_beyond(value, THRESHOLDS[key][1])}
    assert beyond <= BOTH_HOLD


@pytest.mark.parametrize("number_format", ["float16", "bfloat16"])
def test_a_threshold_of_one_format_is_read_in_that_format(number_format: str) -> None:
    report = inspect(
        str(ROOT / "sample_models/tiny_llama"),
        options=Options(measure=("stream", "norms"), dtype=number_format),
    )
    of_format = [key for key in THRESHOLDS if key.startswith(("ND002", "ND70"))]
    found = {key for key in of_format if check_against_json(report, key) is not None}
    assert f"ND002.{number_format}" in found
    assert ("ND701.headroom_notable" in found) == (number_format == "float16")


def test_a_rule_without_evidence_finds_nothing() -> None:
    report = inspect_target(str(ROOT / "sample_models/tiny_llama"))
    found = find_quantities(report.to_evidence())
    assert found["ND503.kappa"] is None and found["ND601.total"] is None
    assert found["ND402.update_ratio"] is not None


@given(st.floats(allow_nan=False), st.booleans())
def test_a_border_is_found_to_one_float(border: float, is_above: bool) -> None:
    if is_above:
        found = bisect_floats(lambda setting: setting < border, -math.inf, math.inf)
    else:
        found = bisect_floats(lambda setting: setting > border, math.inf, -math.inf)
    near = (math.nextafter(border, -math.inf), border, math.nextafter(border, math.inf))
    assert near[0] <= found <= near[-1]
